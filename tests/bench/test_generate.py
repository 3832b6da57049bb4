"""``bench generate`` with a tiny random model, on the real hosts."""

from __future__ import annotations

import mlx.core as mx
import pytest

from tqcore.bench import generate
from tqcore.bench.decode import decode
from tqcore.bench.model import load_model
from tqcore.demo.errors import DemoError
from tqcore.measure.errors import MeasureError
from tqcore.measure.forward import prefill
from tqcore.measure.greedy import generate as greedy
from tqcore.measure.progress import silent

pytest.importorskip("mlx_lm")
pytest.importorskip("mlx_vlm")

SMALL = ("--contexts", "48,64", "--steps", "3", "--chunk", "32")


@pytest.mark.parametrize("host", ["lm", "vlm"])
def test_a_row_a_context_and_cache(bench, tiny_llama, host):
    schemes = ("--schemes", "turboquant@4", "uniform:group_size=32@8")
    report = bench("generate", str(tiny_llama), *SMALL, "--host", host, *schemes)
    rows = {(row["context"], row["name"]): row for row in report["rows"]}
    names = ("dense float32", "turboquant@4", "uniform:group_size=32@8")
    assert set(rows) == {(context, name) for context in (48, 64) for name in names}
    for (context, _), row in rows.items():
        dense = rows[context, "dense float32"]
        assert row["decode_ratio"] == row["decode"] / dense["decode"]
        assert row["prefill_ratio"] == row["prefill"] / dense["prefill"]
        assert row["prefill_peak"] > row["cache_bytes"] > 0
        assert row["decode_peak"] > 0
        assert row["decode_cpu_ratio"] > 0
        assert row["cache_bytes"] <= dense["cache_bytes"]
    assert f"mlx-{host}" in report["notes"][0]


def test_the_hosts_own_quantized_caches_take_part(bench, tiny_llama):
    report = bench(
        "generate", str(tiny_llama), *SMALL, "--peers", "--schemes", "turboquant@4", "turboquant@3"
    )
    names = [row["name"] for row in report["rows"] if row["context"] == 48]
    assert names == [
        "dense float32",
        *("turboquant@4", "mlx-lm affine@4", "mlx-vlm turboquant@4"),
        *("turboquant@3", "mlx-lm affine@3", "mlx-vlm turboquant@3"),
    ]
    report = bench(
        "generate",
        str(tiny_llama),
        *SMALL,
        "--peers",
        "--host",
        "lm",
        "--schemes",
        "turboquant@3.5",
    )
    assert {each["name"] for each in report["left_out"]} == {
        "mlx-lm affine@3.5", "mlx-vlm turboquant",
    }  # fmt: skip


def test_decoding_is_the_greedy_one(tiny_llama):
    loaded = load_model(str(tiny_llama), "lm", silent())
    ids = generate.prompt(loaded, 24)
    assert len(ids) == 24
    caches, again = loaded.dense_caches(), loaded.dense_caches()
    for each in (caches, again):
        prefill(loaded.model, ids, each)
    expected = greedy(loaded.model, caches, 7, max_tokens=5).tokens
    assert decode(loaded.model, again, mx.array([[7]]), 5).item() == expected[-1]
    assert again[0].offset == 24 + 5


def test_a_model_that_is_nowhere(capsys):
    from tqcore import cli

    assert cli.main(["bench", "generate", "no-such-folder"]) == 2
    assert "model no-such-folder: no model directory" in capsys.readouterr().err


@pytest.mark.parametrize("host", ["lm", "vlm"])
def test_a_model_that_is_nowhere_is_named_with_what_the_host_said(host, monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(DemoError, match=f"'nobody/nothing': no folder.*mlx-{host} could not"):
        load_model("nobody/nothing", host, silent())
    with pytest.raises(MeasureError, match="no/such/folder"):
        load_model("no/such/folder", host, silent())
