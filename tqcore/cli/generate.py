"""``tqcore generate``: a host's own command line, with our flags on top.

Our flags are checked and taken out of the line before the host is imported, so a typo costs
no model load; the model that the host then loads is enabled, and the rest of the line means
what it always meant.
"""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from tqcore.cli import _kv_flags as kv
from tqcore.cli._hosted import Run, pick_host

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
    parser = _parser()
    args, rest = parser.parse_known_args(list(argv))
    asked_help = any(flag in rest for flag in ("-h", "--help"))
    if asked_help:
        parser.print_help()
    choice = kv.choice_of(args)
    host = pick_host(args.host)
    if asked_help:
        print(f"\nFlags of {host.distribution} {host.version}:\n", flush=True)
    run = Run(host.name, choice)
    module = importlib.import_module(MODULES[host.name])
    with run.loading(module), _command_line(rest):
        module.main()
    if not asked_help:
        run.finish(table=args.kv_report)
    return 0


@contextmanager
def _command_line(rest: list[str]) -> Iterator[None]:
    """Give the host, which parses ``sys.argv``, the rest of the line; put ours back after."""
    ours, sys.argv = sys.argv, [PROGRAM, *rest]
    try:
        yield
    finally:
        sys.argv = ours


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=PROGRAM,
        description="Run mlx-vlm's or mlx-lm's generate on a quantized KV cache. Every flag "
        "of the host's own is passed on.",
        add_help=False,
        allow_abbrev=False,
    )
    kv.add_flags(parser)
    return parser
