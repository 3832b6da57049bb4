"""One run of a host's command line: which host, enabling what it loads, and the notice after."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import ModuleType
from typing import TYPE_CHECKING, Any

from attrs import frozen

from tqcore.adapters import HostName, get_host
from tqcore.adapters.seams import installed
from tqcore.choice import SchemeChoice
from tqcore.errors import HostError, ShapeError
from tqcore.schemestring import brief

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
    found = [host for host in _installed() if asked in (None, host.name)]
    if found:
        return found[0]
    wanted = asked or "vlm"
    missing = _DISTRIBUTIONS[wanted] if asked else "neither mlx-vlm nor mlx-lm"
    verb = "is not" if asked else "is"
    raise HostError(f'{missing} {verb} installed: pip install "tqcore[{wanted}]"')


def installed_hosts() -> list[InstalledHost]:
    """Return every host that is there.

    Raises:
        HostError: none is.
    """
    pick_host(None)
    return _installed()


def _installed() -> list[InstalledHost]:
    found = ((name, text, installed(text)) for name, text in _DISTRIBUTIONS.items())
    return [InstalledHost(name, text, version) for name, text, version in found if version]


@contextmanager
def command_line(program: str, rest: Sequence[str]) -> Iterator[None]:
    """Give a host, which parses ``sys.argv``, the rest of our line; put ours back after."""
    ours, sys.argv = sys.argv, [program, *rest]
    try:
        yield
    finally:
        sys.argv = ours


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
        host = get_host(self.host)  # also lets the host read prompt caches that we wrote
        previous = module.load

        def load(*args: Any, **kwargs: Any) -> Any:
            try:
                loaded = previous(*args, **kwargs)
            except Exception as error:  # a host has many ways to say that there is no model
                path = args[0] if args else kwargs.get("path_or_hf_repo")
                reason = str(error).strip().partition("\n")[0].rstrip(".")
                raise HostError(
                    f"{host.name} cannot load {path!r}: {type(error).__name__}: {reason}. "
                    "Give a local model directory, or the name of one on the hub"
                ) from error
            if self.choice is not None:
                self._enable(loaded[0])
            return loaded

        if self.choice is not None:
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
        return describe(self.choice, self._layers())

    def _enable(self, model: Any) -> None:
        from tqcore.adapters.wiring import wire

        assert self.choice is not None
        index = len(self._made)
        self._made.append(([], {}))

        def watch(caches: list[Any], reasons: dict[int, str]) -> None:
            self._made[index] = (caches, reasons)

        try:
            wire(get_host(self.host), model, self.choice, watch=watch)
        except ShapeError as error:  # a plan for another model
            if not index:
                raise
            print(f"tqcore: the draft's cache stays dense: {error}", file=sys.stderr)

    def _layers(self) -> list[LayerReport]:
        if not self._made:
            return []
        from tqcore.adapters.report import report

        return [layer for caches, reasons in self._made for layer in report(caches, reasons)]


def describe(choice: SchemeChoice, layers: Sequence[LayerReport]) -> str:
    """Return which package served which scheme, and how many layers it quantized or why none."""
    key, value = choice.sides
    widths = f"keys {key:.4g}, values {value:.4g} bits"
    served = f"scheme {brief(choice.text)} ({widths}) by {choice.package}"
    quantized = [layer for layer in layers if layer.quantized_tokens]
    if quantized:
        return f"{served}: {len(quantized)} of {len(layers)} layers quantized"
    why = dict.fromkeys(layer.reason for layer in layers if layer.reason)
    return f"{served}: nothing was quantized: {'; '.join(why) or 'no cache was made'}"
