"""The MLX cache: packed storage, array-like views, and attention on both.

Free of hosts: ``tqcore.adapters`` plugs these caches into mlx-vlm and mlx-lm.
"""

from tqcore.cache.batch import BatchQuantizedKVCache
from tqcore.cache.batch_rotating import BatchRotatingQuantizedKVCache
from tqcore.cache.make import make_caches
from tqcore.cache.persist import load_caches, save_caches
from tqcore.cache.report import LayerReport
from tqcore.cache.rotating import RotatingQuantizedKVCache
from tqcore.cache.single import QuantizedKVCache
from tqcore.cache.turboquant import TurboQuantKVCache

__all__ = [
    "BatchQuantizedKVCache",
    "BatchRotatingQuantizedKVCache",
    "LayerReport",
    "QuantizedKVCache",
    "RotatingQuantizedKVCache",
    "TurboQuantKVCache",
    "load_caches",
    "make_caches",
    "save_caches",
]
