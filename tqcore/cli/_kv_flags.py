"""The flags that commands around a host share, under the names the hosts gave them."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from attrs import fields

from tqcore.adapters.flags import Flags
from tqcore.choice import SchemeChoice
from tqcore.cli._hosted import InstalledHost
from tqcore.errors import OptionError


def add_host(parser: argparse.ArgumentParser) -> None:
    """Add ``--host``, where it does not name the address that a server listens on."""
    parser.add_argument("--host", choices=("vlm", "lm"), help="mlx-vlm or mlx-lm; default: vlm")


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Add the ``--kv-*`` flags and ``--kv-report``."""
    group = parser.add_argument_group("KV cache")
    scheme = "NAME or NAME:option=value,option=value; KEYS+VALUES; @FILE of `tqcore plan`"
    group.add_argument("--kv-quant-scheme", metavar="SCHEME", help=scheme)
    group.add_argument("--kv-key-scheme", metavar="SCHEME", help="another scheme for keys")
    group.add_argument("--kv-value-scheme", metavar="SCHEME", help="another scheme for values")
    group.add_argument(
        "--kv-bits",
        type=float,
        metavar="BITS",
        help="bits a value, 1 to 8 (default: the scheme's own; without a scheme, a fraction "
        "selects turboquant and an integer uniform)",
    )
    group.add_argument("--kv-key-bits", type=float, metavar="BITS", help="overrides for keys")
    group.add_argument("--kv-value-bits", type=float, metavar="BITS", help="overrides for values")
    group.add_argument("--kv-group-size", type=int, metavar="N", help="where a scheme has groups")
    group.add_argument(
        "--quantized-kv-start",
        type=int,
        metavar="N",
        help="tokens a sequence must hold before it is quantized (default: 0)",
    )
    group.add_argument("--kv-report", action="store_true", help="after the run, a table a layer")


def choice_of(args: argparse.Namespace) -> SchemeChoice | None:
    """Return the checked choice that parsed flags ask for, or None for a dense cache.

    Raises:
        UnknownNameError, OptionError, WidthError: before anything heavy is imported.
    """
    return flags_of(args).choose()


def flags_of(args: argparse.Namespace) -> Flags:
    """Return the parsed flags as the adapters read them."""
    return Flags(**{a.name: getattr(args, a.name) for a in fields(Flags)})


def parser_of(program: str, description: str) -> argparse.ArgumentParser:
    """Return a parser of our flags alone; what it leaves over is the host's."""
    return argparse.ArgumentParser(
        prog=program, description=description, add_help=False, allow_abbrev=False
    )


def split(
    parser: argparse.ArgumentParser, argv: Sequence[str]
) -> tuple[argparse.Namespace, list[str]]:
    """Parse our flags; return them and the rest of the line.

    Raises:
        OptionError: a flag of ours that is cut short. The host would complete it, and take it
            for its own.
    """
    args, rest = parser.parse_known_args(list(argv))
    ours = [option for action in parser._actions for option in action.option_strings]
    for word in rest:
        name = word.partition("=")[0]
        meant = [option for option in ours if option.startswith(name)]
        if len(name) > len("--h") and name.startswith("--") and meant:
            raise OptionError(f"{name}: write the flag out: {' or '.join(meant)}")
    return args, rest


def show_help(parser: argparse.ArgumentParser, rest: Sequence[str], host: InstalledHost) -> bool:
    """Print our half of the help if ``rest`` asks for it; the host prints its own and exits."""
    asked = any(flag in rest for flag in ("-h", "--help"))
    if asked:
        parser.print_help()
        print(f"\nFlags of {host.distribution} {host.version}:\n", flush=True)
    return asked
