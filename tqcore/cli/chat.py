"""``tqcore chat``: mlx-vlm's own chat on quantized caches, our flags checked first."""

from __future__ import annotations

import argparse
import importlib
from collections.abc import Sequence

from tqcore.cli import _kv_flags as kv
from tqcore.cli._hosted import Run, command_line, pick_host

PROGRAM = "tqcore chat"
MODULE = "mlx_vlm.chat"
"""Where the chat looks up ``load``."""


def main(argv: Sequence[str]) -> int:
    """Run mlx-vlm's chat.

    Args:
        argv: our flags and the chat's, in any order.

    Raises:
        UnknownNameError, OptionError, WidthError: our flags name nothing that exists.
        HostError: mlx-vlm is not installed, or a seam of it moved.
        SystemExit: the chat's own parser refuses its flags, or it could not load the model.
    """
    ours = parser()
    args, rest = kv.split(ours, argv)
    choice = kv.choice_of(args)
    host = pick_host("vlm")
    asked_help = kv.show_help(ours, rest, host)
    run = Run(host.name, choice)
    module = importlib.import_module(MODULE)
    with run.loading(module), command_line(PROGRAM, rest):
        module.main()
    if not asked_help:
        run.finish(table=args.kv_report)
    return 0


def parser() -> argparse.ArgumentParser:
    """Return the parser of our flags."""
    ours = kv.parser_of(PROGRAM, "mlx-vlm's chat. Every flag of its own is passed on.")
    kv.add_flags(ours)
    return ours
