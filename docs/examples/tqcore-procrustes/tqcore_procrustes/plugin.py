"""What this package registers."""

import hashlib
from pathlib import Path

from tqcore.errors import OptionError
from tqcore.hookspecs import hookimpl
from tqcore.spec import CodecSpec, Component, Option, SchemeInfo, SchemeSpec


@hookimpl
def tqcore_rotations():
    """Return the rotation."""
    return [
        Component(
            "rotation",
            "procrustes",
            "tqcore_procrustes.rotation:Procrustes",
            summary="learnt from a model's keys and values: a matrix a layer and side",
        )
    ]


@hookimpl
def tqcore_schemes():
    """Return the scheme."""
    return [
        SchemeInfo(
            "procrustes",
            "tqcore_procrustes.plugin:resolve",
            options=(Option("file", "str", "", "what tqcore-procrustes wrote for this model"),),
            bits_range=(1, 8),
            default_bits=2,
            summary="turboquant's levels on a rotation that is learnt for them",
        )
    ]


def resolve(widths, options, ctx):
    """Return the codecs of one layer: our rotation, tqcore's levels and packer.

    Specs hold strings and numbers: where the matrix is, which one, and a digest, so that a saved
    cache is never read with another.
    """
    path = Path(options["file"])
    if not path.is_file():
        raise OptionError(
            f"procrustes needs file=..., a rotation learnt by `tqcore-procrustes MODEL FILE`; "
            f"{options['file']!r} is no file"
        )
    digest = hashlib.sha256(path.read_bytes()).hexdigest()[:16]

    def codec(side, bits):
        params = {"file": str(path.resolve()), "digest": digest, "matrix": f"{side}.{ctx.layer}"}
        scale = "mse" if bits < 3 else "unbiased"
        return CodecSpec("procrustes", "beta-lloyd-max", "u32le", bits, scale=scale, params=params)

    key, value = widths.sides()
    return SchemeSpec(codec("key", key), codec("value", value))
