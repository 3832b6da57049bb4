from __future__ import annotations

import argparse
import io
import json
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from tqcore.cli import demo as command
from tqcore.cli import main
from tqcore.demo.plan import Options
from tqcore.demo.result import Result
from tqcore.demo.table import show
from tqcore.errors import UnknownNameError, WidthError
from tqcore.measure.errors import MeasureError
from tqcore.measure.greedy import Generation
from tqcore.measure.hosts import pick_host
from tqcore.measure.memory import CacheBytes
from tqcore.measure.quality import Quality

KEYS = {
    "name", "scheme", "key_bits", "value_bits", "layers", "quantized_layers", "tokens",
    "cache_bytes", "cache_bytes_quantized_layers", "bytes_per_token", "ratio_to_fp16",
    "ratio_to_fp16_quantized_layers", "prefill_tokens_per_second", "decode_tokens_per_second",
    "judged_tokens", "mean_kl_nats", "top1_agreement", "perplexity", "text",
}  # fmt: skip


def result(name: str, quantized: tuple[int, ...], layers: tuple[int, ...]) -> Result:
    quality = Quality(
        kl=np.array([0.0, 0.5], np.float32),
        nll=np.array([1.0, 1.0], np.float32),
        agrees=np.array([True, False]),
        prefill_tokens=60,
        prefill_seconds=2.0,
        decode_seconds=1.0,
        memory=CacheBytes(layers, quantized),
    )
    return Result(
        name=name,
        scheme=name if quantized else None,
        key_bits=3.0 if quantized else None,
        value_bits=4.0 if quantized else None,
        tokens=100,
        quality=quality,
        fp16=CacheBytes((1000, 1000), ()),
        generation=Generation((1, 2), 2, 0.5, False),
        text="[an answer]",
    )


@pytest.fixture
def results() -> list[Result]:
    # The dense layer of an fp32 model takes 2000 bytes, and counts as the 1000 of fp16.
    return [result("dense", (), (2000, 2000)), result("turboquant 3.5", (0,), (250, 2000))]


def test_bytes_count_dense_layers_as_fp16(results):
    dense, quantized = results
    assert (dense.cache_bytes, dense.ratio, dense.ratio_quantized) == (2000, 1.0, None)
    assert (quantized.cache_bytes, quantized.ratio_quantized) == (1250, 4.0)
    assert quantized.ratio == 1.6
    assert quantized.bytes_per_token == 12.5


def test_a_result_is_json(results):
    data = json.loads(json.dumps([each.to_dict() for each in results]))
    assert [set(each) for each in data] == [KEYS, KEYS]
    assert data[1]["mean_kl_nats"] == 0.25
    assert data[1]["top1_agreement"] == 0.5
    assert data[1]["perplexity"] == pytest.approx(np.e)
    assert data[1]["prefill_tokens_per_second"] == 30
    assert data[1]["decode_tokens_per_second"] == 4


def test_the_table_fits_a_terminal_and_explains_itself(results):
    out = io.StringIO()
    show(results, Console(file=out, width=100))
    text = out.getvalue()
    line = next(line for line in text.splitlines() if line.strip().startswith("turboquant 3.5"))
    assert line.split() == [
        "turboquant", "3.5", "3/4", "0.00", "12", "4.00", "1.60", "30.0", "4.0", "0.2500", "50.0%"
    ]  # fmt: skip
    assert "same capacity" in text
    assert "1 of 2 layers" in text
    assert text.count("[an answer] …") == 2


def parse(*arguments: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    command.add_parser(parser.add_subparsers())
    return parser.parse_args(["demo", *arguments])


def test_flags():
    args = parse("--bits", "4,2.5", "--context", "512", "--peers")
    assert (args.bits, args.context, args.peers, args.json) == ((4.0, 2.5), 512, True, False)
    for wrong in (("--bits", "a"), ("--context", "0"), ("--max-tokens", "-1")):
        with pytest.raises(SystemExit):
            parse(*wrong)


def test_mistakes_are_found_before_a_model_is_fetched(monkeypatch, capsys):
    monkeypatch.setattr("tqcore.demo.runs.ensure_model", lambda progress: pytest.fail("fetched"))
    with pytest.raises(UnknownNameError):
        Options(scheme="turbo").check()
    with pytest.raises(WidthError):
        Options(bits=(9.0,)).check()
    assert main(["demo", "--scheme", "turbo"]) == 2
    assert "turboquant" in capsys.readouterr().err


def test_the_peers_need_mlx_vlm():
    with pytest.raises(MeasureError, match="--host lm"):
        pick_host("lm", peers=True)


def test_a_missing_model_directory_is_named(capsys, tmp_path):
    assert main(["demo", "--model", str(tmp_path / "none")]) == 2
    assert str(tmp_path / "none") in capsys.readouterr().err


@pytest.mark.slow
def test_the_whole_demo(smollm2_dir: Path, capsys):
    pytest.importorskip("mlx_vlm")
    flags = ["--bits", "4", "--context", "128", "--max-tokens", "3", "--peers"]
    assert main(["demo", "--json", "--model", str(smollm2_dir), *flags]) == 0
    dense, ours, peer = json.loads(capsys.readouterr().out)["results"]
    assert set(dense) == KEYS
    assert (dense["name"], dense["mean_kl_nats"], dense["ratio_to_fp16"]) == ("dense", 0, 1)
    assert ours["quantized_layers"] == peer["quantized_layers"] > 0
    assert ours["tokens"] == 128
    assert 3 < ours["ratio_to_fp16_quantized_layers"] < 4.5
    assert 0 < ours["mean_kl_nats"] < 0.5
    assert ours["text"]
