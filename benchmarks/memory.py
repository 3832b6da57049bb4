"""Peak memory without the time of a prompt: caches filled at once, by MLX's own allocator.

`tqcore bench generate` measures a real prompt; this reaches lengths that a CPU would not.

    python benchmarks/memory.py --plot docs/memory.png --json memory.json
    python benchmarks/memory.py --model mlx-community/Qwen3-4B-4bit --tokens 4096 32768

First one layer's attention, then a whole model of mlx-lm's: a small one with random
weights, or `--model`. The cache is filled to one chunk before the end without attention; the last
chunk and the tokens after it run as they always do. What was there before (weights, the layer's
inputs) is not counted, what the cache holds is.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import mlx.core as mx
from attrs import asdict, frozen
from mlx_lm.models import llama
from mlx_lm.models.cache import KVCache, make_prompt_cache

import tqcore
from tqcore.cli._output import print_table

DENSE = "dense bf16"
CPU = mx.default_device().type == mx.DeviceType.cpu
SMALL = {"num_hidden_layers": 16, "hidden_size": 512, "intermediate_size": 512, "vocab_size": 512}


@frozen
class Row:
    """Bytes of one cache at one length.

    Args:
        part: ``layer`` or ``model``.
        cache: what is stored, and how.
        tokens: in the cache after the prompt.
        dense: what a bfloat16 cache of these tokens holds, capacity not counted.
        held: what this cache holds.
        prefill: peak during the prompt's last chunk, the cache included.
        grow: what the first step after it needs above the cache, which then grows.
        step: what the step after that needs above the cache.
    """

    part: str
    cache: str
    tokens: int
    dense: int
    held: int
    prefill: int
    grow: int
    step: int


def peak(work: Callable[[], Any]) -> int:
    """Return the most bytes that were in use while ``work`` was evaluated."""
    mx.clear_cache()
    mx.reset_peak_memory()
    mx.eval(work())
    return int(mx.get_peak_memory())


def vectors(heads: int, tokens: int, dim: int) -> mx.array:
    """Return random bfloat16 ``[1, heads, tokens, dim]``, evaluated."""
    x = mx.random.normal((1, heads, tokens, dim)).astype(mx.bfloat16)
    mx.eval(x)
    return x


def fill(cache: Any, heads: int, dim: int, tokens: int, chunk: int) -> None:
    """Store ``tokens`` tokens, a chunk at a time."""
    for start in range(0, tokens, chunk):
        n = min(chunk, tokens - start)
        cache.update_and_fetch(vectors(heads, n, dim), vectors(heads, n, dim))
        mx.eval(cache.state)


def new_cache(mode: str) -> Any:
    """Return an empty cache of one layer."""
    scheme, _, bits = mode.partition("@")
    return KVCache() if mode == DENSE else tqcore.QuantizedKVCache(scheme, float(bits))


def layer_row(args: argparse.Namespace, mode: str, tokens: int) -> Row:
    """Measure attention of one layer."""
    heads, dim, scale = args.kv_heads, args.dim, args.dim**-0.5
    chunk = min(args.chunk, tokens)
    cache = new_cache(mode)
    before = mx.get_active_memory()
    fill(cache, heads, dim, tokens - chunk, chunk)

    def attend(n: int) -> int:
        q, k, v = vectors(args.q_heads, n, dim), vectors(heads, n, dim), vectors(heads, n, dim)

        def work() -> Any:
            keys, values = cache.update_and_fetch(k, v)
            if mode == DENSE:
                attention = mx.fast.scaled_dot_product_attention
                return attention(q, keys, values, scale=scale, mask="causal"), cache.state
            return cache.attend(q, keys, values, scale=scale, mask="causal"), cache.state

        return peak(work) - sum(int(x.nbytes) for x in (q, k, v)) - before

    prefill, held = attend(chunk), int(cache.nbytes)
    grow = attend(1) - held
    full = int(cache.nbytes)
    return Row(
        "layer", mode, tokens, 4 * heads * dim * tokens, held, prefill, grow, attend(1) - full
    )


def model_row(model: Any, shapes: list[tuple[int, int]], chunk: int, mode: str, tokens: int) -> Row:
    """Measure a whole model in mlx-lm's own loop."""
    tqcore.disable(model)
    if mode != DENSE:
        scheme, _, bits = mode.partition("@")
        tqcore.enable(model, scheme, float(bits))
    caches = make_prompt_cache(model)
    before, chunk = mx.get_active_memory(), min(chunk, tokens)
    for cache, (heads, dim) in zip(caches, shapes, strict=True):
        fill(cache, heads, dim, tokens - chunk, chunk)

    def run(n: int, wanted: Callable[[mx.array], Any]) -> int:
        return peak(lambda: wanted(model(mx.zeros((1, n), mx.int32), cache=caches))) - before

    # as the loop does: a prompt's chunk is evaluated by its caches, a step by its logits
    prefill = run(chunk, lambda _: [cache.state for cache in caches])
    held = sum(int(cache.nbytes) for cache in caches)
    grow = run(1, lambda logits: logits) - held
    full = sum(int(cache.nbytes) for cache in caches)
    step = run(1, lambda logits: logits) - full
    dense = sum(4 * heads * dim * tokens for heads, dim in shapes)
    return Row("model", mode, tokens, dense, held, prefill, grow, step)


def small_model(args: argparse.Namespace) -> Any:
    """Return a llama with random bfloat16 weights and the layer's heads."""
    heads = {"num_attention_heads": args.q_heads, "num_key_value_heads": args.kv_heads}
    config = {"model_type": "llama", "rms_norm_eps": 1e-6, "head_dim": args.dim, **heads, **SMALL}
    model = llama.Model(llama.ModelArgs.from_dict(config))
    model.set_dtype(mx.bfloat16)
    return model


def shapes_of(model: Any) -> list[tuple[int, int]]:
    """Return the key/value heads and head_dim of each layer, as one token fills its cache."""
    caches = make_prompt_cache(model)
    if other := {type(cache).__name__ for cache in caches} - {"KVCache"}:
        raise SystemExit(
            f"this model has layers with {', '.join(sorted(other))}: measure another one"
        )
    mx.eval(model(mx.zeros((1, 1), mx.int32), cache=caches))
    return [(cache.keys.shape[1], cache.keys.shape[3]) for cache in caches]


def measure(args: argparse.Namespace) -> Iterator[Row]:
    """Yield a row a part, length and cache."""
    modes = [DENSE, *args.schemes]
    for tokens in args.tokens:
        for mode in modes:
            yield layer_row(args, mode, tokens)
    if args.model:
        from mlx_lm import load

        model = load(args.model)[0]
    else:
        model = small_model(args)
    mx.eval(model.parameters())
    shapes = shapes_of(model)
    for tokens in args.model_tokens or args.tokens:
        for mode in modes:
            yield model_row(model, shapes, args.chunk, mode, tokens)


def plot(rows: list[Row], path: Path) -> None:
    """Draw a panel a part: the peak of the prompt over tokens, and the dense cache itself."""
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot

    parts = list(dict.fromkeys(row.part for row in rows))
    figure, panels = pyplot.subplots(1, len(parts), figsize=(11, 4.5), layout="constrained")
    for panel, part in zip(panels, parts, strict=True):
        for mode in dict.fromkeys(row.cache for row in rows):
            own = [row for row in rows if (row.part, row.cache) == (part, mode)]
            tokens = [row.tokens for row in own]
            line = panel.plot(
                tokens, [row.prefill / 1e6 for row in own], "o-", label=f"{mode}: peak"
            )
            needs = [(row.held + row.step) / 1e6 for row in own]
            color = line[0].get_color()
            panel.plot(tokens, needs, ":", color=color, label=f"{mode}: cache and a step")
        panel.plot(tokens, [row.dense / 1e6 for row in own], "k--", label="bf16 cache alone")
        panel.set(xscale="log", yscale="log", xlabel="tokens", ylabel="MB", title=f"one {part}")
        panel.minorticks_off()
        panel.set_xticks(tokens, [f"{count // 1024}k" for count in tokens], minor=False)
        panel.grid(alpha=0.3)
    panels[0].legend(fontsize=8)
    figure.savefig(path, dpi=110)


def main() -> None:
    """Print a row a measurement."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    lengths = [1024 * 2**i for i in range(6)]
    parser.add_argument("--tokens", type=int, nargs="+", default=lengths, metavar="T")
    parser.add_argument(
        "--model-tokens", type=int, nargs="+", metavar="T", help="of the model, where they differ"
    )
    parser.add_argument(
        "--schemes", nargs="+", default=["turboquant:skip=none@4", "turboquant:skip=none@3.5"]
    )
    parser.add_argument("--model", help="for mlx-lm; default: a small one with random weights")
    parser.add_argument("--kv-heads", type=int, default=8)
    parser.add_argument("--q-heads", type=int, default=8)
    parser.add_argument("--dim", type=int, default=64, help="of a head")
    parser.add_argument("--chunk", type=int, default=128 if CPU else 2048, help="of the prompt")
    parser.add_argument("--json", type=Path, help="write the rows there")
    parser.add_argument("--plot", type=Path, help="write a picture there; needs matplotlib")
    args = parser.parse_args()
    rows = []
    for row in measure(args):
        rows.append(row)
        print(f"{row.part} {row.cache} {row.tokens}: {row.prefill / 1e6:.1f} MB", flush=True)
    columns = (
        "part",
        "cache",
        "tokens",
        "bf16 alone",
        "cache",
        "prefill peak",
        "a step",
        "growing step",
    )
    sizes = ("dense", "held", "prefill", "step", "grow")
    cells = [
        (row.part, row.cache, str(row.tokens), *(f"{getattr(row, s) / 1e6:.2f}" for s in sizes))
        for row in rows
    ]
    shape = f"{args.kv_heads} KV and {args.q_heads} query heads of {args.dim}"
    print_table(columns, cells, f"MB; prompts in chunks of {args.chunk}; {shape}")
    if args.json:
        args.json.write_text(json.dumps([asdict(row) for row in rows], indent=1))
    if args.plot:
        plot(rows, args.plot)


if __name__ == "__main__":
    main()
