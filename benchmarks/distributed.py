"""One model on several ranks of this machine against one process: cache, memory, answers.

    python benchmarks/distributed.py --ranks 3
    python benchmarks/distributed.py --ranks 2 --model MODEL --schemes turboquant@3.5

Runs itself by `mlx.launch` over loopback, split by tensor. The text's first tokens are read, the
next ones judged, teacher-forced; KL in nats is to one process with the same scheme.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import mlx.core as mx

LAUNCH = Path(sys.executable).with_name("mlx.launch")


def work(args: argparse.Namespace) -> None:
    """Run as one rank, and write what it saw and took."""
    from mlx_lm.models.cache import make_prompt_cache
    from mlx_lm.utils import sharded_load

    import tqcore
    from tqcore.measure.text import manual

    group = mx.distributed.init()
    model, tokenizer = sharded_load(args.model)
    scheme, _, bits = args.schemes[0].partition("@")
    if scheme != "dense":
        tqcore.enable(model, scheme, float(bits) if bits else None)
    caches = make_prompt_cache(model)
    ids = mx.array(tokenizer.encode(manual()[: 16 * args.tokens])[: args.tokens + args.steps])[None]
    weights = mx.get_active_memory()
    mx.reset_peak_memory()
    begin = time.perf_counter()
    for start in range(0, args.tokens, 512):
        model(ids[:, start : min(start + 512, args.tokens)], cache=caches)
        mx.eval([cache.state for cache in caches])
    read = time.perf_counter()
    logprobs = []
    for at in range(args.tokens, args.tokens + args.steps):
        logits = model(ids[:, at : at + 1], cache=caches)[:, -1].astype(mx.float32)
        logprobs.append(logits - mx.logsumexp(logits, axis=-1, keepdims=True))
        mx.eval(logprobs)
    end = time.perf_counter()
    about = {
        "heads": caches[0].keys.shape[1],
        "weights": weights,
        "cache": sum(int(cache.nbytes) for cache in caches),
        "peak": mx.get_peak_memory(),
        "read": args.tokens / (read - begin),
        "decode": args.steps / (end - read),
    }
    (args.out / f"{group.rank()}.json").write_text(json.dumps(about))
    mx.save_safetensors(str(args.out / f"{group.rank()}"), {"logprobs": mx.concatenate(logprobs)})


def launch(
    args: argparse.Namespace, ranks: int, scheme: str
) -> tuple[list[dict[str, Any]], mx.array]:
    """Run ``ranks`` ranks; return what each took, and the log-probabilities of rank 0."""
    with tempfile.TemporaryDirectory() as out:
        settings = ("--tokens", args.tokens, "--steps", args.steps, "--out", out)
        program = (__file__, "--model", args.model, "--schemes", scheme, *settings)
        launcher = (LAUNCH, "-n", ranks, "--backend", "ring", "-p", args.port, "--")
        line = (*(launcher if ranks > 1 else ()), sys.executable, *program)
        # the launcher reads its input, and spins at the end of it
        with subprocess.Popen([str(word) for word in line], stdin=subprocess.PIPE) as process:
            if process.wait():
                raise SystemExit(f"{ranks} ranks of {scheme} ended with {process.returncode}")
        found = [json.loads((Path(out) / f"{r}.json").read_text()) for r in range(ranks)]
        return found, mx.load(f"{out}/0.safetensors")["logprobs"]


def main() -> None:
    """Print a row a scheme and count of ranks."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--ranks", type=int, default=3, help="divides the key/value heads")
    parser.add_argument("--model", help="default: the small model of `tqcore demo`, 3 heads")
    parser.add_argument("--schemes", nargs="+", default=["dense", "turboquant@4"], metavar="S@B")
    parser.add_argument("--tokens", type=int, default=512, help="read before the judged ones")
    parser.add_argument("--steps", type=int, default=32, help="judged, one at a time")
    parser.add_argument("--port", type=int, default=32323, help="the first one, one a rank")
    parser.add_argument("--out", type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.out:
        work(args)
        return
    from tqcore.cli._output import print_table
    from tqcore.demo.smollm2 import ensure_model

    args.model = args.model or str(ensure_model())
    rows = []
    for scheme in args.schemes:
        alone: mx.array | None = None
        for ranks in (1, args.ranks):
            found, seen = launch(args, ranks, scheme)
            alone = seen if alone is None else alone
            kl = (mx.exp(alone) * (alone - seen)).sum(axis=-1).mean().item()
            rows.append((scheme, str(ranks), *cells(found), f"{kl:.1e}"))
    columns = (
        "cache",
        "ranks",
        "KV heads",
        "weights",
        "cache a rank",
        "peak",
        "read",
        "decode",
        "KL",
    )
    title = f"{args.tokens} + {args.steps} tokens; MB of the largest rank, tokens a second"
    print_table(columns, rows, title)


def cells(found: list[dict[str, Any]]) -> list[str]:
    """Return the figures of a run, of its largest and its slowest rank."""
    sizes = [
        f"{max(rank[key] for rank in found) / 1e6:.2f}" for key in ("weights", "cache", "peak")
    ]
    speeds = [f"{min(rank[key] for rank in found):.1f}" for key in ("read", "decode")]
    return [str(found[0]["heads"]), *sizes, *speeds]


if __name__ == "__main__":
    main()
