"""The whole command: a plan of a tiny model, interrupted once, used, and what fits."""

from __future__ import annotations

import io
import json
import re

import mlx.core as mx
import pytest

from tests.plan.conftest import DIM, HEADS, LAYERS
from tqcore.cache import make_caches
from tqcore.cli import main
from tqcore.plan import memory
from tqcore.plan.cost import Costs
from tqcore.plan.file import load
from tqcore.plan.fit import fit
from tqcore.plan.memory import Memory
from tqcore.plan.shapes import LayerShape
from tqcore.plan.sizes import bytes_text, parse_bytes, parse_tokens
from tqcore.report.cells import Cells
from tqcore.schemestring import choose

SMALL = ("--scheme", "turboquant:sinks=2", "--widths", "2,3,4", "--tokens", "64", "--windows", "1")
TOKEN = LAYERS * HEADS * 2 * (DIM * 3 // 8 + 2)
"""Bytes a token at 3 bits."""


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    folder = tmp_path_factory.mktemp("home")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TQCORE_CACHE_DIR", str(folder / "cache"))
        yield folder


@pytest.fixture(scope="module")
def planned(model_dir, home):
    """The JSON of a plan at 3 bits, whose first run was interrupted."""
    path = home / "three.toml"
    command = ["plan", str(model_dir), "--bits", "3", *SMALL, "--output", str(path), "--json"]
    put, count = Cells.put, 0

    def interrupted(*args, **kwargs):
        nonlocal count
        count += 1
        if count > 9:
            raise KeyboardInterrupt
        put(*args, **kwargs)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Cells, "put", interrupted)
        assert main(command) == 130
    before = {p.name: p.stat().st_mtime_ns for p in home.glob("cache/plan/**/*.json")}
    out = io.StringIO()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.stdout", out)
        assert main(command) == 0
    after = {p.name: p.stat().st_mtime_ns for p in home.glob("cache/plan/**/*.json")}
    assert len(before) == 9
    assert {name: after[name] for name in before} == before
    return json.loads(out.getvalue())


def test_the_plan_is_within_its_bytes_and_no_worse_than_equal_widths_by_its_own_count(planned):
    plan, equal, pair = planned["rows"]
    assert equal["name"] == "keys 3, values 3, every layer"
    assert equal["bytes_per_token"] == TOKEN >= plan["bytes_per_token"]
    assert plan["expected_kl"] <= pair["expected_kl"] <= equal["expected_kl"]
    assert planned["judged_tokens"] == 512
    for row in planned["rows"]:
        assert row["measured_kl"] > 0
        assert row["expected_kl"] / 3 < row["together_kl"] < 3 * row["expected_kl"]
    for row in planned["rows"][1:]:
        over = row["plan_over_it"]
        assert over["low"] <= over["ratio"] <= over["high"]
        assert over["ratio"] == pytest.approx(plan["measured_kl"] / row["measured_kl"], rel=1e-4)


def test_the_file_is_the_plan_and_real_caches_take_its_bytes(planned):
    plan = load(planned["file"])
    assert planned["scheme"] == plan.choose().text == choose(f"@{planned['file']}").text
    assert list(plan.keys) == planned["keys"]
    assert set(plan.keys) | set(plan.values) <= {2, 3, 4}
    assert dict(plan.about)["bytes_per_token"] == planned["rows"][0]["bytes_per_token"]
    assert dict(plan.about)["measured_kl"] == pytest.approx(
        planned["rows"][0]["measured_kl"], rel=1e-3
    )
    caches = make_caches(f"@{planned['file']}", LAYERS)
    for cache in caches:
        x = mx.random.normal((1, HEADS, planned["context"], DIM))
        cache.update_and_fetch(x, x)
    assert sum(cache.nbytes for cache in caches) == planned["cache_bytes"]


def test_it_generates(planned, model_dir, capsys):
    line = ["--model", str(model_dir), "--prompt", "hello", "--max-tokens", "3"]
    assert main(["generate", *line, "--kv-quant-scheme", f"@{planned['file']}"]) == 0
    said = capsys.readouterr().err
    key, value = choose(f"@{planned['file']}").sides
    assert f"(keys {key:.4g}, values {value:.4g} bits)" in said
    assert "4 of 4 layers quantized" in said


def test_another_budget_measures_only_the_new_plan(planned, model_dir, home, monkeypatch, capsys):
    kinds = []
    put = Cells.put
    monkeypatch.setattr(Cells, "put", lambda *a, **k: (kinds.append(a[2]), put(*a, **k)))
    path = home / "budget.toml"
    budget = 256 * (TOKEN - 100) + 2 * LAYERS * HEADS * 2 * DIM * 4
    command = ["plan", str(model_dir), "--budget", str(budget), "--context", "200", *SMALL]
    assert main([*command, "--output", str(path)]) == 0
    assert set(kinds) == {"together", "divergence"}
    out = capsys.readouterr().out
    assert f"use it with --kv-quant-scheme @{path}" in out
    caches = make_caches(f"@{path}", LAYERS)
    for cache in caches:
        x = mx.random.normal((1, HEADS, 200, DIM))
        cache.update_and_fetch(x, x)
    took = sum(cache.nbytes for cache in caches)
    assert took <= budget
    assert f"({took:,} bytes) at 200 tokens" in out
    assert re.search(r"^ *3 +\d", out, re.MULTILINE)  # the last layer's row


def test_layers_that_stay_dense_cost_what_they_cost(model_dir, home, capsys):
    path = home / "skip.toml"
    command = ["plan", str(model_dir), "--bits", "3", "--scheme", "uniform:skip=last2", "--json"]
    small = ["--widths", "2,4", "--tokens", "64", "--windows", "0", "--output", str(path)]
    assert main([*command, *small]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["keys"][2:] == shown["values"][2:] == [16, 16]
    assert shown["rows"][0]["measured_kl"] is None
    caches = make_caches(f"@{path}", LAYERS)
    for cache in caches:
        x = mx.random.normal((1, HEADS, shown["context"], DIM))
        cache.update_and_fetch(x, x)
    assert sum(cache.nbytes for cache in caches) == shown["cache_bytes"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--bits", "3", "--scheme", "treliss"], "did you mean 'trellis'"),
        (["--bits", "9"], "allots 1 to 5"),
        (["--bits", "3", "--scheme", "trellis:layers=0:k4v4"], "leave it out"),
        (["--bits", "3", "--widths", "7"], "nothing to allot"),
        (["--bits", "3", "--tokens", "3"], "expected 16 or more"),
        (["--bits", "3", "--tokens", "64"], "learns means from the first 32 tokens"),
        (["--bits", "3", "--output", "."], "this is a directory"),
        (["--bits", "3", "--text", "nowhere.txt"], "no such file"),
        (["--bits", "3", "--windows", "-1"], "expected 0 or more"),
        (["--budget", "lots"], "40MiB"),
        (["--budget", "0"], "40MiB"),
        (["--bits", "3", "--context", "long"], "4096 or 32k"),
        (["--fit", "--scheme", "@/no/such.toml"], "cannot be read"),
        (["--fit", "--memory", "big"], "1.5GB"),
        (["--fit", "9"], "widths are 1 to 8"),
    ],
)
def test_mistakes_are_found_before_a_model_is_loaded(
    arguments, said, capsys, monkeypatch, tmp_path
):
    for module in ("run", "fit"):
        monkeypatch.setattr(f"tqcore.plan.{module}.load", lambda *a, **k: pytest.fail("loaded"))
    assert main(["plan", str(tmp_path), *arguments]) == 2
    assert said in capsys.readouterr().err


def test_a_budget_is_asked_for(capsys):
    with pytest.raises(SystemExit):
        main(["plan"])
    assert "--bits --budget --fit is required" in capsys.readouterr().err


def test_a_budget_that_nothing_fits_is_refused_before_anything_is_measured(
    model_dir, home, capsys, monkeypatch
):
    monkeypatch.setattr(Cells, "put", lambda *args, **kwargs: pytest.fail("measured"))
    assert main(["plan", str(model_dir), "--budget", "10KiB", *SMALL]) == 2
    least = 8192 * LAYERS * HEADS * 2 * (DIM // 4 + 2) + 2 * LAYERS * HEADS * 2 * DIM * 4
    assert f"take {least:,}" in capsys.readouterr().err


def test_texts_that_are_too_short(model_dir, home, tmp_path, capsys):
    (tmp_path / "text.txt").write_text("short")
    command = ["plan", str(model_dir), "--bits", "3", "--text", str(tmp_path / "text.txt")]
    assert main(command) == 2
    assert "--text" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("40MiB", 40 << 20),
        ("1.5GB", 1_500_000_000),
        ("4096", 4096),
        (" 2 kib ", 2048),
        ("1t", 10**12),
    ],
)
def test_sizes(text, count):
    assert parse_bytes(text) == count


def test_tokens_are_counted_in_1024():
    assert [parse_tokens(t) for t in ("32k", "4096", "1m", "0.5K")] == [32768, 4096, 1 << 20, 512]
    assert [bytes_text(n) for n in (5, 2048, 3 << 20, 5 << 29)] == [
        "5 B", "2.00 KiB", "3.00 MiB", "2.50 GiB",
    ]  # fmt: skip


# What fits


def test_the_longest_context_is_the_longest():
    costs = Costs((LayerShape(2, 64, 64, 2),) * 3)
    choices = {"mine": choose("turboquant:skip=none,sinks=4", 4)}
    found = fit(costs, choices, weights=1000, reserve=500, context=1000, memory=Memory(10**7, ""))
    dense, mine = found.rows
    assert [row.name for row in found.rows] == ["dense, fp16", "mine"]
    assert dense.total_bytes == 1500 + 1024 * 3 * 256 * 2
    free = 10**7 - 1500
    for row, at in ((dense, costs.dense_at), (mine, lambda n: costs.at(choices["mine"], n))):
        assert at(row.longest) <= free < at(row.longest + 1)
        assert row.fits == (row.longest >= 1000)
    assert mine.longest > 3.5 * dense.longest


def test_nothing_fits_and_everything_fits():
    small = fit(Costs((LayerShape(2, 64, 64, 2),)), {}, 100, 0, 10, Memory(50, ""))
    assert (small.rows[0].fits, small.rows[0].longest) == (False, 0)
    state = fit(Costs((LayerShape(0, 0, 0, 0, state=9),)), {}, 1, 0, 10**6, Memory(50, ""))
    assert (state.rows[0].fits, state.rows[0].longest) == (True, None)


def test_this_machine_has_memory():
    found = memory.memory()
    assert found.total > 1 << 28
    assert found.source
    assert memory.machine(5) == Memory(5, "as given")


@pytest.mark.parametrize(
    "family", ["llama", "gemma3_text", "falcon_h1", "nemotron_h", "gpt_oss", "deepseek_v3"]
)
def test_any_model_is_weighed_without_reading_its_weights(family, tmp_path, capsys):
    from mlx.utils import tree_flatten

    from tests.integration.models import write
    from tqcore.measure.hosts import load as load_model

    path = write(tmp_path / family, family)
    mx.clear_cache()
    before = mx.get_active_memory()
    mx.reset_peak_memory()
    command = ["plan", str(path), "--fit", "4", "--scheme", "turboquant", "--memory", "2GiB"]
    assert main([*command, "--host", "lm", "--context", "4k", "--json"]) == 0
    read = mx.get_peak_memory() - before
    found = json.loads(capsys.readouterr().out)
    loaded = load_model(path, "lm")
    weights = sum(leaf.nbytes for _, leaf in tree_flatten(loaded.model.parameters()))
    assert found["weights"] == weights
    assert read < weights / 2
    assert found["rows"][0]["fits"]


@pytest.mark.slow
def test_a_real_model(smollm2_dir, tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("TQCORE_CACHE_DIR", str(tmp_path / "cache"))  # what was measured before
    path = tmp_path / "plan.toml"
    command = [
        "plan",
        str(smollm2_dir),
        "--bits",
        "3",
        "--scheme",
        "turboquant",
        "--widths",
        "2,3,4",
        "--json",
    ]
    small = ["--tokens", "64", "--windows", "1", "--output", str(path)]
    assert main([*command, *small]) == 0
    found = json.loads(capsys.readouterr().out)
    plan, equal, _ = found["rows"]
    assert plan["bytes_per_token"] <= equal["bytes_per_token"] == 30 * 3 * 2 * 26
    assert plan["measured_kl"] < equal["measured_kl"]
    assert equal["plan_over_it"]["high"] < 1
