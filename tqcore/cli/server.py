"""``tqcore server``: mlx-vlm's own server, whose settings take any registered scheme.

Our flags, or the server's environment variables, become the settings it starts with. They
stand in ``GET /v1/settings``, and ``PATCH /v1/settings`` changes them: applied from the next
request on, or refused with the reason.
"""

from __future__ import annotations

import argparse
import importlib
from collections.abc import Sequence

from tqcore.cli import _kv_flags as kv
from tqcore.cli._hosted import command_line, pick_host
from tqcore.errors import OptionError

PROGRAM = "tqcore server"


def main(argv: Sequence[str]) -> int:
    """Run mlx-vlm's server.

    Args:
        argv: our flags and the server's, in any order.

    Raises:
        UnknownNameError, OptionError, WidthError: our flags name nothing that exists.
        HostError: mlx-vlm is not installed, or a seam of it moved.
        SystemExit: the server's own parser refuses its flags.
    """
    ours = parser()
    args, rest = kv.split(ours, argv)
    host = pick_host("vlm")
    if "--reload" in rest:
        raise OptionError(
            "--reload restarts mlx-vlm's server in a process without tqcore: leave it out"
        )
    from tqcore.adapters.mlx_vlm import settings

    flags = settings.from_environment(kv.flags_of(args))
    choice = flags.choose()
    kv.show_help(ours, rest, host)

    from tqcore.cli._served import Notices

    notices = Notices(table=args.kv_report)
    patches = settings.server_patches(flags, choice)
    generation = importlib.import_module("mlx_vlm.server.generation")
    with notices.listening(host.name), notices.loading(host.name, generation):
        patches.acquire(PROGRAM)
        try:
            with command_line(PROGRAM, rest):
                importlib.import_module("mlx_vlm.server.cli").main()
        finally:
            patches.release(PROGRAM)
    return 0


def parser() -> argparse.ArgumentParser:
    """Return the parser of our flags."""
    ours = kv.parser_of(PROGRAM, "mlx-vlm's server. Every flag of its own is passed on.")
    kv.add_flags(ours)
    return ours
