"""Every hook of plugin API 1, with every field that a description has in it."""

from tqcore.hookspecs import hookimpl
from tqcore.spec import CodecSpec, Component, Option, SchemeInfo, SchemeSpec, ShapeCtx
from tqcore.widths import Widths


def both(kind, name, module, attribute, summary):
    return [
        Component(
            kind=kind,
            name=name,
            target=f"tqcore_compat_api1.{module}:{attribute}",
            backend="mlx",
            summary=summary,
            api=1,
        ),
        # positional, and of no declared version, as plugins were written too
        Component(kind, name, f"tqcore_compat_api1.{module}:Naive{attribute}", "numpy"),
    ]


@hookimpl
def tqcore_rotations():
    return both("rotation", "compat-1-flip", "rotation", "Flip", "reversed, with signs")


@hookimpl
def tqcore_codebooks():
    return both("codebook", "compat-1-steps", "codebook", "Steps", "even steps to the largest")


@hookimpl
def tqcore_packers():
    return both("packer", "compat-1-bytes", "packer", "Bytes", "nibbles and bytes")


@hookimpl
def tqcore_score_kernels():
    return [
        Component("score_kernel", "compat-1-plain", "tqcore_compat_api1.kernel:Plain"),
        Component("score_kernel", "compat-1-whole", "tqcore_compat_api1.kernel:Whole", api=1),
    ]


def tqcore_schemes():  # a hook needs no marker
    return (
        SchemeInfo(
            name="compat-1",
            target="tqcore_compat_api1.plugin:resolve",
            options=(
                Option("seed", "int", 0, "of the rotation"),
                Option("reach", "float", 1.0, "largest level over the largest magnitude"),
                Option("kind", "str", "flip", "which rotation", choices=("flip", "none")),
                Option("swap", "bool", False, "values get the keys' seed"),
            ),
            bits_range=(4, 8),
            default_bits=4,
            widths=(4, 8),
            skip="last",
            summary="every field of a scheme",
            api=1,
        ),
        SchemeInfo("compat-1-borrowed", "tqcore_compat_api1.plugin:borrowed", default_bits=3),
    )


def resolve(widths: Widths, options: dict, ctx: ShapeCtx) -> SchemeSpec:
    assert 0 <= ctx.layer < ctx.n_layers
    assert ctx.kv_heads > 0 and ctx.key_dim > 0 and ctx.value_dim > 0
    key, value = widths.sides()
    rotation = "compat-1-flip" if options["kind"] == "flip" else "identity"

    def codec(bits, seed):
        return CodecSpec(
            rotation=rotation,
            codebook="compat-1-steps",
            packer="compat-1-bytes",
            bits=bits,
            seed=seed,
            scale="norm",
            centre="none",
            params={"reach": options["reach"]},
        )

    return SchemeSpec(codec(key, options["seed"]), codec(value, 0 if options["swap"] else 1))


def borrowed(widths, options, ctx):
    """Only parts that the core brings, under the names they have in API 1."""
    key, value = widths.sides(floor_keys=False)
    return SchemeSpec(
        CodecSpec("hadamard", "beta-lloyd-max", "u32le", key),
        CodecSpec("orthogonal", "beta-lloyd-max", "u32le", value, 1),
    )
