"""Continuous batching of both hosts: late joins, rows that leave, prompts of unequal length."""

from __future__ import annotations

import importlib
from types import SimpleNamespace
from typing import Any

import mlx.core as mx
import pytest

from tests.integration import models
from tests.integration.batches import PROMPTS, alone, answers, apart, generator
from tests.integration.helpers import adapter, new_caches, packed, steps
from tqcore.adapters import enable, get_host
from tqcore.cache import BatchQuantizedKVCache, QuantizedKVCache
from tqcore.errors import OptionError, StateError, UnknownNameError

BOTH = pytest.mark.parametrize("host", ["vlm", "lm"])
SCHEMES = pytest.mark.parametrize(
    ("scheme", "bits"),
    [
        ("turboquant", 8),
        ("turboquant:skip=none", 3.5),
        ("uniform+turboquant", 4),
        ("turboquant:sinks=4", 4),
    ],
)
TOLERANCE = 2e-3


class Watch:
    """What the generating batch held at each step."""

    def __init__(self) -> None:
        self.rows: list[int] = []
        self.kinds: set[str] = set()
        self.quantized: set[bool] = set()

    def __call__(self, running: Any) -> None:
        batch = running._generation_batch
        self.rows.append(len(batch.uids))
        for cache in list(batch.prompt_cache)[:1]:
            self.kinds.add(type(cache).__name__)
            self.quantized.add(cache.is_quantized)


@BOTH
@SCHEMES
def test_field_case_02_batched_answers_equal_unbatched_ones(
    host: str, scheme: str, bits: float, loaded: Any
) -> None:
    enable(loaded[0], scheme, bits)
    watch = Watch()
    batched = answers(host, *loaded, tokens=8, late=1, watch=watch)
    one_by_one = alone(host, *loaded, tokens=8)
    assert max(watch.rows) == len(PROMPTS)
    assert watch.quantized == {True}
    assert apart(batched, one_by_one) < TOLERANCE
    assert len({tuple(answer) for answer in batched}) == len(PROMPTS)


@BOTH
def test_rows_leave_and_others_join_while_the_rest_goes_on(host: str, loaded: Any) -> None:
    enable(loaded[0], "turboquant", 4)
    counts = [3, 9, 2, 6]
    watch = Watch()
    batched = answers(host, *loaded, tokens=counts, late=2, watch=watch)
    one_by_one = [
        alone(host, *loaded, [prompt], tokens=count)[0]
        for prompt, count in zip(PROMPTS, counts, strict=True)
    ]
    assert [len(answer) for answer in batched] == counts
    assert len(set(watch.rows)) > 2
    assert apart(batched, one_by_one) < TOLERANCE


@BOTH
def test_batched_answers_stay_near_dense_ones(host: str, loaded: Any) -> None:
    dense = answers(host, *loaded)
    enable(loaded[0], "turboquant", 8)
    assert apart(answers(host, *loaded), dense) < 0.05


@BOTH
def test_field_case_35_a_short_and_a_long_prompt_overlap_around_the_start(
    host: str, loaded: Any
) -> None:
    enable(loaded[0], "turboquant", 8, quantized_kv_start=30)
    watch = Watch()
    batched = answers(host, *loaded, tokens=30, late=2, watch=watch)
    assert watch.quantized == {False, True}
    assert apart(batched, alone(host, *loaded, tokens=30)) < 0.05


@BOTH
def test_field_case_40_an_empty_side_of_extend_changes_nothing(host: str, loaded: Any) -> None:
    types = get_host(host).types
    filled = types.quantized("turboquant", 4)
    keys, values = mx.random.normal((2, 1, 2, 7, 32))
    filled.update_and_fetch(keys, values)
    batch = types.quantized.merge([filled])
    words = batch.keys
    batch.extend(types.batch([], filled.choice))
    assert mx.array_equal(batch.keys, words)
    waiting = types.batch([], filled.choice)
    waiting.extend(batch)
    assert mx.array_equal(waiting.keys, words)
    both = types.quantized.merge([types.quantized(filled.choice), filled])
    assert both.offset.tolist() == [0, 7]
    assert mx.array_equal(both.extract(1).keys, filled.keys)


@BOTH
def test_field_case_13_the_whole_batch_protocol_is_there(host: str) -> None:
    types = get_host(host).types
    single, batch = types.quantized("turboquant", 4), types.batch([0, 2], "turboquant", 4)
    rows = ("filter", "extend", "extract", "prepare", "finalize", "batch_size", "left_padding")
    assert all(hasattr(batch, name) for name in rows)
    assert hasattr(single, "merge")
    # what mlx-vlm takes for a batch
    assert not (hasattr(single, "filter") and hasattr(single, "extend"))
    assert isinstance(batch, BatchQuantizedKVCache)
    assert batch.bits == 4
    if host == "vlm":
        turns = single.to_batch([0, 2])
        assert type(turns) is type(batch)
        assert turns.left_padding.tolist() == [0, 2]


def test_a_filled_cache_is_merged_not_turned_into_an_empty_batch() -> None:
    cache = get_host("vlm").types.quantized("turboquant", 4)
    cache.update_and_fetch(*mx.random.normal((2, 1, 2, 7, 32)))
    with pytest.raises(StateError, match=r"7 tokens: use merge"):
        cache.to_batch([0])


@BOTH
def test_field_case_28_filter_and_reorder_move_every_part_of_a_row(host: str) -> None:
    types = get_host(host).types
    rows = []
    for seed, tokens in enumerate((3, 9, 5)):
        mx.random.seed(seed)
        rows.append(types.quantized("turboquant", 4))
        rows[-1].update_and_fetch(*mx.random.normal((2, 1, 2, tokens, 32)))
    batch = types.quantized.merge(rows)
    batch.reorder([2, 0, 2])
    for row, source in enumerate((2, 0, 2)):
        _same(batch.extract(row), rows[source], types.quantized)
    batch.filter(mx.array([1]))
    assert batch.offset.tolist() == [3]
    _same(batch.extract(0), rows[0], types.quantized)


def _same(cache: Any, other: Any, kind: type[Any]) -> None:
    assert type(cache) is kind
    assert cache.offset == other.offset
    for ours, theirs in zip(cache.dequantize(), other.dequantize(), strict=True):
        assert mx.array_equal(ours, theirs)


@BOTH
@pytest.mark.parametrize("mask", [None, "causal", "all"])
@pytest.mark.parametrize("matched", [True, False])
def test_field_case_37_padding_is_never_seen_whatever_mask_a_model_hands_over(
    host: str, mask: Any, matched: bool, loaded: Any
) -> None:
    enable(loaded[0], "turboquant", 4)  # the host's attention takes views
    attention = importlib.import_module(f"mlx_{host}.models.base").scaled_dot_product_attention
    types = get_host(host).types
    row = types.quantized("turboquant", 4)
    row.update_and_fetch(*mx.random.normal((2, 1, 2, 6, 32)))
    batch = types.quantized.merge([row, types.quantized(row.choice)])
    batch.reorder([0, 1, 0])
    batch.extend(types.quantized.merge([_longer(types, 9)]))
    new = mx.random.normal((2, 1, 2, 1, 32))
    alone_keys, alone_values = row.update_and_fetch(*new)
    views = batch.update_and_fetch(*mx.repeat(new, 4, axis=1))
    queries = mx.random.normal((1, 4, 1, 32))
    if mask == "all":
        mask = mx.ones((4, 1, 1, 10), mx.bool_)
    # one latent for both sides, as MLA has it, is expanded
    values, alone_values = (views[1], alone_values) if matched else (views[0], alone_keys)
    ours = attention(mx.repeat(queries, 4, axis=0), views[0], values, batch, 0.2, mask)
    wanted = attention(queries, alone_keys, alone_values, row, 0.2, None)
    assert mx.allclose(ours[:1], wanted, atol=1e-4)
    assert mx.allclose(ours[2:3], wanted, atol=1e-4)
    assert not mx.isnan(ours).any()


def _longer(types: Any, tokens: int) -> Any:
    cache = types.quantized("turboquant", 4)
    cache.update_and_fetch(*mx.random.normal((2, 1, 2, tokens, 32)))
    return cache


@BOTH
def test_field_case_38_array_masks_are_served_on_packed_keys(
    host: str, loaded: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    enable(loaded[0], "turboquant:skip=none", 4)
    expanded: list[Any] = []
    monkeypatch.setattr(
        BatchQuantizedKVCache, "expand", lambda *arguments: expanded.append(arguments)
    )
    watch = Watch()
    answers(host, *loaded, watch=watch)
    assert max(watch.rows) > 1
    assert expanded == []


@BOTH
def test_flags_of_a_batch_generator_quantize_that_one_alone(host: str, loaded: Any) -> None:
    adapter(host).install()
    flags = {"kv_bits": 3.5, "kv_quant_scheme": "turboquant:seed=3", "quantized_kv_start": 0}
    watch = Watch()
    flagged = answers(host, *loaded, watch=watch, late=1, **flags)
    assert watch.quantized == {True}
    assert packed(_run(host, loaded[0])) == [False] * models.LAYERS
    enable(loaded[0], "turboquant:seed=3", 3.5)
    assert apart(flagged, answers(host, *loaded, late=1)) == 0


def _run(host: str, model: Any) -> list[Any]:
    caches = new_caches(host, model)
    steps(host, model, prompt_cache=caches)
    return caches


@BOTH
def test_flags_win_over_what_the_model_is_enabled_with(host: str, loaded: Any) -> None:
    adapter(host).install()
    enable(loaded[0], "turboquant", 4)
    seen: list[str] = []

    def watch(running: Any) -> None:
        seen.extend(c.choice.text for c in list(running._generation_batch.prompt_cache)[:1])

    answers(host, *loaded, watch=watch, kv_bits=4, kv_quant_scheme="uniform")
    assert set(seen) == {"uniform"}


@BOTH
def test_a_bad_flag_of_a_batch_generator_is_refused(host: str, installed: Any) -> None:
    with pytest.raises(UnknownNameError, match="did you mean 'turboquant'"):
        generator(host, *installed, kv_quant_scheme="turboqant", kv_bits=4)
    with pytest.raises(OptionError):
        generator(host, *installed, kv_key_scheme="turboquant", kv_value_scheme="uniform:sinks=4")


def test_batch_generate_of_mlx_vlm_takes_flags(vlm: Any) -> None:
    adapter("vlm").install()
    generate = importlib.import_module("mlx_vlm.generate")
    told: list[tuple[str, list[bool]]] = []

    def listen(filled: Any) -> None:
        told.append(
            (filled.choice.text, [getattr(c, "is_quantized", False) for c in filled.caches])
        )

    get_host("vlm").listeners.append(listen)
    try:
        prompts = ["short", "a prompt that is longer than that"]
        made = generate.batch_generate(
            *vlm, prompts=prompts, max_tokens=4, kv_quant_scheme="turboquant", kv_bits=4
        )
    finally:
        get_host("vlm").listeners.remove(listen)
    assert len(made.texts) == 2
    assert told == [("turboquant", [True, True, True, False])]


def test_batch_generate_of_mlx_lm_runs_on_an_enabled_model(lm: Any) -> None:
    generate = importlib.import_module("mlx_lm.generate")
    enable(lm[0], "turboquant", 8)
    made = generate.batch_generate(
        *lm, PROMPTS, max_tokens=4, return_prompt_caches=True, return_token_ids=True
    )
    assert [packed(caches) for caches in made.caches] == [[True, True, True, False]] * 4
    again = generate.batch_generate(
        *lm,
        [[50, 51]] * 4,
        prompt_caches=made.caches,
        max_tokens=3,
        return_token_ids=True,
    )
    longer = [[*p, *t, 50, 51] for p, t in zip(PROMPTS, made.token_ids, strict=True)]
    fresh = generate.batch_generate(*lm, longer, max_tokens=3, return_token_ids=True)
    assert again.token_ids == fresh.token_ids


def test_make_cache_of_mlx_vlm_makes_our_batches(vlm: Any) -> None:
    ar = importlib.import_module("mlx_vlm.generate.ar")
    adapter("vlm").install()
    model = vlm[0].language_model
    made = ar._make_cache(model, [0, 3], 4, kv_quant_scheme="turboquant", prefill_length=9)
    kinds = importlib.import_module("mlx_vlm.models.cache")
    ours = get_host("vlm").types.batch
    assert [type(c) for c in made] == [ours, ours, ours, kinds.BatchKVCache]
    assert made[0].left_padding.tolist() == [0, 3]
    dense = ar._make_cache(SimpleNamespace(layers=[0, 1]), [0])
    assert {type(c) for c in dense} == {kinds.BatchKVCache}


@BOTH
def test_a_core_batch_cache_is_adopted(host: str, loaded: Any) -> None:
    core = BatchQuantizedKVCache([0], "turboquant", 4)
    adopted = get_host(host).converter(None).convert([core])[0]
    assert type(adopted) is get_host(host).types.batch
    adopted.update_and_fetch(*mx.random.normal((2, 1, 2, 3, 32)))
    assert core.length == 3
    assert isinstance(adopted.extract(0), QuantizedKVCache)
