"""mlx-lm, described for the shared code."""

from __future__ import annotations

import functools
import importlib
from typing import Any

from tqcore.adapters import seams
from tqcore.adapters.attention import owner_attention
from tqcore.adapters.convert import CacheTypes
from tqcore.adapters.host import Host
from tqcore.adapters.mlx_lm._seams import SEAMS, TESTED
from tqcore.adapters.patches import Patch, PatchSet
from tqcore.adapters.reading import ATTENTION
from tqcore.adapters.routes import sized_caches

NAME, EXTRA = "mlx-lm", "lm"
BASE = "mlx_lm.models.base"
CACHE = "mlx_lm.models.cache"


def check() -> None:
    """Check that the installed mlx-lm has every name in the table.

    Raises:
        HostError: it is missing, or which names moved in which version.
    """
    seams.check(SEAMS, NAME, EXTRA, TESTED)


@functools.cache
def host() -> Host:
    """Return the description of the installed mlx-lm.

    Raises:
        HostError: as ``check``.
    """
    check()
    from tqcore.adapters.mlx_lm.attention import owner_quantized_attention
    from tqcore.adapters.mlx_lm.batch import TqcoreBatchKVCache
    from tqcore.adapters.mlx_lm.cache import TqcoreKVCache
    from tqcore.adapters.mlx_lm.rotating import (
        TqcoreBatchRotatingKVCache,
        TqcoreRotatingKVCache,
    )
    from tqcore.adapters.mlx_lm.routes import route_patches

    caches = importlib.import_module(CACHE)
    # load_prompt_cache and CacheList look the class of a saved cache up by name, here
    for kind in (
        TqcoreKVCache,
        TqcoreBatchKVCache,
        TqcoreRotatingKVCache,
        TqcoreBatchRotatingKVCache,
    ):
        setattr(caches, kind.__name__, kind)
    return Host(
        name=NAME,
        extra=EXTRA,
        tested=TESTED,
        seams=SEAMS,
        base=BASE,
        types=CacheTypes(
            dense=caches.KVCache,
            sliding=caches.RotatingKVCache,
            nested=caches.CacheList,
            quantized=TqcoreKVCache,
            batch=TqcoreBatchKVCache,
            rotating=TqcoreRotatingKVCache,
            batch_rotating=TqcoreBatchRotatingKVCache,
        ),
        target=_itself,
        make_prompt_cache=caches.make_prompt_cache,
        wiring=PatchSet(
            [
                Patch(BASE, ATTENTION, owner_attention),
                Patch(BASE, f"quantized_{ATTENTION}", owner_quantized_attention),
                Patch(CACHE, "make_prompt_cache", sized_caches),
                Patch("mlx_lm.generate", "make_prompt_cache", sized_caches),
            ]
        ),
        routes=PatchSet(route_patches()),
    )


def _itself(model: Any) -> Any:
    return model
