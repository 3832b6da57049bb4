from tqcore.hookspecs import hookimpl
from tqcore.spec import CodecSpec, Component, SchemeInfo, SchemeSpec


@hookimpl
def tqcore_codebooks():
    return [Component("codebook", "nf4", "sample_nf.codebook:NormalFloat")]


@hookimpl
def tqcore_schemes():
    return [SchemeInfo("sample-nf", "sample_nf.plugin:resolve", widths=(4,), default_bits=4)]


def resolve(widths, options, ctx):
    return SchemeSpec(*(CodecSpec("hadamard", "nf4", "u32le", bits) for bits in widths.sides()))
