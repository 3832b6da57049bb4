"""``tqcore explain SCHEME``: what is stored, what it costs and which kernel serves it."""

from __future__ import annotations

import argparse
from typing import Any

from tqcore.choice import SchemeChoice
from tqcore.cli._arguments import positive
from tqcore.cli._output import add_json_flag, print_json
from tqcore.spec import ShapeCtx

DTYPES = ("float16", "bfloat16", "float32")


def add_parser(subparsers: Any) -> None:
    """Add the subcommand; the defaults are the shapes of an 8B-class model."""
    parser = subparsers.add_parser(
        "explain",
        description="Show the parts of a scheme, the planes it stores, true bytes, and the "
        "kernel that serves it with the reasons against every other one.",
    )
    scheme = "NAME or NAME:option=value,option=value; KEYS+VALUES; @FILE for a plan"
    parser.add_argument("scheme", help=scheme)
    widths = parser.add_argument_group("widths")
    widths.add_argument("--bits", type=float, help="as --kv-bits; default: the scheme's own")
    widths.add_argument("--key-bits", type=float, help="as --kv-key-bits")
    widths.add_argument("--value-bits", type=float, help="as --kv-value-bits")
    shapes = parser.add_argument_group("the model", "a plan has its own")
    shapes.add_argument("--head-dim", type=positive, metavar="D", help="default: 128")
    shapes.add_argument("--value-dim", type=positive, metavar="D", help="default: --head-dim")
    shapes.add_argument("--kv-heads", type=positive, metavar="N", help="default: 8")
    shapes.add_argument(
        "--q-heads", type=positive, metavar="N", help="default: 32, or --kv-heads of a plan"
    )
    shapes.add_argument("--layers", type=positive, metavar="N", help="default: 32")
    shapes.add_argument(
        "--layer", type=int, default=0, metavar="I", help="the layer whose parts are shown"
    )
    call = parser.add_argument_group("the attention call")
    call.add_argument("--dtype", choices=DTYPES, default="float16")
    call.add_argument("--device", choices=("auto", "cpu", "metal", "cuda"), default="auto")
    call.add_argument("--q-len", type=positive, default=1, metavar="L")
    call.add_argument("--mask", choices=("none", "causal", "array"), default="none")
    add_json_flag(parser)


def _fill_shapes(args: argparse.Namespace, choice: SchemeChoice) -> None:
    """Take what was not said from the plan's model, or else from an 8B-class model."""
    planned = choice.fits is not None
    place = choice.place(ShapeCtx(n_layers=32, kv_heads=8, key_dim=128, value_dim=128))
    args.layers = args.layers or place.n_layers
    args.kv_heads = args.kv_heads or place.kv_heads
    args.q_heads = args.q_heads or (args.kv_heads if planned else 32)
    if planned and args.value_dim is None and args.head_dim is None:
        args.value_dim = place.value_dim
    args.head_dim = args.head_dim or place.key_dim


def run(args: argparse.Namespace) -> int:
    """Explain one scheme; a mistake in its name or widths is refused before mlx loads."""
    from tqcore import schemestring

    choice = schemestring.choose(args.scheme, args.bits, args.key_bits, args.value_bits)
    _fill_shapes(args, choice)
    from tqcore.cli import _explanation

    described = _explanation.describe(choice, args)
    if args.json:
        print_json(described)
    else:
        _explanation.show(described)
    return 0
