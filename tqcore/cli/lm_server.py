"""``tqcore lm-server``: mlx-lm's own server on quantized caches, batching included.

mlx-lm serves one request at a time when it is given ``--kv-bits``; ours are taken out of the
line, and the models that it loads make caches that batch.
"""

from __future__ import annotations

import argparse
import importlib
from collections.abc import Sequence

from tqcore.cli import _kv_flags as kv
from tqcore.cli._hosted import command_line, pick_host

PROGRAM = "tqcore lm-server"
MODULE = "mlx_lm.server"


def main(argv: Sequence[str]) -> int:
    """Run mlx-lm's server.

    Args:
        argv: our flags and the server's, in any order.

    Raises:
        UnknownNameError, OptionError, WidthError: our flags name nothing that exists.
        HostError: mlx-lm is not installed, or a seam of it moved.
        SystemExit: the server's own parser refuses its flags.
    """
    ours = parser()
    args, rest = kv.split(ours, argv)
    choice = kv.choice_of(args)
    host = pick_host("lm")
    kv.show_help(ours, rest, host)

    from tqcore.cli._served import Notices

    notices = Notices(table=args.kv_report)
    module = importlib.import_module(MODULE)
    with (
        notices.listening(host.name),
        notices.loading(host.name, module, choice),
        command_line(PROGRAM, rest),
    ):
        module.main()
    return 0


def parser() -> argparse.ArgumentParser:
    """Return the parser of our flags."""
    ours = kv.parser_of(PROGRAM, "mlx-lm's server. Every flag of its own is passed on.")
    kv.add_flags(ours)
    return ours
