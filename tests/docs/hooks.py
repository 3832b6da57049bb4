"""Write the reference of ``docs/hooks.md`` from the hooks' own docstrings: ``python -m tests.docs.hooks``."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

from tqcore import hookspecs

PAGE = Path(__file__).parents[2] / "docs/hooks.md"
SECTION = re.compile(r"(?<=-->\n).*?(?=<!-- hooks:end -->)", re.DOTALL)


def reference() -> str:
    """Return a section a hook, in the order they are specified."""
    hooks = (name for name in vars(hookspecs) if name.startswith("tqcore_"))
    return "".join(f"### `{name}()`\n\n{_text(name)}\n\n" for name in hooks)


def page() -> str:
    """Return the page with the reference as it is now."""
    return SECTION.sub(lambda _: reference(), PAGE.read_text(), count=1)


def _text(name: str) -> str:
    return (inspect.getdoc(getattr(hookspecs, name)) or "").replace("``", "`")


if __name__ == "__main__":
    PAGE.write_text(page())
