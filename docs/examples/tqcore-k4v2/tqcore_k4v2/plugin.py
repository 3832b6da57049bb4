"""A scheme without a part of its own: keys need the bits, and each side has its best coder."""

from tqcore.hookspecs import hookimpl
from tqcore.spec import CodecSpec, Option, SchemeInfo, SchemeSpec


@hookimpl
def tqcore_schemes():
    """Return the scheme."""
    return [
        SchemeInfo(
            "k4v2",
            "tqcore_k4v2.plugin:resolve",
            options=(Option("seed", "int", 0, "seed of the keys' rotation; values use the next"),),
            bits_range=(3, 3),
            widths=(3,),
            default_bits=3,
            summary="4-bit trellis keys, 2-bit lattice values: 3 bits a value",
        )
    ]


def resolve(widths, options, ctx):
    """Return the codecs of one layer, whatever it is: two others' codebooks on one rotation."""
    seed = options["seed"]
    search = {"search": 8, "states": 4}
    return SchemeSpec(
        CodecSpec("hadamard", "trellis", "u32le", 4, seed=seed, scale="unbiased", params=search),
        CodecSpec("hadamard", "e8p", "u32le", 2, seed=seed + 1, scale="mse"),
    )
