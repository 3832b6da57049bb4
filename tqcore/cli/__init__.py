"""The ``tqcore`` command: one module a subcommand, imported only when it is the one asked for.

A subcommand module has ``add_parser(subparsers)`` and ``run(args) -> int``; one that wraps a
host's own command line has ``main(argv) -> int`` instead and gets the rest of the line as it is,
and ``parser()`` for what it takes out of it.
"""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from collections.abc import Callable, Sequence
from types import ModuleType

from tqcore import __version__
from tqcore.errors import TqcoreError, UnknownNameError

COMMANDS: dict[str, str] = {
    "generate": "run a model with a quantized KV cache",
    "chat": "talk with a model in mlx-vlm's chat",
    "server": "serve models by mlx-vlm's server",
    "lm-server": "serve models by mlx-lm's server",
    "run": "run any Python module with both hosts taking our flags",
    "schemes": "list the schemes that --kv-quant-scheme takes",
    "explain": "show what a scheme stores, what it costs and which kernel serves it",
    "plugins": "list plugins, what they provide and why one failed",
    "check": "run the contract kit on a plugin, a scheme or a component",
    "new-plugin": "write a new plugin package, tests and all",
    "doctor": "check every kernel on this machine, for a report",
    "bench": "measure speed and memory here, as ratios to MLX and to other projects",
    "report": "measure quality, bytes, speed and memory of caches, with figures",
    "plan": "allot widths to layers under a budget, and say what context fits in memory",
    "demo": "compare schemes on a small real model, offline once fetched",
}
"""Subcommands and their one-line help; the module is ``tqcore.cli.<name>``, a dash in it _."""

TRACEBACK_VARIABLE = "TQCORE_TRACEBACK"
"""Set to 1 to see where an error was raised instead of its message alone."""

EPILOG = f"`tqcore COMMAND --help` describes one command. {TRACEBACK_VARIABLE}=1 shows tracebacks."


def main(argv: Sequence[str] | None = None) -> int:
    """Run ``tqcore`` and return its exit code: 2 for an error that has a message.

    Args:
        argv: the arguments after the program's name; None takes ``sys.argv``.
    """
    arguments = list(sys.argv[1:] if argv is None else argv)
    for stream in ("stdout", "stderr"):
        if getattr(sys, stream) is None:  # closed by whoever started us: `tqcore schemes >&-`
            setattr(sys, stream, open(os.devnull, "w"))  # noqa: SIM115
    try:
        return _dispatch(arguments)
    except TqcoreError as error:
        if os.environ.get(TRACEBACK_VARIABLE) == "1":
            raise
        print(f"tqcore: {error}", file=sys.stderr)
        return 2
    except BrokenPipeError:
        # `tqcore schemes | head`: the reader is gone, so keep the flush at exit from raising too
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1


def _dispatch(arguments: list[str]) -> int:
    if not arguments or arguments[0].startswith("-"):
        parser = _parser(COMMANDS)
        parser.parse_args(arguments)
        parser.print_help()
        return 0
    name, rest = arguments[0], arguments[1:]
    if name not in COMMANDS:
        raise UnknownNameError("command", name, COMMANDS)
    module = importlib.import_module(f"tqcore.cli.{name.replace('-', '_')}")
    if hasattr(module, "main"):
        return int(module.main(rest))
    args = _parser({name: COMMANDS[name]}, module).parse_args(arguments)
    run: Callable[[argparse.Namespace], int] = module.run
    return run(args)


def _parser(commands: dict[str, str], module: ModuleType | None = None) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="tqcore", description="KV-cache quantization for MLX models.", epilog=EPILOG
    )
    parser.add_argument("--version", action="version", version=f"tqcore {__version__}")
    subparsers = parser.add_subparsers(title="commands", metavar="COMMAND")
    if module is not None:
        module.add_parser(subparsers)
    else:
        for name, summary in commands.items():
            subparsers.add_parser(name, help=summary, add_help=False)
    return parser
