"""The flags that commands around a host share, under the names the hosts gave them."""

from __future__ import annotations

import argparse

from attrs import fields

from tqcore.adapters.flags import Flags
from tqcore.schemestring import SchemeChoice


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Add ``--host``, the ``--kv-*`` flags and ``--kv-report``."""
    parser.add_argument("--host", choices=("vlm", "lm"), help="mlx-vlm or mlx-lm; default: vlm")
    group = parser.add_argument_group("KV cache")
    scheme = "NAME or NAME:option=value,option=value; see `tqcore schemes`"
    group.add_argument("--kv-quant-scheme", metavar="SCHEME", help=scheme)
    group.add_argument("--kv-key-scheme", metavar="SCHEME", help="the same scheme, for keys")
    group.add_argument("--kv-value-scheme", metavar="SCHEME", help="the same scheme, for values")
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
    return Flags(**{name: getattr(args, name) for name in (a.name for a in fields(Flags))}).choose()
