"""How much of a prompt's time goes into encoding keys and values.

    python benchmarks/encode_share.py turboquant@4 trellis@4 pair@4 turboquant:search=8@4

The demo's model, or `--model FOLDER`, reads `--tokens` of text in chunks of `--chunk`; processor
time, of all threads. MLX's own matrix product is slow on many CPUs: with a faster one in its place
(OpenBLAS, preloaded) a prompt takes less time, and encoding a larger share of it.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import mlx.core as mx
from rich.progress import Progress

from tqcore.cache import make_caches, tokens
from tqcore.demo.smollm2 import ensure_model
from tqcore.measure.forward import chunks, prefill
from tqcore.measure.hosts import load
from tqcore.measure.text import passage


def main() -> None:
    """Print a line a scheme."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("schemes", nargs="+", metavar="SCHEME@BITS")
    parser.add_argument("--model", type=Path)
    parser.add_argument("--tokens", type=int, default=2048)
    parser.add_argument("--chunk", type=int, default=512)
    args = parser.parse_args()
    with Progress() as progress:
        loaded = load(args.model or ensure_model(progress), "lm")
    ids = passage(loaded.encode, args.tokens)
    layers = len(loaded.dense_caches())
    for text in args.schemes:
        scheme, bits = text.rsplit("@", 1)
        for _ in range(2):  # the first one compiles
            caches = make_caches(scheme, layers, float(bits), host="lm")
            encoding, whole = _timed(loaded.model, list(chunks(ids, args.chunk)), caches)
        print(
            f"{text}: {whole:.2f} s of processors, {encoding:.2f} encoding, {encoding / whole:.1%}",
            flush=True,
        )


def _timed(model: Any, parts: list[Any], caches: Any) -> tuple[float, float]:
    """Return the processor seconds of encoding and of the whole prompt."""
    encode, spent = tokens.encode_pair, 0.0

    def timed(*given: Any) -> Any:
        nonlocal spent
        mx.eval(given[:2])
        start = time.process_time()
        made = encode(*given)
        mx.eval(made)
        spent += time.process_time() - start
        return made

    tokens.encode_pair = timed
    try:
        start = time.process_time()
        for part in parts:
            prefill(model, part, caches)
        return spent, time.process_time() - start
    finally:
        tokens.encode_pair = encode


if __name__ == "__main__":
    main()
