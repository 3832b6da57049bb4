"""``bench attention`` and ``bench encode`` on small shapes, for real."""

from __future__ import annotations

import importlib.util

import mlx.core as mx
import pytest

from tqcore.bench import attention, encode, lineup
from tqcore.bench.case import Case
from tqcore.bench.contender import Contender, Layer
from tqcore.bench.options import KernelOptions, asked
from tqcore.bench.peers import AFFINE, TURBOQUANT, peers

SMALL = ("--tokens", "64,128", "--kv-heads", "2", "--gqa", "2", "--head-dim", "64")
DENSE = {"mlx bfloat16", "mlx float32"}

pytest.importorskip("mlx_lm")
pytest.importorskip("mlx_vlm")


def test_attention_has_a_row_a_size_and_contender_with_ratios(bench):
    report = bench("attention", *SMALL, "--schemes", "turboquant@4", "turboquant@3.5")
    peers_of = {
        "turboquant@4": {AFFINE, TURBOQUANT},
        "turboquant@3.5": {TURBOQUANT},
    }
    rows = {(row["tokens"], row["name"]): row for row in report["rows"]}
    for tokens in (64, 128):
        for scheme, peer in peers_of.items():
            row = rows[tokens, scheme]
            assert set(row["ratios"]) == set(row["cpu_ratios"]) == DENSE | peer
            dense = rows[tokens, "mlx bfloat16"]
            assert row["ratios"]["mlx bfloat16"] == dense["seconds"] / row["seconds"]
            assert row["kernel"]
    assert len(rows) == len(report["rows"]) == 2 * 7
    own = rows[128, f"{TURBOQUANT}@4"]
    assert rows[128, "turboquant@4"]["ratios"][TURBOQUANT] == pytest.approx(
        own["seconds"] / rows[128, "turboquant@4"]["seconds"]
    )
    assert [x["name"] for x in report["left_out"]] == [f"{AFFINE}@3.5"]


def test_the_json_says_where_and_how(bench):
    report = bench("attention", *SMALL, "--schemes", "uniform@8/4", "--no-peers")
    assert (report["format"], report["benchmark"]) == (1, "attention")
    assert report["machine"]["device"] in ("cpu", "metal", "cuda")
    assert report["machine"]["mlx"] == mx.__version__
    assert report["command"].startswith("tqcore bench attention --tokens 64,128")
    assert report["command"].endswith("--no-peers --repeats 2 --schemes uniform@8/4")
    shape = {"batch": 1, "tokens": 64, "kv_heads": 2, "q_heads": 4, "head_dim": 64}
    assert all(report["rows"][0][key] == value for key, value in shape.items())


def test_bytes_are_those_of_the_cache(bench):
    rows = bench("encode", *SMALL, "--schemes", "turboquant@4", "turboquant@2")["rows"]
    sizes = {row["name"]: row["nbytes"] for row in rows if row["tokens"] == 128}
    vectors = 2 * 2 * 128
    assert sizes["turboquant@4"] == vectors * (64 * 4 // 8 + 2)
    assert sizes["turboquant@2"] == vectors * (64 * 2 // 8 + 2)
    assert sizes[f"{AFFINE}@4"] == vectors * (64 * 4 // 8 + 4)


def test_every_combination_of_sizes_is_measured(bench):
    sizes = ("--tokens", "16", "--batch", "1,2", "--gqa", "1,4", "--head-dim", "32,64")
    report = bench("attention", *sizes, "--kv-heads", "1", "--no-peers", "--dtypes", "float16")
    assert {(r["batch"], r["q_heads"], r["head_dim"]) for r in report["rows"]} == {
        (batch, gqa, dim) for batch in (1, 2) for gqa in (1, 4) for dim in (32, 64)
    }
    assert {r["name"] for r in report["rows"]} == {
        "mlx float16", "turboquant@4", "turboquant@3.5",
    }  # fmt: skip


CASE = Case(batch=2, tokens=96, kv_heads=2, gqa=2, head_dim=64)
EVERYBODY = KernelOptions((asked("turboquant@8"), asked("uniform@8")), (96,), repeats=1)


def test_everybody_attends_to_the_same_keys_and_values():
    contenders, _ = lineup.lineup(EVERYBODY)
    built, left_out = attention.fill(CASE, contenders, layers=1)
    assert not left_out
    outs = {
        contender.name: layers[0].attend(CASE.queries(contender.dtype)).astype(mx.float32)
        for contender, layers in built.items()
    }
    exact = outs.pop("mlx float32")
    assert len(outs) == 5
    for name, out in outs.items():
        error = mx.linalg.norm(out - exact) / mx.linalg.norm(exact)
        assert error.item() < 0.03, name


def test_attending_leaves_the_queries_as_they_were():
    contenders, _ = lineup.lineup(EVERYBODY)
    built, _ = attention.fill(CASE, contenders, layers=1)
    for contender, (layer,) in built.items():
        queries = CASE.queries(contender.dtype)
        before = mx.array(queries)
        mx.eval(layer.attend(queries))
        assert mx.array_equal(queries, before).item(), contender.name


def test_a_step_runs_through_every_layer_in_order():
    steps = [Layer(lambda x, n=n: 10 * x + n, 0) for n in (1, 2, 3)]
    contender = Contender("three", None, None, mx.float32, layer=None)
    out = attention.chain(CASE, contender, steps, None).run()
    assert mx.allclose(out, 1000 * CASE.queries(mx.float32) + 123).item()


def test_a_peer_that_fails_is_left_out_with_the_reason(bench):
    odd = ("--tokens", "16", "--kv-heads", "1", "--head-dim", "48", "--schemes", "turboquant@4")
    for benchmark in ("attention", "encode"):
        report = bench(benchmark, *odd)
        reasons = {each["name"]: each["reason"] for each in report["left_out"]}
        (reason,) = [why for name, why in reasons.items() if name.startswith(f"{AFFINE}@4")]
        assert "no multiple of a group of 64 or 32" in reason
        assert "turboquant@4" in {row["name"] for row in report["rows"]}


def test_a_peer_that_is_not_installed_is_left_out(monkeypatch):
    find = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == "mlx_vlm" else find(name)
    )
    found, left_out = peers([4], mx.float32)
    assert [contender.name for contender in found] == [f"{AFFINE}@4"]
    (missing,) = left_out
    assert missing.name == TURBOQUANT
    assert 'pip install "tqcore[vlm]"' in missing.reason


def test_a_size_beyond_the_memory_is_left_out_with_what_fits(monkeypatch):
    options = KernelOptions((asked("turboquant@4"),), (4096,), layers=32, repeats=1, peers=False)
    # 33.6 MB a layer in float32, 16.8 in bfloat16, 5.2 packed
    monkeypatch.setattr(lineup, "memory_size", lambda: 2 * 600e6)
    rows, left_out = attention.measure(options, lambda text, share: None)
    assert rows == []
    assert "--layers 10 fits" in left_out[0].reason


@pytest.mark.parametrize("benchmark", [attention, encode])
def test_progress_adds_up(benchmark):
    shares = []
    sizes = {"tokens": (16, 64), "head_dim": (64,), "kv_heads": 1, "repeats": 2}
    options = KernelOptions((asked("turboquant@4"),), **sizes)
    benchmark.measure(options, lambda text, share: shares.append(share))
    assert sum(shares) == pytest.approx(1)
