"""How ``format1/centred`` was written, with descriptions of format 2: to be read, not to be run."""

from __future__ import annotations

import sys
from pathlib import Path

import mlx.core as mx
import numpy as np

from tests.compat.write_format1 import kv
from tqcore.cache import QuantizedKVCache, save_caches


def main(folder: Path) -> None:
    scheme = "turboquant:sinks=2,centre="
    caches = [QuantizedKVCache(scheme + centre, 4) for centre in ("keys", "both", "balanced")]
    expected = {}
    for layer, cache in enumerate(caches):
        keys, values = kv(60 + layer)
        views = cache.update_and_fetch(keys + 5, values - 2)
        mx.eval(cache.attend(keys, *views, scale=0.2, mask="causal"))
        for side, array in zip("kv", cache.dequantize(), strict=True):
            expected[f"{layer}.{side}"] = np.array(array)
    save_caches(folder / "centred.safetensors", caches, {"prompt": "centred"})
    np.savez_compressed(folder / "centred.npz", **expected)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
