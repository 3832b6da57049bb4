"""``tqcore-procrustes MODEL FILE``: learn a rotation for the keys and values of each layer."""

import argparse
import pydoc_data.topics
from pathlib import Path

import mlx.core as mx
import mlx_lm
import numpy as np
from mlx_lm.models.cache import make_prompt_cache

from tqcore_procrustes.learn import learn


def main(argv=None):
    """Run a model on some text, learn, and write ``key.0``, ``value.0``, ``key.1``, ..."""
    parser = argparse.ArgumentParser(prog="tqcore-procrustes", description=__doc__)
    parser.add_argument("model", help="a model directory or owner/name of the hub")
    parser.add_argument("file", type=Path, help="where the matrices go, .npz")
    parser.add_argument("--text", type=Path, help="a text file (default: CPython's manual)")
    parser.add_argument("--tokens", type=int, default=1024)
    parser.add_argument("--bits", type=int, default=2, help="width to learn for (default: 2)")
    args = parser.parse_args(argv)
    model, tokenizer = mlx_lm.load(args.model)
    topics = pydoc_data.topics.topics.values()
    text = args.text.read_text() if args.text else "\n".join(map(str, topics))
    cache = make_prompt_cache(model)
    model(mx.array(tokenizer.encode(text[: 8 * args.tokens])[: args.tokens])[None], cache=cache)
    matrices = {}
    for layer, entry in enumerate(cache):
        for side, array in zip(("key", "value"), entry.state[:2], strict=True):
            vectors = np.array(array.astype(mx.float32)).reshape(-1, array.shape[-1])
            matrices[f"{side}.{layer}"] = learn(vectors, args.bits)
    np.savez(args.file, **matrices)
    print(f"{len(matrices)} rotations for {len(cache)} layers in {args.file}")
