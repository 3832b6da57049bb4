"""How the files of ``format1`` were written, by tqcore 0.1.0: kept to be read, not to be run."""

from __future__ import annotations

import sys
from pathlib import Path

import mlx.core as mx
import numpy as np

from tqcore.cache import QuantizedKVCache, RotatingQuantizedKVCache, save_caches


def kv(seed: int) -> list[mx.array]:
    rng = np.random.default_rng(seed)
    return [mx.array(rng.standard_normal((1, 1, 90, 32)) * 3).astype(mx.float16) for _ in "kv"]


def main(folder: Path) -> None:
    made = {
        "plain": [QuantizedKVCache("turboquant", 3.5, layer=i, n_layers=3) for i in range(3)],
        "policy": [QuantizedKVCache("turboquant:sinks=4,window=8,rotation=orthogonal", 4.2)],
        "uniform": [QuantizedKVCache("uniform", 4)],
        "rotating": [RotatingQuantizedKVCache(64, 4, "turboquant", 2)],
        "empty": [QuantizedKVCache("turboquant", 8)],
    }
    for number, (name, caches) in enumerate(made.items()):
        expected = {}
        for layer, cache in enumerate(caches):
            if name != "empty":
                cache.update_and_fetch(*kv(10 * number + layer))
                for side, array in zip("kv", cache.dequantize(), strict=True):
                    expected[f"{layer}.{side}"] = np.array(array)
        if name == "plain":
            caches[2].left_dense = "dense in the saved cache"
        save_caches(folder / f"{name}.safetensors", caches, {"prompt": name})
        np.savez_compressed(folder / f"{name}.npz", **expected)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
