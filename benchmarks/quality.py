"""KL to the dense cache on a real model, beside mlx-vlm's own TurboQuant at the same bytes.

python benchmarks/quality.py [--windows 4] [--bits 4 3.5 3 2] [--schemes turboquant ...]

Every layer is quantized on both sides. Windows of 512 + 512 tokens are cut from the text: the
first half is read, the second is judged token by token, teacher-forced, all in one process.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from tqcore import make_caches
from tqcore.cli._output import print_table
from tqcore.demo.smollm2 import ensure_model
from tqcore.measure import numpy_matmul
from tqcore.measure.hosts import Loaded, load
from tqcore.measure.progress import bars
from tqcore.measure.quality import Quality, evaluate
from tqcore.measure.text import manual, read

HALF = 512


def main() -> None:
    """Print a row a scheme and width."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--windows", type=int, default=4)
    parser.add_argument("--bits", type=float, nargs="+", default=[4, 3.5, 3, 2])
    parser.add_argument("--schemes", nargs="+", default=["turboquant"], metavar="SCHEME")
    parser.add_argument("--text", type=Path, help="a text file; default: CPython's manual")
    args = parser.parse_args()
    console = Console(stderr=True)
    with bars(console) as progress:
        loaded = load(ensure_model(progress), "vlm")
        numpy_matmul.use_if_faster(loaded.model)
        ids = loaded.encode(read(args.text) if args.text else manual())
        runs = [(f"{s} {b:g}", s, b) for b in args.bits for s in [*args.schemes, "mlx-vlm"]]
        total = args.windows * (len(runs) + 1) * 2 * HALF
        task = progress.add_task("judge", total=total)
        judged: dict[str, list[Quality]] = {name: [] for name, _, _ in runs}
        starts = np.linspace(0, len(ids) - 2 * HALF - 1, args.windows).astype(int)
        for start in starts:
            window = ids[start : start + 2 * HALF + 1]
            caches = {"dense": loaded.dense_caches()}
            caches |= {name: fresh(loaded, scheme, bits) for name, scheme, bits in runs}
            found = evaluate(
                loaded.model,
                caches,
                window[:HALF],
                window[HALF:],
                advance=lambda _, tokens: progress.advance(task, tokens),
            )
            for name, qualities in judged.items():
                qualities.append(found[name])
    rows = [row(name, qualities) for name, qualities in judged.items()]
    columns = ("cache", "bytes a token", "mean KL, nats", "worst window", "top-1 same")
    print_table(columns, rows, f"{args.windows * HALF} tokens judged, all layers quantized")


def fresh(loaded: Loaded, scheme: str, bits: float) -> list[Any]:
    """Return empty caches, one a layer, none of them dense."""
    layers = len(loaded.dense_caches())
    if scheme == "mlx-vlm":
        return loaded.peer_caches(bits, range(layers))
    separator = "," if ":" in scheme else ":"
    return make_caches(f"{scheme}{separator}skip=none", layers, bits, host=loaded.host)


def row(name: str, qualities: list[Quality]) -> tuple[str, ...]:
    """Return the table's cells; bytes count used tokens, as the peer counts its own."""
    kl = [quality.mean_kl for quality in qualities]
    size = qualities[0].memory.total / (2 * HALF)
    same = float(np.mean([quality.agreement for quality in qualities]))
    return name, f"{size:.0f}", f"{np.mean(kl):.4f}", f"{max(kl):.4f}", f"{100 * same:.1f} %"


if __name__ == "__main__":
    main()
