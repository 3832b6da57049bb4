"""Figures that stand on more than one page, or that a program can count, are the same everywhere."""

from __future__ import annotations

import json
import re
import tomllib
from importlib.metadata import version

import pytest

from benchmarks import peers
from tests.docs.pages import ROOT
from tqcore import cli

CHOOSE = (ROOT / "docs/choose.md").read_text()
PEERS = (ROOT / "docs/peers.md").read_text()


def table(text: str, name: str) -> list[list[str]]:
    """Return the cells of the table between two marks, without its head."""
    part = re.search(rf"<!-- {name}:begin.*?-->(.*)<!-- {name}:end -->", text, re.DOTALL)
    assert part is not None
    rows = [line for line in part[1].splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in row.strip("|").split("|")] for row in rows[2:]]


ROWS = table(CHOOSE, "choose")


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_a_figure_to_choose_by_stands_on_the_page_that_its_row_links_to(row):
    (link,) = re.findall(r"\]\(([^)]+)\)", row[3])
    page = "README.md" if link == "#measured" else f"docs/{link.partition('#')[0]}"
    source = (ROOT / page).read_text()
    figures = re.findall(r"\d* ?\d*\.\d+(?:e-\d+)?|\d+ \d{3}", row[2])
    for figure in figures:
        assert figure.strip() in source, f"{figure} is not in {page}"


def test_there_are_figures_to_choose_by():
    assert len(ROWS) >= 8
    assert sum(bool(re.search(r"\d", row[2])) for row in ROWS) >= 8


@pytest.mark.parametrize("row", table(CHOOSE, "fits"), ids=lambda row: row[0])
def test_what_a_token_costs_is_what_explain_counts(row, capsys):
    layers, heads, dim = row[0].split(", ")
    shape = ("--layers", layers, "--kv-heads", heads, "--q-heads", heads, "--head-dim", dim)
    counted = []
    for bits in ("4", "3.5"):
        line = ("explain", "turboquant", "--bits", bits, *shape, "--device", "cpu", "--json")
        assert cli.main(line) == 0
        cache = json.loads(capsys.readouterr().out)["cache"]
        counted += [] if counted else [cache["fp16_bytes_per_token"]]
        counted.append(cache["bytes_per_token"])
    assert row[2:5] == [f"{n:,}".replace(",", " ") for n in counted]
    assert row[5:] == [f"{n * 32768 / 1e9:.2f} GB" for n in counted]


def test_the_hosts_versions_of_the_questions_are_those_of_the_package():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    page = (ROOT / "docs/faq.md").read_text()
    for name, extra in (("mlx-lm", "lm"), ("mlx-vlm", "vlm")):
        (floor,) = re.findall(r">=([\d.]+)", extras[extra][0])
        assert f"{name} {floor} or newer" in page
    (python,) = re.findall(r">=([\d.]+)", project["requires-python"])
    assert f"Python {python} or newer" in page


MEASURED = {cells[0]: cells[1:] for cells in table(PEERS, "bytes")}


@pytest.fixture(scope="module")
def measured() -> dict[str, list[str]]:
    """What the script finds on fewer vectors."""
    return {title: cells for title, *cells in peers.rows(peers.sample(2000, 128))}


@pytest.mark.parametrize("name", MEASURED)
def test_bytes_and_distortion_of_peers_are_what_the_script_measures(name, measured):
    found = measured[name.removesuffix(", groups of 64").strip("`")]
    for shown, cell in zip(MEASURED[name], found, strict=True):
        if not shown:
            assert cell == "-"
            continue
        (size, error), (size_now, error_now) = (each.split(" B, ") for each in (shown, cell))
        assert size == size_now
        assert float(error) == pytest.approx(float(error_now), rel=0.03)


def test_what_is_said_of_the_hosts_is_so_in_the_versions_that_are_named():
    from mlx_lm.models.base import scaled_dot_product_attention as attention
    from mlx_lm.models.cache import QuantizedKVCache, RotatingKVCache
    from mlx_vlm.generate.common import DEFAULT_QUANTIZED_KV_START
    from mlx_vlm.turboquant import TurboQuantKVCache

    if not (version("mlx-lm") in PEERS and version("mlx-vlm") in PEERS):
        return  # the page speaks of other versions
    with pytest.raises(NotImplementedError):
        RotatingKVCache(max_size=8).to_quantized()
    x = peers.sample(4, 64)
    cache = QuantizedKVCache(bits=4)
    fetched = cache.update_and_fetch(x, x)
    with pytest.raises(ValueError, match="does not support attention sinks"):
        attention(x, *fetched, cache=cache, scale=1.0, mask=None, sinks=x[0, :, 0, 0])
    with pytest.raises(ValueError, match=r"integer and \.5"):
        TurboQuantKVCache(bits=4.2)
    assert DEFAULT_QUANTIZED_KV_START == 5000
