"""One rank of a model over several processes: ``mlx.launch -n 2 -- python rank.py MODEL OUT ...``.

Loads and shards as the host does, enables, generates greedily by the host's own loop, and
writes what it saw and what its caches hold to ``OUT/rank<R>.safetensors``.
"""

from __future__ import annotations

import argparse
import importlib
import json
from pathlib import Path

import mlx.core as mx

import tqcore
from tqcore.adapters.report import report

PROMPT = list(range(10, 60))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("model")
    parser.add_argument("out", type=Path)
    parser.add_argument("scheme")
    parser.add_argument("bits", type=float)
    parser.add_argument("--host", choices=("lm", "vlm"), default="lm")
    parser.add_argument("--pipeline", action="store_true")
    parser.add_argument("--tokens", type=int, default=5)
    args = parser.parse_args()

    group = mx.distributed.init(strict=True)
    if args.host == "lm":
        split = {"pipeline_group" if args.pipeline else "tensor_group": group}
        model, _ = importlib.import_module("mlx_lm.utils").sharded_load(args.model, **split)
    else:  # its sharded_load takes the few models whose outer class shards
        model, _ = importlib.import_module("mlx_vlm").load(args.model)
        model.language_model.shard(group)
    wiring = tqcore.enable(model, args.scheme, args.bits)
    caches = wiring.make()

    generate = importlib.import_module(f"mlx_{args.host}.generate").generate_step
    call = {"model": model, "max_tokens": args.tokens, "prompt_cache": caches}
    prompt = mx.array(PROMPT)
    if args.host == "lm":
        # the prompt takes two steps: what the first one wrote is all that asks for it
        run = generate(prompt, prefill_step_size=32, **call)
    else:
        run = generate(prompt[None], pixel_values=None, mask=None, **call)
    steps = [(token, logprobs.astype(mx.float32)) for token, logprobs in run]

    layers = report(caches, wiring.reasons)
    found = {"logprobs": mx.stack([p.reshape(-1) for _, p in steps])}
    found |= {f"keys.{r.layer}": mx.array(c.keys) for r, c in zip(layers, caches, strict=True)}
    said = [(r.layer, r.kind, r.nbytes, r.reason) for r in layers]
    about = {"tokens": json.dumps([int(t) for t, _ in steps]), "layers": json.dumps(said)}
    mx.save_safetensors(str(args.out / f"rank{group.rank()}.safetensors"), found, about)


if __name__ == "__main__":
    main()
