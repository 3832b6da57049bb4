"""What this package registers."""

from tqcore.hookspecs import hookimpl
from tqcore.spec import CodecSpec, Component, Option, SchemeInfo, SchemeSpec


@hookimpl
def tqcore_codebooks():
    """Return the codebook."""
    return [
        Component(
            "codebook",
            "e8p",
            "tqcore_e8p.codebook:E8P",
            summary="eight coordinates a code of 16 bits, points of the E8 lattice",
        )
    ]


@hookimpl
def tqcore_schemes():
    """Return the scheme."""
    return [
        SchemeInfo(
            "e8p",
            "tqcore_e8p.plugin:resolve",
            options=(Option("seed", "int", 0, "seed of the keys' rotation; values use the next"),),
            bits_range=(2, 4),
            widths=(2, 4),
            default_bits=2,
            summary="random rotation, lattice points for eight coordinates at a time (QuIP#)",
        )
    ]


def resolve(widths, options, ctx):
    """Return the codecs of one layer: tqcore's rotation and packer, our codebook."""
    seed = options["seed"]
    key, value = widths.sides()
    return SchemeSpec(
        CodecSpec("hadamard", "e8p", "u32le", key, seed=seed),
        CodecSpec("hadamard", "e8p", "u32le", value, seed=seed + 1),
    )
