"""``docs/protocol.md``, from the tables."""

from __future__ import annotations

from tests.integration.protocol.names import public_names
from tests.integration.protocol.table import NOT_SERVED, SERVED
from tests.integration.turboquant_sites import ASKING, MAKING

HEAD = """\
# Cache protocol

What the hosts' dense caches can do, name by name, and what becomes of it. For every name that is served
a test does the same to the host's cache and to ours and compares the answers, at 8 bits; a name that a new
host version adds fails that test until it is served or its reason is given here.

This page is written by `python -m tests.integration.protocol`.
"""
SITES_HEAD = """\
## mlx-vlm's own TurboQuant caches

Every place of mlx-vlm that makes a `TurboQuantKVCache`, `BatchTurboQuantKVCache` or `HybridQuantKVCache`, or
asks whether a cache is one, found in its code by a test:
"""
OURS = {
    "KVCache": "`QuantizedKVCache`, one sequence",
    "BatchKVCache": "`BatchQuantizedKVCache`, rows that end together",
    "RotatingKVCache": "left to the host",
    "BatchRotatingKVCache": "left to the host",
}


def page() -> str:
    """Return the page."""
    return "\n".join([HEAD, *(_section(cls) for cls in SERVED), _sites()])


def _sites() -> str:
    tables = (("makes one", MAKING), ("asks for one", ASKING))
    rows = [
        f"| `{site}` | {kind} | {what} |"
        for kind, table in tables
        for site, what in sorted(table.items())
    ]
    return "\n".join([SITES_HEAD, "| in mlx-vlm | | |", "|---|---|---|", *rows, ""])


def _section(cls: str) -> str:
    names = sorted(public_names("vlm", cls) | public_names("lm", cls))
    reasons = set(NOT_SERVED[cls].values())
    if not SERVED[cls] and len(reasons) == 1:
        listed = ", ".join(f"`{name}`" for name in names)
        return f"## {cls}: {OURS[cls]}\n\n{reasons.pop().capitalize()}: {listed}.\n"
    rows = [f"| `{name}` | {_hosts(cls, name)} | {_what(cls, name)} |" for name in names]
    return "\n".join([f"## {cls}: {OURS[cls]}\n", "| name | of | |", "|---|---|---|", *rows, ""])


def _hosts(cls: str, name: str) -> str:
    names = {"vlm": "mlx-vlm", "lm": "mlx-lm"}
    found = [shown for host, shown in names.items() if name in public_names(host, cls)]
    return "both" if len(found) == 2 else found[0]


def _what(cls: str, name: str) -> str:
    if name in SERVED[cls]:
        return str(SERVED[cls][name].__doc__)
    return f"not served: {NOT_SERVED[cls].get(name, 'not in the table')}"
