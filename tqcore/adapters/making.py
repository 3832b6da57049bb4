"""Making the caches of one model: which scheme, whether its layers can take it, and word of it."""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Mapping
from typing import Any

from attrs import field, frozen

from tqcore.adapters.host import Host
from tqcore.adapters.reading import NEEDS_ARRAYS, STAYS_DENSE
from tqcore.adapters.stage import stage_of
from tqcore.cache.report import AS_ARRAYS
from tqcore.choice import SchemeChoice

logger = logging.getLogger(__name__)


class CacheMaker:
    """Makes and converts the caches of one model.

    Args:
        host: of the model.
        model: as the host's function got it.
        choice: what to store; None only adopts quantized caches that a caller made.

    Attributes:
        arrays: whether the model needs arrays instead of views.
        reasons: why layers of the latest caches were left alone, by their index in the model.

    Raises:
        ShapeError: the choice is a plan for another number of layers.
    """

    def __init__(self, host: Host, model: Any, choice: SchemeChoice | None) -> None:
        self.host = host
        self.choice = choice
        self.reasons: dict[int, str] = {}
        self._target = host.target(model)
        if choice is not None and choice.fits:
            choice.check_layers(stage_of(self._target).total or self._count())
        self.arrays = not host.route_attention(model)
        if self._stays_dense:
            logger.warning(STAYS_DENSE, type(model).__module__, NEEDS_ARRAYS)
        elif self.arrays and choice is not None:
            _say_arrays(type(model).__module__)

    def make(self, max_kv_size: int | None = None) -> list[Any]:
        """Return the model's caches, quantized where the scheme and the layer allow it."""
        return self.convert(self.fresh(max_kv_size))

    def fresh(self, max_kv_size: int | None = None) -> list[Any]:
        """Return the caches that the model has without this maker."""
        return self.host.make_prompt_cache(self._target, max_kv_size)

    def convert(self, caches: list[Any]) -> list[Any]:
        """Convert the caches of one run in place."""
        choice = None if self._stays_dense else self.choice
        stage = stage_of(self._target)
        converter = self.host.converter(choice, arrays=self.arrays, stage=stage)
        converter.convert(caches)
        self.reasons = converter.reasons
        if self._stays_dense:
            layers = range(stage.first, stage.first + len(caches))
            self.reasons = dict.fromkeys(layers, NEEDS_ARRAYS)
        return caches

    def _count(self) -> int:
        return len(self.host.make_prompt_cache(self._target, None))

    @property
    def _stays_dense(self) -> bool:
        return self.arrays and self.choice is not None and self.choice.policy.arrays == "dense"


@functools.cache
def _say_arrays(model: str) -> None:
    logger.info("%s: the KV cache is %s", model, AS_ARRAYS)


@frozen
class Filled:
    """The caches of a run, told once its prompt is in them.

    Args:
        model: that made them; what the host's loop calls.
        choice: what they were to store.
        caches: one entry a layer.
        reasons: why layers were left alone.
    """

    model: Any = field(eq=False)
    choice: SchemeChoice
    caches: list[Any] = field(eq=False)
    reasons: Mapping[int, str] = field(eq=False)


Listener = Callable[[Filled], None]
"""Called in the thread that generates."""
