"""Check that a component has its interface."""

from __future__ import annotations

from typing import Any

from tqcore import protocols
from tqcore.spec import Component
from tqcore.testing.checks._subject import first_of, label
from tqcore.testing.verdict import expect

PROTOCOLS: dict[str, Any] = {
    "rotation": protocols.Rotation,
    "codebook": protocols.Codebook,
    "packer": protocols.Packer,
    "score_kernel": protocols.ScoreKernel,
}


def check_protocol(component: Component) -> None:
    """The target imports and has every attribute and method of its interface."""
    arguments, part = first_of(component)
    interface = PROTOCOLS[component.kind]
    missing = [name for name in _members(interface) if not hasattr(part, name)]
    expect(
        not missing,
        label(component),
        "its interface is not complete",
        expected=f"every attribute of tqcore.protocols.{interface.__name__}",
        got=f"no {', '.join(missing)}",
        given=f"built with {arguments}",
    )


def _members(interface: type) -> list[str]:
    named = {*vars(interface), *interface.__annotations__}
    return sorted(name for name in named if not name.startswith("_"))
