"""Plugging the core caches into mlx-vlm and mlx-lm.

``enable(model, "turboquant", 3.5)`` is enough for either host: the model's own
``generate`` then runs on quantized caches. ``tqcore.adapters.mlx_vlm`` and
``tqcore.adapters.mlx_lm`` have ``install()``, after which the host's functions take
``kv_quant_scheme`` by themselves.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, Literal

from tqcore.choice import SchemeChoice
from tqcore.errors import HostError, OptionError
from tqcore.schemestring import choose

if TYPE_CHECKING:
    from tqcore.adapters.host import Host
    from tqcore.adapters.wiring import Wiring

__all__ = ["disable", "enable", "host_of", "make_caches"]

HostName = Literal["vlm", "lm"]
ADAPTERS: dict[HostName, str] = {
    "vlm": "tqcore.adapters.mlx_vlm",
    "lm": "tqcore.adapters.mlx_lm",
}
_HOST_OF_PACKAGE: dict[str, HostName] = {"mlx_vlm": "vlm", "mlx_lm": "lm"}


def get_host(name: str) -> Host:
    """Return a host by its short name, ``vlm`` or ``lm``.

    Raises:
        OptionError: another name.
        HostError: it is not installed, or a seam of it moved.
    """
    adapters = {str(known): module for known, module in ADAPTERS.items()}
    if name not in adapters:
        raise OptionError(f"host {name!r}: known are {', '.join(adapters)}")
    host: Host = importlib.import_module(adapters[name]).host()
    return host


def host_of(model: Any) -> HostName:
    """Return the host that a model comes from, read from where its class is defined.

    Raises:
        HostError: neither mlx-vlm nor mlx-lm defines it or one of its bases.
    """
    for cls in type(model).__mro__:
        package = cls.__module__.partition(".")[0]
        if package in _HOST_OF_PACKAGE:
            return _HOST_OF_PACKAGE[package]
    raise HostError(
        f"{type(model).__module__}.{type(model).__name__} is neither an mlx-vlm nor an mlx-lm "
        'model: say which one runs it, host="vlm" or host="lm"'
    )


def enable(
    model: Any,
    scheme: str | SchemeChoice = "turboquant",
    bits: float | None = None,
    *,
    key_bits: float | None = None,
    value_bits: float | None = None,
    quantized_kv_start: int = 0,
    host: HostName | None = None,
) -> Wiring:
    """Make a loaded model run on quantized caches; calling it again changes the scheme.

    Only this model is touched: ``make_cache`` is set on the instance, and every entry that
    is exactly the host's plain cache is replaced. Rotating, recurrent and auxiliary caches
    stay, and so does what the scheme's ``skip`` option names.

    Args:
        model: as the host's ``load`` returned it.
        scheme: scheme string, or a checked choice.
        bits: bits a value; None takes the scheme's default.
        key_bits, value_bits: override ``bits`` for one side.
        quantized_kv_start: tokens a sequence must hold before it is quantized.
        host: which host runs the model; None finds out.

    Raises:
        UnknownNameError, OptionError, WidthError: as ``tqcore.schemestring.choose``.
        ShapeError: the scheme is a plan for another number of layers.
        HostError: the host is missing, or a seam of it moved.
    """
    from tqcore.adapters.wiring import wire

    choice = choose(scheme, bits, key_bits, value_bits, quantized_kv_start)
    return wire(get_host(host or host_of(model)), model, choice)


def disable(model: Any, *, host: HostName | None = None) -> bool:
    """Undo ``enable``; say whether there was anything to undo."""
    from tqcore.adapters.wiring import unwire

    return unwire(get_host(host or host_of(model)), model)


def make_caches(choice: SchemeChoice, n_layers: int, host: str) -> list[Any]:
    """Return one cache a layer for ``prompt_cache=``, as the host's attention takes them.

    What the scheme's ``skip`` option names is the host's own dense cache.

    Raises:
        OptionError: ``host`` is neither ``vlm`` nor ``lm``.
        ShapeError: the choice is a plan for another number of layers.
        HostError: it is not installed, or a seam of it moved.
    """
    choice.check_layers(n_layers)
    found = get_host(host)
    dense = [found.types.dense() for _ in range(n_layers)]
    found.wiring.acquire(found.name)
    return found.converter(choice).convert(dense)
