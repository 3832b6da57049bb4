"""Word of what was quantized while a server or a module runs, as soon as it is known."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import TYPE_CHECKING, Any

from tqcore.adapters import HostName, get_host
from tqcore.adapters.batching import plain
from tqcore.adapters.wiring import wire
from tqcore.choice import SchemeChoice
from tqcore.cli._hosted import describe

if TYPE_CHECKING:
    from tqcore.adapters.making import Filled

LOADS = ("load", "sharded_load")
NOTHING_RAN = "no run of a model asked for a quantized KV cache"


class Notices:
    """Says once for each model and scheme what its caches became.

    The caches of a batch are gone when its requests are answered, so it is said when the
    first prompt is in them; and again when more layers are quantized than before, as when
    sequences pass ``quantized_kv_start``.

    Args:
        table: print a row a layer too.
    """

    def __init__(self, table: bool = False) -> None:
        self.table = table
        self.said = False
        self._names: dict[int, str] = {}
        self._counts: dict[tuple[int, str], int] = {}

    @contextmanager
    def listening(self, name: HostName) -> Iterator[None]:
        """Install a host's routes, and speak for every run in it meanwhile."""
        host = get_host(name)
        host.install()
        host.listeners.append(self._filled)
        try:
            yield
        finally:
            host.listeners.remove(self._filled)
            host.uninstall()

    @contextmanager
    def loading(
        self, name: HostName, module: ModuleType, choice: SchemeChoice | None = None
    ) -> Iterator[None]:
        """Learn the names of the models that ``module`` loads; with a choice, enable them.

        Args:
            name: the host.
            module: where its loop looks up ``load``, and ``sharded_load`` for several machines.
            choice: what to store.
        """
        host = get_host(name)
        previous = {load: getattr(module, load) for load in LOADS if hasattr(module, load)}

        def naming(load: Callable[..., Any]) -> Callable[..., Any]:
            @functools.wraps(load)
            def named(*args: Any, **kwargs: Any) -> Any:
                loaded = load(*args, **kwargs)
                path = args[0] if args else kwargs.get("path_or_hf_repo", "")
                model = id(host.target(loaded[0]))
                self._names[model] = str(path)
                # an earlier model may have had this address
                self._counts = {key: n for key, n in self._counts.items() if key[0] != model}
                if choice is not None:
                    wire(host, loaded[0], choice)
                return loaded

            return named

        for attribute, load in previous.items():
            setattr(module, attribute, naming(load))
        try:
            yield
        finally:
            vars(module).update(previous)

    def finish(self) -> None:
        """Say so if no run asked for a quantized cache."""
        if not self.said:
            print(f"tqcore: {NOTHING_RAN}", file=sys.stderr)

    def _filled(self, filled: Filled) -> None:
        from tqcore.adapters.report import report

        layers = report(filled.caches, filled.reasons)
        count = sum(1 for layer in layers if layer.quantized_tokens)
        model = plain(filled.model)
        model = getattr(model, "language_model", model)
        key = (id(model), filled.choice.text)
        if self._counts.get(key, -1) >= count:
            return
        self._counts[key], self.said = count, True
        name = self._names.get(id(model))
        prefix = f"{name}: " if name else ""
        print(f"tqcore: {prefix}{describe(filled.choice, layers)}", file=sys.stderr, flush=True)
        if self.table:
            from tqcore.cli._layers import print_layers

            print_layers(layers)
