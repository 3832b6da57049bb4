"""``tqcore run MODULE``: any Python module, with both hosts' functions taking our flags."""

from __future__ import annotations

import argparse
import importlib.util
import os
import runpy
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager

from tqcore.cli._hosted import command_line, installed_hosts
from tqcore.errors import OptionError
from tqcore.select import check_preferred

PROGRAM = "tqcore run"
USAGE = f"{PROGRAM} MODULE|FILE.py [arguments]"


def main(argv: Sequence[str]) -> int:
    """Run a module or file as ``python -m`` or ``python`` would.

    Args:
        argv: its name, then its own arguments.

    Raises:
        OptionError: no name is given, or nothing has it.
        UnknownNameError: ``TQCORE_KERNEL`` names nothing.
        HostError: neither host is installed, or a seam of one moved.
        SystemExit: the module's own.
    """
    name, rest = parser().parse_args(argv[:1]).module, list(argv[1:])
    hosts = installed_hosts()
    check_preferred()
    from tqcore.cli._served import Notices

    notices = Notices()
    folder = os.path.dirname(os.path.abspath(name)) if name.endswith(".py") else os.getcwd()
    with ExitStack() as stack:
        stack.enter_context(_importing_from(folder))
        _find(name)
        for host in hosts:
            stack.enter_context(notices.listening(host.name))
            if host.name == "vlm" and "server" in (name.rpartition(".")[2], *rest[:1]):
                _take_settings(stack)
        stack.callback(notices.finish)
        with command_line(name, rest):
            _run(name)
    return 0


def parser() -> argparse.ArgumentParser:
    """Return the parser of what comes before the module's own arguments."""
    ours = argparse.ArgumentParser(prog=PROGRAM, usage=USAGE, description=__doc__)
    ours.add_argument("module", metavar="MODULE", help="as for python -m, or a file to run")
    return ours


def _run(name: str) -> None:
    if name.endswith(".py"):
        runpy.run_path(name, run_name="__main__")
        return
    package = name.partition(".")[0]
    loaded = sys.modules.get(name)
    if package in ("mlx_vlm", "mlx_lm") and hasattr(loaded, "main"):
        # a second copy of a host's module would not be the one that takes our flags
        sys.modules[name].main()
        return
    runpy.run_module(name, run_name="__main__", alter_sys=True)


@contextmanager
def _importing_from(folder: str) -> Iterator[None]:
    """Look for modules in ``folder`` first, as ``python`` and ``python -m`` do."""
    before = list(sys.path)
    sys.path.insert(0, folder)
    try:
        yield
    finally:
        sys.path[:] = before


def _find(name: str) -> None:
    try:
        found = os.path.exists(name) if name.endswith(".py") else importlib.util.find_spec(name)
    except ModuleNotFoundError:
        found = None
    if not found:
        what = "file" if name.endswith(".py") else "module"
        raise OptionError(f"no {what} {name!r} to run: {USAGE}")


def _take_settings(stack: ExitStack) -> None:
    # only where the server is what runs: importing it takes a second
    from tqcore.adapters.mlx_vlm.settings import checking_patches

    patches = checking_patches()
    patches.acquire(PROGRAM)
    stack.callback(patches.release, PROGRAM)
