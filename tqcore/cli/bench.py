"""``tqcore bench``: speed and memory here, as ratios to dense attention and to other projects."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tqcore.cli._arguments import positive
from tqcore.cli._output import add_json_flag, print_json, print_table

if TYPE_CHECKING:
    from tqcore.bench.report import Report

EPILOG = "Figures of a busy machine are wrong; the ratios less so. TQCORE_KERNEL names a kernel."


def add_parser(subparsers: Any) -> None:
    """Add the subcommand and its three."""
    parser = subparsers.add_parser(
        "bench",
        description="Measure on this machine, contenders in turns: MLX's dense attention, "
        "mlx-lm's quantized one, mlx-vlm's TurboQuant, and schemes. Ratios are what counts.",
        epilog=EPILOG,
    )
    which = parser.add_subparsers(dest="benchmark", metavar="BENCHMARK", required=True)
    attention = which.add_parser("attention", help="a decode step's attention", epilog=EPILOG)
    _add_shapes(attention, "1024,4096")
    attention.add_argument(
        "--layers", type=positive, metavar="N", help="of a step; default: 32 on a GPU, 1 on a CPU"
    )
    encode = which.add_parser("encode", help="packing keys and values", epilog=EPILOG)
    _add_shapes(encode, "1,256,4096")
    generate = which.add_parser("generate", help="a model's speed and peak memory", epilog=EPILOG)
    _add_model(generate)
    for each in (attention, encode, generate):
        _add_common(each)


def _add_shapes(parser: argparse.ArgumentParser, tokens: str) -> None:
    from tqcore.bench.options import DTYPES

    shapes = parser.add_argument_group("shapes, several with commas between")
    for flag, default, what in (
        ("--tokens", tokens, "tokens of a row"),
        ("--batch", "1", "rows"),
        ("--gqa", "4", "query heads a key/value head"),
        ("--head-dim", "128", "values of a head"),
    ):
        shapes.add_argument(
            flag, type=counts, default=counts(default), metavar="N,N", help=f"{what}; {default}"
        )
    shapes.add_argument("--kv-heads", type=positive, default=8, metavar="N", help="8")
    shapes.add_argument(
        "--dtypes",
        type=dtypes,
        default=(),
        metavar="NAME,NAME",
        help=f"of dense attention, of {', '.join(DTYPES)}; all inputs take the first",
    )
    parser.add_argument("--no-peers", action="store_true", help="mlx-lm and mlx-vlm stay out")


def _add_model(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "model", nargs="?", help="a folder, or a name on the hub; default: the demo's, offline"
    )
    parser.add_argument("--contexts", type=counts, default=(), metavar="N,N", help="prompt lengths")
    parser.add_argument("--steps", type=positive, default=4, help="tokens a turn; 4")
    parser.add_argument("--chunk", type=positive, metavar="N", help="prompt tokens read at once")
    parser.add_argument("--host", choices=("vlm", "lm"), help="who runs the model")
    parser.add_argument("--peers", action="store_true", help="the host's quantized caches too")


def _add_common(parser: argparse.ArgumentParser) -> None:
    from tqcore.bench.options import SCHEMES

    parser.add_argument(
        "--schemes",
        nargs="+",
        default=SCHEMES,
        metavar="SCHEME@BITS",
        help=f"or SCHEME@KEYS/VALUES; default: {' '.join(SCHEMES)}",
    )
    parser.add_argument("--repeats", type=positive, default=5, metavar="N", help="turns; 5")
    parser.add_argument(
        "--out", type=Path, metavar="DIR", help="write JSON, Markdown and a picture there"
    )
    add_json_flag(parser)


def run(args: argparse.Namespace) -> int:
    """Run one benchmark.

    Raises:
        TqcoreError: schemes or shapes that cannot be, before anything heavy is imported; a model
            that cannot be had.
    """
    from tqcore.bench import options

    if args.out:
        options.output_folder(args.out)
    report = _runner(args)()
    if args.json:
        print_json(report.to_dict())
    else:
        show(report)
    if args.out:
        from tqcore.bench.report import save

        files, missing = save(report, args.out)
        print("wrote " + ", ".join(map(str, files)), *[missing] if missing else [], file=sys.stderr)
    return 0


def _runner(args: argparse.Namespace) -> Callable[[], Report]:
    from tqcore.bench import options

    schemes = tuple(options.asked(text) for text in args.schemes)
    chosen: Any
    if args.benchmark == "generate":
        chosen = options.GenerateOptions(
            schemes=schemes,
            model=args.model,
            contexts=args.contexts,
            steps=args.steps,
            repeats=args.repeats,
            chunk=args.chunk,
            peers=args.peers,
            host=args.host,
        )
    else:
        chosen = options.KernelOptions(
            schemes=schemes,
            tokens=args.tokens,
            batch=args.batch,
            gqa=args.gqa,
            head_dim=args.head_dim,
            kv_heads=args.kv_heads,
            dtypes=args.dtypes,
            layers=getattr(args, "layers", None),
            repeats=args.repeats,
            peers=not args.no_peers,
        )
    from tqcore.bench import run as benchmarks

    line = benchmarks.command_line(_words(args))
    runner = getattr(benchmarks, f"run_{args.benchmark}")
    return lambda: runner(chosen, line)


def _words(args: argparse.Namespace) -> list[str]:
    """Return the words of the line that asks for the same, defaults written out."""
    words = ["bench", args.benchmark, *([args.model] if getattr(args, "model", None) else [])]
    for name, value in vars(args).items():
        if name in ("benchmark", "model", "schemes", "out", "json") or not value:
            continue
        words.append(f"--{name.replace('_', '-')}")
        if value is not True:
            words.append(",".join(map(str, value)) if isinstance(value, tuple) else str(value))
    return [*words, "--schemes", *args.schemes]


def show(report: Report) -> None:
    """Print the tables, the notes and who was left out."""
    for table in report.tables:
        print_table(table.columns, table.rows, f"{report.benchmark}: {table.title}")
    machine = report.machine
    print(
        f"{machine['device_name']} ({machine['device']}), mlx {machine['mlx']}, "
        f"load {machine['load']} on {machine['processors']} processors"
    )
    for note in report.notes:
        print(note)
    for each in report.left_out:
        print(f"left out: {each.name}: {each.reason}")


def counts(text: str) -> tuple[int, ...]:
    """Parse ``1024,4096``."""
    return tuple(positive(part) for part in text.split(","))


def dtypes(text: str) -> tuple[str, ...]:
    """Parse ``float16,float32``."""
    from tqcore.bench.options import DTYPES

    names = tuple(text.split(","))
    if wrong := [name for name in names if name not in DTYPES]:
        raise argparse.ArgumentTypeError(f"{wrong[0]!r}: expected some of {', '.join(DTYPES)}")
    return names
