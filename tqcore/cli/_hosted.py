"""One run of a host's command line: which host, enabling what it loads, and the notice after."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import TYPE_CHECKING, Any

from attrs import frozen

from tqcore.adapters import HostName, get_host
from tqcore.adapters.seams import installed
from tqcore.errors import HostError
from tqcore.registry import registry
from tqcore.schemestring import SchemeChoice

if TYPE_CHECKING:
    from tqcore.cache import LayerReport

_DISTRIBUTIONS: dict[HostName, str] = {"vlm": "mlx-vlm", "lm": "mlx-lm"}


@frozen
class InstalledHost:
    """A host that is there."""

    name: HostName
    distribution: str
    version: str


def pick_host(asked: HostName | None) -> InstalledHost:
    """Return the host asked for, else mlx-vlm if it is installed, else mlx-lm.

    Raises:
        HostError: it is not installed, with what to install.
    """
    for name in [asked] if asked else list(_DISTRIBUTIONS):
        distribution = _DISTRIBUTIONS[name]
        if found := installed(distribution):
            return InstalledHost(name, distribution, found)
    wanted = asked or "vlm"
    missing = _DISTRIBUTIONS[wanted] if asked else "neither mlx-vlm nor mlx-lm"
    verb = "is not" if asked else "is"
    raise HostError(f'{missing} {verb} installed: pip install "tqcore[{wanted}]"')


class Run:
    """What a run made: the models it enabled and the caches they used.

    Args:
        host: ``vlm`` or ``lm``.
        choice: what to store, or None to stay dense.
    """

    def __init__(self, host: HostName, choice: SchemeChoice | None) -> None:
        self.host = host
        self.choice = choice
        # the latest caches of each enabled model, in the order of loading: a draft comes second
        self._made: list[tuple[list[Any], dict[int, str]]] = []

    @contextmanager
    def loading(self, module: ModuleType) -> Iterator[None]:
        """Enable every model that ``module.load`` returns meanwhile."""
        if self.choice is None:
            yield
            return
        host = get_host(self.host)
        previous = module.load

        def load(*args: Any, **kwargs: Any) -> Any:
            loaded = previous(*args, **kwargs)
            self._enable(loaded[0])
            return loaded

        host.install()
        module.load = load  # type: ignore[attr-defined]
        try:
            yield
        finally:
            module.load = previous  # type: ignore[attr-defined]
            host.uninstall()

    def finish(self, table: bool) -> None:
        """Say on stderr which package served which scheme and what was quantized.

        Args:
            table: print a row a layer too.
        """
        print(f"tqcore: {self.notice()}", file=sys.stderr)
        if table and (layers := self._layers()):
            from tqcore.cli._layers import print_layers

            print_layers(layers)

    def notice(self) -> str:
        """Return the one line that says what was applied, or why nothing was."""
        if self.choice is None:
            return "the KV cache is dense: give --kv-quant-scheme or --kv-bits to quantize it"
        key, value = self.choice.widths.sides()
        served = (
            f"scheme {self.choice.text} (keys {key:g}, values {value:g} bits) "
            f"by {registry().package_of(self.choice.info.name)}"
        )
        layers = self._layers()
        quantized = [layer for layer in layers if layer.quantized_tokens]
        if quantized:
            return f"{served}: {len(quantized)} of {len(layers)} layers quantized"
        why = dict.fromkeys(layer.reason for layer in layers if layer.reason)
        return f"{served}: nothing was quantized: {'; '.join(why) or 'no cache was made'}"

    def _enable(self, model: Any) -> None:
        from tqcore.adapters.wiring import wire

        assert self.choice is not None
        index = len(self._made)
        self._made.append(([], {}))

        def watch(caches: list[Any], reasons: dict[int, str]) -> None:
            self._made[index] = (caches, reasons)

        wire(get_host(self.host), model, self.choice, watch=watch)

    def _layers(self) -> list[LayerReport]:
        if not self._made:
            return []
        from tqcore.adapters.report import report

        return [layer for caches, reasons in self._made for layer in report(caches, reasons)]
