"""What this package registers."""

from tqcore.hookspecs import hookimpl
from tqcore.spec import CodecSpec, Component, Option, SchemeInfo, SchemeSpec


@hookimpl
def tqcore_codebooks():
    """Return the codebook."""
    return [
        Component(
            "codebook",
            "mx-float",
            "tqcore_mxfp4.codebook:MicroscalingFloat",
            summary="OCP MXFP4 and MXFP6: small floats, a power of two for 32 of them",
        )
    ]


@hookimpl
def tqcore_schemes():
    """Return the scheme."""
    return [
        SchemeInfo(
            "mxfp4",
            "tqcore_mxfp4.plugin:resolve",
            options=(
                Option("rotation", "str", "hadamard", "a registered rotation, or identity"),
                Option("seed", "int", 0, "seed of the keys' rotation; values use the next"),
            ),
            bits_range=(4, 6),
            widths=(4, 6),
            default_bits=4,
            summary="microscaling floats of the Open Compute Project, by ml_dtypes",
        )
    ]


def resolve(widths, options, ctx):
    """Return the codecs of one layer: tqcore's rotation and packer, our codebook."""
    key, value = widths.sides()
    rotation, seed = options["rotation"], options["seed"]
    return SchemeSpec(
        CodecSpec(rotation, "mx-float", "u32le", key, seed=seed),
        CodecSpec(rotation, "mx-float", "u32le", value, seed=seed + 1),
    )
