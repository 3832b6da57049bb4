"""Attention errors, bytes and peers, on a tiny model."""

from __future__ import annotations

import sys

import mlx.core as mx
import pytest
from attrs import evolve

from tqcore.measure.errors import MeasureError
from tqcore.measure.forward import prefill
from tqcore.measure.hosts import load
from tqcore.measure.memory import bytes_in_fp16
from tqcore.report import contenders as contenders_module
from tqcore.report.attention import layer_errors
from tqcore.report.cells import Cells
from tqcore.report.contenders import contenders, warm_up
from tqcore.report.corpus import Corpus
from tqcore.report.divergence import measure_window
from tqcore.report.options import Options, asked


@pytest.fixture(scope="module")
def loaded(model_dir):
    return load(model_dir, "lm")


def ids(n: int) -> list[int]:
    return [(31 * i * i + 7 * i) % 256 + 4 for i in range(n)]


def ours(loaded, *schemes: str, bits: float = 4.0):
    schemes_asked, _ = asked(Options(schemes=schemes, bits=(bits,)))
    return contenders(loaded, schemes_asked, (bits,), peers=False)[0][1:]


def test_dense_has_no_error_and_the_host_gets_its_attention_back(loaded):
    module = sys.modules[type(loaded.model.layers[0].self_attn).__module__]
    before = module.scaled_dot_product_attention
    errors = layer_errors(loaded, [loaded.dense_caches()], ids(64), 32)
    assert errors == [[0.0] * 4]
    assert module.scaled_dot_product_attention is before


def test_the_error_is_that_of_one_layer_on_the_dense_runs_vectors(loaded):
    """A cache that doubles its values doubles the output: an error of exactly 1, in its layer."""
    dense = type(loaded.dense_caches()[0])

    class Doubling(dense):
        def update_and_fetch(self, keys, values):
            keys, values = super().update_and_fetch(keys, values)
            return keys, 2 * values

    caches = loaded.dense_caches()
    caches[1] = Doubling()
    (errors,) = layer_errors(loaded, [caches], ids(200), 100)
    assert errors == [0.0, pytest.approx(1.0), 0.0, 0.0]


def test_no_cache_changes_what_the_others_are_given(loaded):
    """mlx-lm's quantized attention scales the queries that it is given."""
    alone = layer_errors(loaded, [loaded.affine_caches(4, 64)], ids(64), 32)
    order = [loaded.affine_caches(4, 64), loaded.dense_caches(), loaded.affine_caches(4, 64)]
    first, dense, last = layer_errors(loaded, order, ids(64), 32)
    assert dense == [0.0] * 4
    assert first == last == alone[0]


def test_bytes_are_what_the_allocator_gives(loaded):
    dense = contenders(loaded, [], (), peers=False)[0][0]
    for contender in [dense, *ours(loaded, "turboquant", "turboquant:sinks=4", "uniform")]:
        prefill(loaded.model, ids(256), contender.caches())  # warm
        mx.clear_cache()
        before = mx.get_active_memory()
        caches = contender.caches()
        prefill(loaded.model, ids(256), caches)
        mx.eval([cache.state for cache in caches])
        counted = sum(int(cache.nbytes) for cache in caches)
        assert counted == pytest.approx(mx.get_active_memory() - before, rel=0.02), contender.name
        del caches  # or the next one's count would miss these


def test_what_has_the_models_dtype_counts_two_bytes(loaded):
    plain, sinks, skipped = (
        contender.caches()
        for contender in ours(loaded, "turboquant", "turboquant:sinks=4", "turboquant:skip=last")
    )
    for caches in (plain, sinks, skipped):
        prefill(loaded.model, ids(256), caches)
    token = 2 * 2 * 64  # sides, heads, dim: values of a layer's token
    assert bytes_in_fp16(plain, 4) == sum(cache.nbytes for cache in plain)
    assert bytes_in_fp16(sinks, 4) - bytes_in_fp16(plain, 4) == 4 * 4 * token * 2
    assert bytes_in_fp16(skipped, 4) == sum(c.nbytes for c in skipped[:3]) + 256 * token * 2


def test_making_caches_leaves_the_model_as_it_was(loaded):
    for contender in ours(loaded, "turboquant"):
        assert all(cache.left_dense is None for cache in contender.caches())
    assert "make_cache" not in vars(loaded.model)
    assert {type(cache).__name__ for cache in loaded.dense_caches()} == {"KVCache"}


def test_a_peer_that_fails_is_noted_and_costs_nothing_else(loaded, monkeypatch):
    def failing(loaded, contender) -> None:
        if contender.name.endswith(" 2"):
            raise ValueError("no kernel")

    monkeypatch.setattr(contenders_module, "warm_up", failing)
    found, notes = contenders(loaded, [], (4.0, 2.0), peers=True)
    assert [each.name for each in found] == ["dense", "mlx-lm affine 4"]
    assert any("mlx-lm affine 2" in note and "no kernel" in note for note in notes)
    assert any("mlx-vlm turboquant" in note for note in notes)


def test_a_model_that_is_enabled_stays_usable_on_dense_caches(loaded):
    """Routing our caches changes nothing of a dense run."""
    out = loaded.model(mx.array([ids(8)]), cache=loaded.dense_caches())
    ours(loaded, "turboquant")[0].caches()
    again = loaded.model(mx.array([ids(8)]), cache=loaded.dense_caches())
    assert mx.array_equal(out, again)


def test_a_cache_that_breaks_the_model_is_named_and_saves_nothing(loaded, tmp_path):
    dense = type(loaded.dense_caches()[0])

    class Breaking(dense):
        def update_and_fetch(self, keys, values):
            keys, values = super().update_and_fetch(keys, values)
            return keys, values * mx.array(float("nan"))

    found = contenders(loaded, [], (), peers=False)[0][0]
    broken = evolve(found, name="broken", caches=lambda: [Breaking() for _ in range(4)])
    with pytest.raises(MeasureError, match="not finite"):
        warm_up(loaded, broken)
    corpus = Corpus("text", "", ids(200), ())
    both = [found, evolve(broken, identity="broken")]
    with pytest.raises(MeasureError, match="broken: its predictions"):
        measure_window(loaded, Cells(tmp_path, {}), both, corpus, 0, 64, lambda *_: None)
    assert len(list(tmp_path.iterdir())) == 1  # dense
