"""Prompt caches in files: bit for bit there and back, and refused when anything is off."""

import json

import mlx.core as mx
import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import save_file

import tqcore
from tqcore.cache import QuantizedKVCache, load_caches, save_caches
from tqcore.errors import StateError


def filled(scheme="turboquant", dtype=mx.bfloat16, layers=4):
    caches = tqcore.make_caches(scheme, layers, 4)
    for layer, cache in enumerate(caches):
        rng = np.random.default_rng(layer)
        cache.update_and_fetch(
            *(mx.array(rng.standard_normal((1, 2, 90, 64))).astype(dtype) for _ in "kv")
        )
    return caches


@pytest.fixture
def saved(tmp_path):
    caches = filled("turboquant:sinks=4,window=8")
    save_caches(tmp_path / "prompt.safetensors", caches, {"prompt": "hello"})
    return tmp_path / "prompt.safetensors", caches


@pytest.mark.parametrize("dtype", [mx.float16, mx.bfloat16, mx.float32])
@pytest.mark.parametrize(
    "scheme",
    ["turboquant", "turboquant-prod", "uniform", "turboquant:sinks=4,window=8+uniform"],
)
def test_field_case_17_loaded_caches_decode_bit_for_bit(tmp_path, scheme, dtype):
    """The last layer is dense, and comes back as what it was."""
    caches = filled(scheme, dtype)
    save_caches(tmp_path / "c.safetensors", caches)
    loaded, _ = load_caches(tmp_path / "c.safetensors")
    q = mx.random.normal((1, 4, 1, 64), key=mx.random.key(0)).astype(dtype)
    new = mx.ones((1, 2, 1, 64), dtype)
    for one, other in zip(caches, loaded, strict=True):
        assert one.report() == other.report() or one.nbytes != other.nbytes
        assert one.is_quantized == other.is_quantized
        assert one.meta_state == other.meta_state
        outs = [c.attend(q, *c.update_and_fetch(new, new), scale=0.125) for c in (one, other)]
        assert mx.array_equal(*outs)


def test_metadata_of_the_callers_own_comes_back(saved):
    assert load_caches(saved[0])[1] == {"prompt": "hello"}
    assert [p.name for p in saved[0].parent.iterdir()] == [saved[0].name], "no partial file stays"


def test_an_empty_cache_can_be_written(tmp_path):
    save_caches(tmp_path / "c.safetensors", [QuantizedKVCache("turboquant", 4)])
    (cache,), _ = load_caches(tmp_path / "c.safetensors")
    assert cache.empty()


def rewrite(path, change=lambda record: None, change_arrays=lambda arrays: None):
    with safe_open(path, "np") as file:
        record = json.loads(file.metadata()["tqcore"])
        arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    change(record)
    change_arrays(arrays)
    save_file(arrays, path, {"tqcore": json.dumps(record)})


def set_meta(old, new):
    def change(record):
        for layer in record["layers"]:
            assert old in layer["meta"]
            layer["meta"] = layer["meta"].replace(old, new)

    return change


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda r: r.update(format=7), "format 7"),
        (lambda r: r["layers"].pop() and r["layers"].append({}), "layer 3: the record"),
        (lambda r: r["digests"].popitem(), "not those of its record"),
        (lambda r: r["layers"][1].update(dtypes=[[], []]), "layer 1"),
        (set_meta("turboquant", "tubroquant"), "did you mean 'turboquant'"),
        (set_meta('"dims":[64,64]', '"dims":[32,64]'), "layer 0"),
        (set_meta('"scheme":"', '"scheme":"os:system,'), "layer 0"),
    ],
)
def test_a_record_that_does_not_fit_is_refused(saved, change, message):
    rewrite(saved[0], change)
    with pytest.raises(StateError, match=message):
        load_caches(saved[0])


def test_tampered_data_is_refused(saved):
    def flip(arrays):
        arrays["0.k.1"] = arrays["0.k.1"] ^ 1

    rewrite(saved[0], change_arrays=flip)
    with pytest.raises(StateError, match=r"changed after it was written \(0\.k\.1\)"):
        load_caches(saved[0])


@pytest.mark.parametrize("keep", [0, 5, 300, -1, -4000])
def test_truncated_files_are_refused(saved, keep):
    saved[0].write_bytes(saved[0].read_bytes()[:keep])
    with pytest.raises(StateError, match="safetensors"):
        load_caches(saved[0])


def test_other_files_are_refused(tmp_path):
    with pytest.raises(StateError, match="no such file"):
        load_caches(tmp_path / "none.safetensors")
    save_file({"a": np.zeros(3)}, tmp_path / "other.safetensors")
    with pytest.raises(StateError, match="not a prompt cache of tqcore"):
        load_caches(tmp_path / "other.safetensors")


def test_what_cannot_be_written_is_named(tmp_path):
    class ArraysCache:
        keys = values = None

    with pytest.raises(StateError, match="layer 1 is a ArraysCache"):
        save_caches(tmp_path / "c.safetensors", [*filled(layers=1), ArraysCache()])
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("host", ["lm", "vlm"])
def test_loaded_for_a_host_with_its_dense_layers(tmp_path, host):
    pytest.importorskip(f"mlx_{host}")
    caches = tqcore.make_caches("turboquant", 4, 4, host=host)
    for cache in caches:
        cache.update_and_fetch(*(mx.random.normal((1, 2, 20, 64)) for _ in "kv"))
    save_caches(tmp_path / "c.safetensors", caches)
    loaded, _ = load_caches(tmp_path / "c.safetensors", host=host)
    assert type(loaded[0]) is type(caches[0])
    assert [cache.is_quantized for cache in loaded] == [True, True, True, False]
    assert mx.array_equal(loaded[3].dequantize()[0], caches[3].state[0][:, :, :20])
