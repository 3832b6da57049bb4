"""What the two hosts have in common for an adapter: one description, filled in by each."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from attrs import field, frozen

from tqcore.adapters import seams
from tqcore.adapters.attention import classes_of, model_patches
from tqcore.adapters.convert import CacheTypes, Converter
from tqcore.adapters.patches import PatchSet
from tqcore.adapters.reading import needs_arrays
from tqcore.adapters.stage import WHOLE, Stage
from tqcore.choice import SchemeChoice

if TYPE_CHECKING:
    from tqcore.adapters.making import Filled, Listener


@frozen
class Host:
    """One host, as the shared code sees it.

    Args:
        name: its distribution.
        extra: the extra of tqcore that installs it.
        tested: the versions that the seams were tried with.
        seams: every name of it that is touched.
        base: the module that defines its attention functions.
        types: its cache classes, and ours for it.
        target: finds the object of a model that makes its caches.
        make_prompt_cache: the host's own, called with ``(target, max_kv_size)``.
        wiring: patches that an enabled model needs.
        routes: patches that make the host's functions take our flags.
        listeners: told of caches as soon as a prompt is in them.
    """

    name: str
    extra: str
    tested: seams.Versions
    seams: tuple[seams.Seam, ...]
    base: str
    types: CacheTypes
    target: Callable[[Any], Any]
    make_prompt_cache: Callable[..., list[Any]] = field(eq=False)
    wiring: PatchSet = field(eq=False)
    routes: PatchSet = field(eq=False)
    listeners: list[Listener] = field(factory=list, eq=False)

    def __deepcopy__(self, memo: dict[int, Any]) -> Host:
        """Return this: a copy of an enabled model is enabled for the same host."""
        return self

    def check(self) -> None:
        """Check that the installed host has every seam.

        Raises:
            HostError: one is gone or changed.
        """
        seams.check(self.seams, self.name, self.extra, self.tested)

    def route_attention(self, model: Any) -> bool:
        """Make the model's layers hand views to their owner; say whether all of them can."""
        target = self.target(model)
        self.wiring.add(model_patches(target, self.base))
        return not needs_arrays(classes_of(target), self.base.partition(".")[0])

    def tell(self, filled: Filled) -> None:
        """Tell every listener."""
        for listener in list(self.listeners):
            listener(filled)

    def converter(
        self,
        choice: SchemeChoice | None,
        early: bool = True,
        arrays: bool | None = None,
        stage: Stage = WHOLE,
    ) -> Converter:
        """Return a converter of this host's caches."""
        return Converter(self.types, choice, early, arrays, stage)

    def install(self) -> None:
        """Make the host's own functions take our flags; calling it again changes nothing."""
        self.check()
        self.wiring.acquire(self.name)
        self.routes.acquire(self.name)

    def uninstall(self) -> None:
        """Give the host its own functions back; enabled models stay enabled.

        What routes attention stays: caches of ours may outlive this call, and everything
        else passes through it.
        """
        self.routes.release(self.name)
