"""``tqcore generate``: a host's own command line, with our flags on top.

Our flags are checked and taken out of the line before the host is imported, so a typo costs
no model load; the model that the host then loads is enabled, and the rest of the line means
what it always meant.
"""

from __future__ import annotations

import argparse
import importlib
from collections.abc import Sequence

from tqcore.cli import _kv_flags as kv
from tqcore.cli._hosted import Run, command_line, pick_host

PROGRAM = "tqcore generate"
MODULES = {"vlm": "mlx_vlm.generate.dispatch", "lm": "mlx_lm.generate"}
"""Where each host's ``main`` looks up ``load``."""


def main(argv: Sequence[str]) -> int:
    """Run a host's ``generate`` on quantized caches.

    Args:
        argv: our flags and the host's, in any order.

    Raises:
        UnknownNameError, OptionError, WidthError: our flags name nothing that exists.
        HostError: no host is installed, or a seam of it moved.
        SystemExit: the host's own parser refuses its flags.
    """
    ours = parser()
    args, rest = kv.split(ours, argv)
    choice = kv.choice_of(args)
    host = pick_host(args.host)
    asked_help = kv.show_help(ours, rest, host)
    run = Run(host.name, choice)
    module = importlib.import_module(MODULES[host.name])
    with run.loading(module), command_line(PROGRAM, rest):
        module.main()
    if not asked_help:
        run.finish(table=args.kv_report)
    return 0


def parser() -> argparse.ArgumentParser:
    """Return the parser of our flags."""
    ours = kv.parser_of(
        PROGRAM,
        "Run mlx-vlm's or mlx-lm's generate on a quantized KV cache. Every flag of the host's "
        "own is passed on.",
    )
    kv.add_host(ours)
    kv.add_flags(ours)
    return ours
