"""Centred and balanced caches inside both hosts: chunks, batches, joins, kept prefixes."""

from __future__ import annotations

from typing import Any

import mlx.core as mx
import mlx_vlm
import pytest

from tests.integration.batches import PROMPTS, alone, answers, apart
from tests.integration.helpers import drift, new_caches, packed, steps
from tqcore.adapters import disable, enable
from tqcore.measure.forward import language_model, logits

BOTH = pytest.mark.parametrize("host", ["vlm", "lm"])
LONG = [[40 + (7 * i + n) % 80 for i in range(n)] for n in (45, 61, 90, 50)]
CENTRED = "turboquant:skip=none,sinks=2,centre=balanced"


@BOTH
def test_the_recommended_scheme_answers_like_a_dense_cache(host: str, loaded: Any) -> None:
    dense = steps(host, loaded[0])
    enable(loaded[0], "trellis", 5, host=host)
    caches = new_caches(host, loaded[0])
    assert drift(steps(host, loaded[0], max_tokens=60, prompt_cache=caches), dense) < 0.1
    assert all(packed(caches))
    assert {cache.tokens.centre.names for cache in caches} == {
        ("key_mean", "key_gain", "value_mean")
    }


@BOTH
def test_gains_are_learnt_inside_the_host(host: str, loaded: Any) -> None:
    enable(loaded[0], CENTRED, 8, host=host)
    caches = new_caches(host, loaded[0])
    logits(language_model(loaded[0]), range(40, 110), caches)
    for cache in caches:
        assert cache.is_quantized, "packed once its queries were seen"
        gain = cache.tokens.centre.arrays["key_gain"]
        assert mx.abs(mx.log(gain.astype(mx.float32))).max().item() > 0.01


@BOTH
@pytest.mark.parametrize("late", [0, 2])
def test_batched_answers_are_near_unbatched_and_dense_ones(
    host: str, late: int, loaded: Any
) -> None:
    dense = answers(host, *loaded, LONG)
    enable(loaded[0], CENTRED, 8, host=host)
    batched = answers(host, *loaded, LONG, late=late)
    one_by_one = alone(host, *loaded, LONG)
    assert apart(batched, one_by_one) < 0.05
    assert apart(batched, dense) < 0.1


@BOTH
def test_short_rows_beside_long_ones_stay_near_dense_ones(host: str, loaded: Any) -> None:
    dense = answers(host, *loaded, PROMPTS)
    enable(loaded[0], CENTRED, 8, host=host)
    assert apart(answers(host, *loaded, PROMPTS, late=1), dense) < 0.1


def test_kept_prefixes_carry_their_means(vlm: Any) -> None:
    from mlx_vlm.apc import APCManager

    enable(vlm[0], CENTRED, 8)
    prompts = ["a prefix that is shared " * 6 + tail for tail in ("A", "A and B", "A and C")]

    def run(**kwargs: Any) -> list[Any]:
        return [mlx_vlm.generate(*vlm, p, max_tokens=4, **kwargs) for p in prompts]

    manager = APCManager(num_blocks=64, block_size=4)
    try:
        warm, cold = run(apc_manager=manager), run()
        stats = manager.stats_snapshot()
    finally:
        manager.close()
    assert stats["exact_hits"] == 2
    assert [a.token_ids for a in warm] == [a.token_ids for a in cold]
    disable(vlm[0])
