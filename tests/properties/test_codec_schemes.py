"""What the package registers, how its schemes resolve, and whole codecs composed by hand."""

import subprocess
import sys

import mlx.core as mx
import numpy as np
import pytest

from tqcore.errors import OptionError, WidthError
from tqcore.protocols import Codebook, Packer, Rotation
from tqcore.spec import ShapeCtx
from tqcore.widths import Widths
from tqplugins import plugin
from tqplugins.lloyd_max.levels import distortion
from tqplugins.schemes import uniform

SCHEMES = {info.name: info for info in plugin.tqcore_schemes()}
PARTS = [*plugin.tqcore_rotations(), *plugin.tqcore_codebooks(), *plugin.tqcore_packers()]


def part(kind, name, backend):
    (found,) = (p for p in PARTS if (p.kind, p.name, p.backend) == (kind, name, backend))
    return found.load()


def build(spec, dim, backend="mlx"):
    params = dict(spec.params)
    rotation = part("rotation", spec.rotation, backend)(dim, spec.seed, params)
    codebook = part("codebook", spec.codebook, backend)(
        rotation.dim_out, spec.bits, spec.scale, params
    )
    return rotation, codebook, part("packer", spec.packer, backend)(codebook.runs)


def round_trip(spec, x, backend="mlx"):
    rotation, codebook, packer = build(spec, x.shape[-1], backend)
    codes, side = codebook.encode(rotation.forward(x))
    planes = packer.pack(codes)
    declared = (*packer.planes, *codebook.side_planes)
    for plane, array in zip(declared, (*planes, *side), strict=True):
        assert tuple(array.shape) == (*x.shape[:-1], *plane.shape)
        assert str(array.dtype).removeprefix("mlx.core.") == plane.dtype
    bits = 8 * sum(p.nbytes for p in declared)
    return rotation.inverse(codebook.decode(packer.unpack(planes), side)), bits


@pytest.mark.parametrize("entry", PARTS, ids=lambda p: f"{p.kind}-{p.name}-{p.backend}")
def test_parts_fit_their_protocol(entry):
    spec = SCHEMES["uniform" if entry.name in ("mlx-affine", "raw") else "turboquant"].resolve(4)
    args = {
        "rotation": (64, 0, {}),
        "codebook": (64, 4, spec.key.scale, {}),
        "packer": (((64, 32 if entry.name == "raw" else 4),),),
    }
    built = entry.load()(*args[entry.kind])
    assert isinstance(
        built, {"rotation": Rotation, "codebook": Codebook, "packer": Packer}[entry.kind]
    )
    assert entry.summary


def test_every_part_has_its_oracle():
    names = {(p.kind, p.name, backend) for p in PARTS for backend in ("mlx", "numpy")}
    assert {(p.kind, p.name, p.backend) for p in PARTS} == names


def test_plugin_is_light():
    code = (
        "import sys, tqplugins.plugin as p; "
        "[f() for n, f in vars(p).items() if n.startswith('tqcore_')]; "
        "print([m for m in ('numpy', 'scipy', 'mlx') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("backend", ["mlx", "numpy"])
@pytest.mark.parametrize("scheme", ["turboquant", "turboquant-prod", "uniform"])
@pytest.mark.parametrize(("key_dim", "value_dim"), [(64, 64), (80, 96), (1, 72), (192, 128)])
def test_codecs_of_every_shape(scheme, key_dim, value_dim, backend):
    ctx = ShapeCtx(layer=1, n_layers=4, key_dim=key_dim, value_dim=value_dim)
    spec = SCHEMES[scheme].resolve(8, None, ctx)
    for side, dim in ((spec.key, key_dim), (spec.value, value_dim)):
        x = np.random.default_rng(0).normal(size=(1, 2, 40, dim)).astype(np.float32)
        y, _ = round_trip(side, x if backend == "numpy" else mx.array(x), backend)
        assert ((np.array(y) - x) ** 2).sum() / (x**2).sum() < 2e-4


@pytest.mark.parametrize(
    ("asked", "key", "value"), [(4, 4, 4), (3.5, 3, 4), (None, 3, 4), (1, 1, 1), (2.5, 2, 3)]
)
def test_turboquant_widths(asked, key, value):
    spec = SCHEMES["turboquant"].resolve(asked)
    assert (spec.key.bits, spec.value.bits) == (key, value)
    assert spec.value.seed == spec.key.seed + 1
    assert spec.policy.skip == "last"


def test_turboquant_other_fractions_are_met_on_average():
    info, total, layers = SCHEMES["turboquant"], 0.0, 7
    for layer in range(layers):
        spec = info.resolve(3.31, None, ShapeCtx(layer, layers, 2, 80, 80))
        for side in (spec.key, spec.value):
            assert (side.bits * 80) % 1 == pytest.approx(0, abs=1e-9)
            total += side.bits
    assert total / (2 * layers) == pytest.approx(3.31, abs=0.51 / (2 * layers * 80))


def test_turboquant_explicit_widths_and_options():
    spec = SCHEMES["turboquant"].resolve(
        Widths(key=4.25, value=2), {"scale": "mse", "seed": "9", "rotation": "orthogonal"}
    )
    assert (spec.key.bits, spec.value.bits) == (4.25, 2)
    assert (spec.key.scale, spec.key.seed, spec.value.seed) == ("mse", 9, 10)
    assert spec.key.rotation == spec.value.rotation == "orthogonal"
    with pytest.raises(OptionError, match="norm, mse, unbiased"):
        SCHEMES["turboquant"].resolve(4, {"scale": "best"})
    with pytest.raises(WidthError):
        SCHEMES["turboquant"].resolve(9)


def test_uniform_options():
    spec = SCHEMES["uniform"].resolve()
    assert (spec.key.bits, spec.key.codebook, spec.policy.skip) == (8, "mlx-affine", "none")
    spec = SCHEMES["uniform"].resolve(4, {"group_size": 32})
    assert dict(spec.key.params) == {"group_size": 32}
    spec = SCHEMES["uniform"].resolve(3.5)
    assert (spec.key.bits, spec.value.bits) == (3, 4)
    for bits in (7, 2.25, 1):
        with pytest.raises(WidthError):
            SCHEMES["uniform"].resolve(bits)
    with pytest.raises(WidthError, match="whole widths"):
        uniform.resolve(Widths(2.25), {"group_size": 64}, ShapeCtx())


@pytest.mark.parametrize(("bits", "stored"), [(2, 34), (3, 50), (4, 66), (8, 130), (2.5, 42)])
def test_bytes_and_distortion_of_turboquant(bits, stored):
    """Bytes a vector, 2-byte scale included, and the error that theory gives at them."""
    spec = SCHEMES["turboquant"].resolve(Widths(key=bits, value=bits)).key
    x = mx.array(np.random.default_rng(0).normal(size=(2000, 128)).astype(np.float32))
    y, size = round_trip(spec, x)
    assert size == 8 * stored
    error = float((((x - y) ** 2).sum(-1) / (x**2).sum(-1)).mean())
    norm = distortion(128, bits)
    # s = |u|^2/<u,c> costs D/(1-D) where the plain norm costs D; least squares costs no more.
    assert spec.scale == ("unbiased" if bits >= 3 else "mse")
    expected = norm / (1 - norm) if bits >= 3 else norm
    assert error == pytest.approx(expected, rel=0.03)


def test_inner_products_are_unbiased():
    spec = SCHEMES["turboquant"].resolve(2, {"scale": "unbiased"}).key
    rng = np.random.default_rng(1)
    x = rng.normal(size=(4000, 64)).astype(np.float32)
    q = (x + rng.normal(size=x.shape)).astype(np.float32)
    y = np.array(round_trip(spec, mx.array(x))[0])
    assert (q * y).sum() / (q * x).sum() == pytest.approx(1, abs=0.01)
    biased = SCHEMES["turboquant"].resolve(2, {"scale": "norm"}).key
    y = np.array(round_trip(biased, mx.array(x))[0])
    assert (q * y).sum() / (q * x).sum() < 0.96
