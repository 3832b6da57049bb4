"""The whole command on a tiny model, interrupted once."""

from __future__ import annotations

import base64
import html.parser
import json
import re

import pytest

from tests.report.conftest import SMALL
from tqcore.cli import main
from tqcore.report.cells import Cells

REPORT = {
    "schema": int, "model": str, "host": str, "text": str, "device": str, "versions": dict,
    "context": int, "windows": int, "load": (float, type(None)), "processors": int, "notes": list,
    "caches": list,
}  # fmt: skip
CACHE = {
    "name": str, "family": str, "bits": (float, type(None)), "ours": bool, "bytes_per_token": float,
    "ratio_to_fp16": float, "quantized_layers": int, "judged_tokens": int, "perplexity": float,
    "mean_kl": float, "p99_kl": float, "top1_agreement": float, "layer_errors": list,
    "readings": list, "against_peer": (dict, type(None)), "widths": (list, tuple, type(None)),
}  # fmt: skip
READING = {
    "tokens": int, "depth": float, "found": bool, "prefill_tokens_per_second": float,
    "decode_tokens_per_second": float, "peak_bytes": int, "cache_bytes": int,
}  # fmt: skip
AGAINST = {"peer": str, "bytes_ratio": float, "kl_ratio": float, "low": float, "high": float}

NAMES = [
    "dense",
    "turboquant:sinks=2 4", "turboquant:sinks=2 2", "uniform 4", "uniform 2",
    "mlx-lm affine 4", "mlx-lm affine 2", "mlx-vlm turboquant 4", "mlx-vlm turboquant 2",
]  # fmt: skip


def check(data: dict, schema: dict) -> None:
    assert set(data) == set(schema)
    for key, kind in schema.items():
        assert isinstance(data[key], kind), key


def test_the_json_is_of_the_schema(finished):
    check(finished.report, REPORT)
    for cache in finished.report["caches"]:
        check(cache, CACHE)
        for reading in cache["readings"]:
            check(reading, READING)
        if cache["against_peer"]:
            check(cache["against_peer"], AGAINST)


def test_dense_ours_and_both_peers_are_in_one_report(finished):
    assert [cache["name"] for cache in finished.report["caches"]] == NAMES
    assert finished.report["notes"] == []
    assert all(cache["judged_tokens"] == 256 for cache in finished.report["caches"])


def test_dense_is_its_own_reference(finished):
    dense = finished.report["caches"][0]
    assert (dense["mean_kl"], dense["p99_kl"], dense["top1_agreement"]) == (0, 0, 1)
    assert dense["layer_errors"] == [0, 0, 0, 0]
    assert dense["ratio_to_fp16"] == 1
    assert dense["bytes_per_token"] == 4 * 2 * 2 * 64 * 2  # layers, sides, heads, dim, fp16


def test_every_cache_but_dense_differs_and_fewer_bits_differ_more(finished):
    by_name = {cache["name"]: cache for cache in finished.report["caches"]}
    for family in ("turboquant:sinks=2", "uniform", "mlx-lm affine", "mlx-vlm turboquant"):
        four, two = by_name[f"{family} 4"], by_name[f"{family} 2"]
        assert four["quantized_layers"] == two["quantized_layers"] == 4
        assert 0 < four["mean_kl"] < two["mean_kl"]
        assert four["bytes_per_token"] > two["bytes_per_token"]
        assert len(four["layer_errors"]) == 4
        for more, less in zip(two["layer_errors"], four["layer_errors"], strict=True):
            assert 0 < less < more


def test_an_affine_cache_counts_as_in_an_fp16_model(finished):
    by_name = {cache["name"]: cache for cache in finished.report["caches"]}
    vector = 64 * 4 // 8 + 2 + 2  # codes, scale, bias
    assert (
        by_name["mlx-lm affine 4"]["bytes_per_token"] == 4 * 2 * 2 * vector
    )  # layers, sides, heads


def test_ours_is_judged_beside_the_peer_of_its_bytes(finished):
    by_name = {cache["name"]: cache for cache in finished.report["caches"]}
    for bits in (4, 2):
        ours = by_name[f"turboquant:sinks=2 {bits}"]
        against = ours["against_peer"]
        if against is None:  # further apart than the comparison allows
            peer = by_name[f"mlx-vlm turboquant {bits}"]["bytes_per_token"]
            assert abs(ours["bytes_per_token"] / peer - 1) > 0.03
        else:
            assert against["low"] <= against["kl_ratio"] <= against["high"]
    assert by_name["mlx-vlm turboquant 4"]["against_peer"] is None


def test_what_was_saved_before_the_interruption_is_used(finished):
    assert len(finished.saved_before) == 5
    after = finished.cells()
    assert {name: after[name] for name in finished.saved_before} == finished.saved_before
    assert len(after) == len(NAMES) * (2 + 1 + 1)  # windows, attention, pass keys
    assert not any(name.endswith(".partial") for name in after)


def test_a_finished_report_measures_nothing_again(finished, monkeypatch, capsys):
    monkeypatch.setattr(Cells, "put", lambda *args, **kwargs: pytest.fail("measured again"))
    command = ["report", str(finished.model), *SMALL, "--output", str(finished.folder), "--json"]
    assert main(command) == 0
    again = json.loads(capsys.readouterr().out)
    assert again["caches"] == finished.report["caches"]


class Page(html.parser.HTMLParser):
    VOID = ("meta", "img")

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.images: list[str] = []
        self.references: list[str] = []
        self.cells = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.references += [str(v) for name, v in attrs if name in ("src", "href", "srcset")]
        self.cells += tag == "td"
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_the_page_needs_nothing_else(finished):
    text = (finished.folder / "report.html").read_text()
    page = Page()
    page.feed(text)
    page.close()
    assert page.open == []
    assert len(page.references) == 4
    for reference in page.references:
        kind, _, data = reference.partition(",")
        assert kind == "data:image/png;base64"
        assert base64.b64decode(data, validate=True).startswith(b"\x89PNG")
    assert not re.search(r"https?:|url\(|@import|<script|<link", text)
    assert page.cells >= 9 * len(NAMES)


def test_markdown_and_terminal_show_every_cache(finished):
    document = (finished.folder / "report.md").read_text()
    for name in NAMES:
        assert re.search(rf"^\| {re.escape(name)} \|", document, re.MULTILINE)
        assert name in finished.stdout
    for file in re.findall(r"!\[[^]]*\]\(([^)]+)\)", document):
        assert (finished.folder / file).read_bytes().startswith(b"\x89PNG")
    rows = [line.count("|") for line in document.splitlines() if line.startswith("| ")]
    assert min(rows) >= 6


def test_mistakes_are_found_before_a_model_is_loaded(monkeypatch, capsys, tmp_path):
    monkeypatch.setattr("tqcore.report.run.load", lambda *args: pytest.fail("loaded"))
    for flags in (["--schemes", "turbo"], ["--bits", "9"], ["--schemes", "turboquant:sink=1"]):
        assert main(["report", str(tmp_path), *flags]) == 2
        assert capsys.readouterr().err.startswith("tqcore: ")


def test_a_missing_package_is_named_before_a_model_is_loaded(monkeypatch, capsys, tmp_path):
    monkeypatch.setattr("tqcore.report.files.NEEDS", ("no_such_package",))
    monkeypatch.setattr("tqcore.report.run.load", lambda *args: pytest.fail("loaded"))
    assert main(["report", str(tmp_path)]) == 2
    assert "pip install 'tqcore[report]'" in capsys.readouterr().err


def test_a_model_that_is_nowhere_is_named(capsys, tmp_path):
    assert main(["report", str(tmp_path / "none")]) == 2
    assert str(tmp_path / "none") in capsys.readouterr().err


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--context", "1000000"], "--text"),
        (["--context", "64", "--windows", "1", "--lengths", "64"], "--lengths"),
    ],
)
def test_lengths_that_do_not_fit_are_explained(flags, said, model_dir, tmp_path, capsys):
    command = ["report", str(model_dir), *flags, "--no-peers", "--host", "lm", "--bits", "4"]
    assert main([*command, "--output", str(tmp_path)]) == 2
    assert said in capsys.readouterr().err
    assert not (tmp_path / "report.json").exists()
