"""mlx-vlm, described for the shared code."""

from __future__ import annotations

import functools
import importlib
from typing import Any

from tqcore.adapters import seams
from tqcore.adapters.attention import owner_attention, owner_expansion
from tqcore.adapters.convert import CacheTypes
from tqcore.adapters.host import Host
from tqcore.adapters.mlx_vlm._seams import SEAMS, TESTED
from tqcore.adapters.mlx_vlm.drafting import drafting_patches
from tqcore.adapters.patches import Patch, PatchSet
from tqcore.adapters.reading import ATTENTION, EXPANSION
from tqcore.adapters.routes import sized_caches

NAME, EXTRA = "mlx-vlm", "vlm"
BASE = "mlx_vlm.models.base"
CACHE = "mlx_vlm.models.cache"


def check() -> None:
    """Check that the installed mlx-vlm has every name in the table.

    Raises:
        HostError: it is missing, or which names moved in which version.
    """
    seams.check(SEAMS, NAME, EXTRA, TESTED)


@functools.cache
def host() -> Host:
    """Return the description of the installed mlx-vlm.

    Raises:
        HostError: as ``check``.
    """
    check()
    from tqcore.adapters.mlx_vlm.batch import VlmBatchQuantizedKVCache
    from tqcore.adapters.mlx_vlm.cache import VlmQuantizedKVCache
    from tqcore.adapters.mlx_vlm.rotating import VlmBatchRotatingKVCache, VlmRotatingKVCache
    from tqcore.adapters.mlx_vlm.routes import route_patches

    caches = importlib.import_module(CACHE)
    # CacheList looks the class of a saved cache up by name, here
    for kind in (VlmQuantizedKVCache, VlmBatchQuantizedKVCache):
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
            quantized=VlmQuantizedKVCache,
            batch=VlmBatchQuantizedKVCache,
            rotating=VlmRotatingKVCache,
            batch_rotating=VlmBatchRotatingKVCache,
        ),
        target=_language_model,
        make_prompt_cache=caches.make_prompt_cache,
        wiring=PatchSet(
            [
                Patch(BASE, ATTENTION, owner_attention),
                Patch(BASE, EXPANSION, owner_expansion),
                Patch(CACHE, "make_prompt_cache", sized_caches),
                *drafting_patches(),
            ]
        ),
        routes=PatchSet(route_patches()),
    )


def _language_model(model: Any) -> Any:
    return getattr(model, "language_model", model)
