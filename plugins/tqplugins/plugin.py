"""What this package registers. Light: descriptions only, nothing is built or imported here."""

from __future__ import annotations

from tqcore.hookspecs import hookimpl
from tqcore.spec import Component, Kind, Option, SchemeInfo

_SCALE = (
    "what the stored scale makes exact: the norm, the squared error, or inner products; "
    "auto: mse below 3 bits, else unbiased"
)
_TRAINED_SCALE = (
    "what the stored scale makes exact: the squared error, or inner products; auto: unbiased"
)
_SEARCH = "sizes each vector is encoded at, the best kept: less error, slower encoding"


def _both(kind: Kind, name: str, place: str, attr: str, summary: str) -> list[Component]:
    """Return a part and the float64 oracle beside it."""
    return [
        Component(kind, name, f"tqplugins.{place}.device:{attr}", "mlx", summary),
        Component(kind, name, f"tqplugins.{place}.naive:Naive{attr}", "numpy", summary),
    ]


_ROTATION = (
    Option("seed", "int", 0, "seed of the key rotation; values use the next one"),
    Option("rotation", "str", "hadamard", "a registered rotation"),
    Option(
        "rounds",
        "int",
        0,
        "rounds of the hadamard rotation; 0: one, or three where head_dim needs several blocks",
        choices=tuple(range(9)),
    ),
)
"""Options of the schemes that rotate."""


@hookimpl
def tqcore_rotations() -> list[Component]:
    """Return the rotations."""
    return [
        *_both(
            "rotation",
            "hadamard",
            "hadamard",
            "HadamardRotation",
            "random signs and block Hadamard transforms, any dimension",
        ),
        *_both(
            "rotation",
            "orthogonal",
            "orthogonal",
            "OrthogonalRotation",
            "dense Haar-distributed orthogonal matrix",
        ),
        *_both("rotation", "identity", "identity", "IdentityRotation", "no rotation"),
    ]


@hookimpl
def tqcore_codebooks() -> list[Component]:
    """Return the codebooks."""
    return [
        *_both(
            "codebook",
            "beta-lloyd-max",
            "lloyd_max",
            "LloydMaxCodebook",
            "optimal levels for a coordinate of a random unit vector",
        ),
        *_both(
            "codebook",
            "beta-lloyd-max-search",
            "lloyd_max",
            "SearchedLloydMaxCodebook",
            "the same levels, each vector encoded at several sizes and the best kept",
        ),
        *_both(
            "codebook",
            "pair",
            "pair",
            "PairCodebook",
            "two coordinates a code, from a trained table of points in the plane",
        ),
        *_both(
            "codebook",
            "trellis",
            "trellis",
            "TrellisCodebook",
            "trellis-coded quantization: twice the levels of the width, by a tail-biting path",
        ),
        *_both(
            "codebook",
            "beta-lloyd-max-qjl",
            "qjl",
            "QjlCodebook",
            "a bit less of those levels, and a one-bit sketch of what they leave over",
        ),
        *_both(
            "codebook",
            "uniform",
            "uniform",
            "UniformCodebook",
            "evenly spaced levels with the optimal step",
        ),
        *_both(
            "codebook",
            "mlx-affine",
            "affine",
            "AffineCodebook",
            "MLX's own group-wise affine quantization",
        ),
    ]


@hookimpl
def tqcore_packers() -> list[Component]:
    """Return the packers."""
    return [
        *_both("packer", "u32le", "bitpack", "BitPacker", "dense little-endian bit stream"),
        *_both("packer", "raw", "affine", "RawPacker", "32-bit words as they are"),
    ]


@hookimpl
def tqcore_score_kernels() -> list[Component]:
    """Return the score kernels."""
    return [
        Component(
            "score_kernel",
            "portable",
            "tqplugins.kernels_mlx.device:PortableKernel",
            summary="plain MLX operations, serves every request",
        ),
        Component(
            "score_kernel",
            "cpu-compiled",
            "tqplugins.kernels_cpu.device:CompiledKernel",
            summary="compiled CPU code on all processors; needs the extra `fast`",
        ),
    ]


@hookimpl
def tqcore_schemes() -> list[SchemeInfo]:
    """Return the schemes."""
    return [
        SchemeInfo(
            name="turboquant",
            target="tqplugins.schemes.turboquant:resolve",
            options=(
                Option("scale", "str", "auto", _SCALE, ("auto", "norm", "mse", "unbiased")),
                *_ROTATION,
                Option("search", "int", 1, _SEARCH),
            ),
            default_bits=3.5,
            skip="last",
            summary="random rotation, Lloyd-Max levels, bit packing (arXiv 2504.19874)",
        ),
        SchemeInfo(
            name="turboquant-prod",
            target="tqplugins.schemes.turboquant_prod:resolve",
            options=(
                Option(
                    "scale",
                    "str",
                    "unbiased",
                    "what the stored length of a key's sketch makes exact: the norm, as in the "
                    "paper, the squared error, or inner products",
                    choices=("norm", "mse", "unbiased"),
                ),
                Option(
                    "sketch",
                    "str",
                    "hadamard",
                    "the projection: fast and orthogonal, or the paper's",
                    choices=("hadamard", "gaussian"),
                ),
                *_ROTATION,
            ),
            bits_range=(2, 8),
            default_bits=4,
            skip="last",
            summary="turboquant with a one-bit sketch of each key's residual (Algorithm 2)",
        ),
        SchemeInfo(
            name="pair",
            target="tqplugins.schemes.trained:resolve_pair",
            options=(
                Option("scale", "str", "auto", _TRAINED_SCALE, ("auto", "mse", "unbiased")),
                *_ROTATION,
                Option("search", "int", 8, _SEARCH),
            ),
            bits_range=(1, 4),
            default_bits=3.5,
            widths=(1, 1.5, 2, 2.5, 3, 3.5, 4),
            skip="last",
            summary="random rotation, trained points for pairs of coordinates",
        ),
        SchemeInfo(
            name="trellis",
            target="tqplugins.schemes.trained:resolve_trellis",
            options=(
                Option("scale", "str", "auto", _TRAINED_SCALE, ("auto", "mse", "unbiased")),
                *_ROTATION,
                Option("search", "int", 8, _SEARCH),
                Option("states", "int", 4, "states of the trellis: 4, or 8 for less error"),
            ),
            bits_range=(1, 5),
            default_bits=3.5,
            widths=(1, 1.5, 2, 2.5, 3, 3.5, 4, 5),
            defaults={"sinks": 2, "centre": "balanced"},
            summary="random rotation, tail-biting trellis codes, centred and balanced; recommended",
        ),
        SchemeInfo(
            name="uniform",
            target="tqplugins.schemes.uniform:resolve",
            options=(
                Option("group_size", "int", 64, "values that share a scale", choices=(32, 64, 128)),
            ),
            bits_range=(2, 8),
            default_bits=8,
            widths=(2, 3, 4, 5, 6, 8),
            summary="MLX's affine quantization, as in mlx-lm's quantized cache",
        ),
    ]
