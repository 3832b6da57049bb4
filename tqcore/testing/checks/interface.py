"""Check that a component has its interface."""

from __future__ import annotations

from typing import Any

from tqcore import protocols
from tqcore.spec import Component
from tqcore.testing.checks._subject import RefusesEverything, first_of, label
from tqcore.testing.verdict import CheckFailed, expect

PROTOCOLS: dict[str, Any] = {
    "rotation": protocols.Rotation,
    "codebook": protocols.Codebook,
    "packer": protocols.Packer,
    "score_kernel": protocols.ScoreKernel,
}


def check_protocol(component: Component) -> None:
    """The target imports and has every attribute and method of its interface."""
    try:
        arguments, part = first_of(component)
    except RefusesEverything as error:
        raise CheckFailed(
            label(component),
            "it refuses everything",
            "one of the usual dimensions and widths taken, or one that a scheme declares",
            f"{len(error.refused)} refusals, the first one of {error.refused[0]}",
            f"{len(error.refused)} dimensions, widths or runs",
        ) from error
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
