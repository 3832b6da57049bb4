"""tqcore's contract, and what learning is for."""

import hashlib

import numpy as np
import pytest
from tqcore_procrustes.learn import learn

from tqcore.codec import codec_for
from tqcore.errors import OptionError
from tqcore.registry import registry
from tqcore.spec import CodecSpec, ShapeCtx
from tqcore.testing import checks
from tqcore.testing.contract import contract


@contract("rotation:procrustes")
def test_contract(check):
    """Run one check of the rotation; the scheme's need a file, below."""
    check()


@pytest.fixture(scope="module")
def vectors():
    """Return vectors that lie near a few directions, as keys do."""
    rng = np.random.default_rng(0)
    means = rng.standard_normal((3, 1, 64)) * 2
    return (means + rng.standard_normal((3, 700, 64)) * np.linspace(0.1, 2, 64)).reshape(-1, 64)


@pytest.fixture(scope="module")
def file(vectors, tmp_path_factory):
    """Return a file for a model of four layers."""
    path = tmp_path_factory.mktemp("learnt") / "four.npz"
    matrix = learn(vectors[::2])
    np.savez(path, **{f"{side}.{layer}": matrix for side in ("key", "value") for layer in range(4)})
    return path


def test_it_has_less_error_than_a_random_rotation(vectors, file):
    """Held-out vectors of the same kind, 2 bits."""
    info, x = registry().scheme("procrustes"), vectors[1::2]
    ours = info.resolve(2, {"file": str(file)}, ShapeCtx(key_dim=64, value_dim=64)).key
    plain = CodecSpec("hadamard", "beta-lloyd-max", "u32le", 2, scale="mse")
    errors = [_error(codec_for(spec, 64), x) for spec in (ours, plain)]
    assert errors[0] < 0.95 * errors[1]


@pytest.mark.parametrize(
    "check", [checks.check_spec_json, checks.check_scheme_storage, checks.check_scheme_attention]
)
def test_the_scheme_with_a_file(check, file):
    """The scheme's checks, resolved with a file."""
    from tqcore.testing.targets import items_of

    check(items_of(f"procrustes:file={file}", registry())[0])


def test_another_file_than_a_cache_was_written_with_is_refused(file):
    """The digest travels in the spec."""
    spec = registry().scheme("procrustes").resolve(2, {"file": str(file)}).key
    assert dict(spec.params)["digest"] == hashlib.sha256(file.read_bytes()).hexdigest()[:16]
    other = CodecSpec.from_dict({**spec.to_dict(), "params": {**dict(spec.params), "digest": "0"}})
    with pytest.raises(OptionError, match="learnt anew"):
        codec_for(other, 64)


def test_a_scheme_without_a_file_says_how_to_make_one():
    """Nothing is quantized on a rotation that was never learnt."""
    with pytest.raises(OptionError, match="tqcore-procrustes MODEL FILE"):
        registry().scheme("procrustes").resolve(2)


def _error(codec, x):
    import mlx.core as mx

    back = np.array(codec.decode(codec.encode(mx.array(x.astype(np.float32)))))
    return float((((back - x) ** 2).sum(-1) / (x**2).sum(-1)).mean())
