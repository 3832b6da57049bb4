"""``docs/protocol.md``, from the tables."""

from __future__ import annotations

from tests.integration.protocol.names import public_names
from tests.integration.protocol.table import CLASSES, not_served, served
from tests.integration.turboquant_sites import ASKING, MAKING

HEAD = """\
# Cache protocol

What the hosts' plain and rotating caches can do, name by name, and what becomes of it. For every name that is served
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
    "RotatingKVCache": "`RotatingQuantizedKVCache`, one sequence in a sliding window",
    "BatchRotatingKVCache": "`BatchRotatingQuantizedKVCache`, rows in a sliding window",
}


def page() -> str:
    """Return the page."""
    return "\n".join([HEAD, *(_section(cls) for cls in CLASSES), _sites()])


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
    title = f"## {cls}: {OURS[cls]}\n"
    rows = [row for name in names for row in _rows(cls, name)]
    return "\n".join([title, "| name | of | |", "|---|---|---|", *rows, ""])


def _rows(cls: str, name: str) -> list[str]:
    """Return one row where both hosts get the same, else one a host."""
    said = {
        shown: _what(host, cls, name)
        for host, shown in (("vlm", "mlx-vlm"), ("lm", "mlx-lm"))
        if name in public_names(host, cls)
    }
    if len(said) == 2 and len(set(said.values())) == 1:
        said = {"both": said["mlx-lm"]}
    return [f"| `{name}` | {host} | {what} |" for host, what in said.items()]


def _what(host: str, cls: str, name: str) -> str:
    if name in served(host, cls):
        return str(served(host, cls)[name].__doc__)
    return f"not served: {not_served(host, cls).get(name, 'not in the table')}"
