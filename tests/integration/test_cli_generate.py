"""``tqcore generate`` as people run it: the real command line, the hosts' own ``main``."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path

import pytest

from tests.integration.vision import write_smolvlm
from tqcore.cli import generate
from tqcore.errors import HostError

BOTH = pytest.mark.parametrize("host", ["vlm", "lm"])
SERVED = f"by tqcore {version('tqcore')}"


def tqcore(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run ``python -m tqcore`` with ``arguments``."""
    return subprocess.run(
        [sys.executable, "-m", "tqcore", *arguments],
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, "HF_HUB_OFFLINE": "1"},
    )


def in_process(host: str, model: Path, *arguments: str, prompt: str = "hello") -> int:
    """Run the command in this process: the same ``main``, without a second import of mlx."""
    line = ["--host", host, "--model", str(model), "--prompt", prompt, "--max-tokens", "4"]
    return generate.main([*line, *arguments])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--kv-quant-scheme", "turboqant"], "did you mean 'turboquant'"),
        (["--kv-quant-scheme", "turboquant:sed=7"], "did you mean 'seed'"),
        (["--kv-quant-scheme", "turboquant:skip=lest"], "lest"),
        (["--kv-bits", "11"], "widths are 1 to 8"),
        (["--kv-bits", "3.5", "--kv-value-scheme", "turbo"], "did you mean 'turboquant'"),
        (["--kv-quant-scheme", "turboquant", "--kv-value-scheme", "uniform:skip=none"], "skip"),
    ],
)
def test_a_typo_fails_before_anything_is_loaded(arguments: Sequence[str], message: str) -> None:
    started = time.monotonic()
    result = tqcore("generate", "--model", "no/such-model", "--prompt", "hi", *arguments)
    took = time.monotonic() - started
    assert result.returncode == 2
    assert message in result.stderr
    assert "Traceback" not in result.stderr
    assert took < 2


@BOTH
def test_the_notice_says_who_served_what(
    host: str, llama_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert in_process(host, llama_dir, "--kv-quant-scheme", "turboquant") == 0
    error = capsys.readouterr().err
    assert f"scheme turboquant (keys 3, values 4 bits) {SERVED}: 3 of 4 layers quantized" in error


@BOTH
def test_field_case_12_a_notice_when_nothing_was_quantized(
    host: str, llama_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    flags = ("--kv-bits", "3.5", "--quantized-kv-start", "5000")
    assert in_process(host, llama_dir, *flags) == 0
    error = capsys.readouterr().err
    assert "nothing was quantized" in error
    assert "quantization starts at 5000" in error


@BOTH
def test_without_flags_the_cache_is_dense_and_the_notice_says_how(
    host: str, llama_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert in_process(host, llama_dir) == 0
    assert "the KV cache is dense: give --kv-quant-scheme" in capsys.readouterr().err


@BOTH
def test_the_report_has_a_row_a_layer(
    host: str, llama_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    flags = ("--kv-bits", "4", "--kv-quant-scheme", "turboquant:skip=first1", "--kv-report")
    assert in_process(host, llama_dir, *flags) == 0
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    table = {row[0]: row for row in rows if row and row[0].isdigit() and len(row) > 5}
    assert table["0"][1] == "KVCache"
    assert table["0"][-1] == "skip=first1"
    # a 16-bit scale on each vector of 32 is half a bit a value
    assert table["3"][1:4] == ["quantized", "4.50", "4.50"]


@BOTH
@pytest.mark.parametrize(
    "flags",
    [
        ("--kv-key-scheme", "turboquant:skip=none", "--kv-value-scheme", "uniform:group_size=32"),
        ("--kv-quant-scheme", "turboquant:skip=none+uniform:group_size=32"),
    ],
)
def test_field_case_16_keys_and_values_take_schemes_and_widths_of_their_own(
    host: str, flags: Sequence[str], llama_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    widths = ("--kv-key-bits", "3", "--kv-value-bits", "6", "--kv-report")
    assert in_process(host, llama_dir, *flags, *widths) == 0
    told = capsys.readouterr()
    assert f"(keys 3, values 6 bits) {SERVED}: 4 of 4 layers quantized" in told.err
    # 16 bits on each vector of 32: one scale for the keys, a scale and a bias for the values
    rows = [line.split()[1:4] for line in told.out.splitlines()]
    assert rows.count(["quantized", "3.50", "7.00"]) == 4


@BOTH
@pytest.mark.parametrize("form", ["separate", "joined"])
def test_flags_are_taken_in_any_place_and_the_hosts_own_are_passed_on(
    host: str, form: str, llama_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    line = ["--kv-bits=6"] if form == "joined" else ["--kv-bits", "6"]
    sampling = "--temperature" if host == "vlm" else "--temp"
    argv = ["--model", str(llama_dir), *line, "--host", host, sampling, "0.5", "--seed", "3"]
    before = list(sys.argv)
    assert generate.main([*argv, "--prompt", "- a list item", "--max-tokens", "3"]) == 0
    assert sys.argv == before
    assert "scheme uniform (keys 6, values 6 bits)" in capsys.readouterr().err


def test_a_flag_that_the_host_does_not_know_is_the_hosts_error(
    llama_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as caught:
        in_process("vlm", llama_dir, "--no-such-flag")
    assert caught.value.code == 2
    assert "--no-such-flag" in capsys.readouterr().err


@BOTH
def test_a_run_leaves_the_host_as_it_was(host: str, llama_dir: Path) -> None:
    import importlib

    module = importlib.import_module(generate.MODULES[host])
    before = (module.load, module.generate_step)
    in_process(host, llama_dir, "--kv-bits", "4")
    assert (module.load, module.generate_step) == before


def test_mlx_lm_prompt_cache_files_are_quantized_too(
    llama_dir: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    import json

    import mlx_lm
    from mlx_lm.models import cache as kinds

    from tests.integration.helpers import steps

    model, _ = mlx_lm.load(str(llama_dir))
    caches = kinds.make_prompt_cache(model)
    steps("lm", model, prompt_cache=caches)
    file = str(tmp_path / "prompt.safetensors")
    metadata = {"model": str(llama_dir), "tokenizer_config": json.dumps({})}
    kinds.save_prompt_cache(file, caches, metadata)
    flags = ("--prompt-cache-file", file, "--kv-quant-scheme", "turboquant")
    assert in_process("lm", llama_dir, *flags) == 0
    assert "3 of 4 layers quantized" in capsys.readouterr().err


def test_a_draft_model_of_mlx_lm_is_reported_too(
    llama_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    flags = ("--draft-model", str(llama_dir), "--kv-quant-scheme", "turboquant")
    assert in_process("lm", llama_dir, *flags) == 0
    assert "6 of 8 layers quantized" in capsys.readouterr().err


def test_a_host_that_is_not_installed_says_which_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    from tqcore.cli import _hosted

    monkeypatch.setattr(_hosted, "installed", lambda _: None)
    with pytest.raises(HostError, match=r'pip install "tqcore\[vlm\]"'):
        _hosted.pick_host(None)
    with pytest.raises(HostError, match=r'pip install "tqcore\[lm\]"'):
        _hosted.pick_host("lm")
    monkeypatch.setattr(_hosted, "installed", {"mlx-lm": "1.0"}.get)
    assert _hosted.pick_host(None).name == "lm"


@BOTH
def test_help_shows_our_flags_and_the_hosts(host: str) -> None:
    result = tqcore("generate", "--host", host, "--help")
    assert result.returncode == 0
    assert "--kv-report" in result.stdout
    assert result.stdout.index("--kv-report") < result.stdout.index("--prefill-step-size")


def test_a_picture_goes_through_mlx_vlm(
    tmp_path_factory: pytest.TempPathFactory, capsys: pytest.CaptureFixture[str]
) -> None:
    model = write_smolvlm(tmp_path_factory.mktemp("models") / "smolvlm")
    flags = ("--image", str(model / "picture.png"), "--kv-quant-scheme", "turboquant")
    assert in_process("vlm", model, *flags, prompt="Describe this.") == 0
    assert "3 of 4 layers quantized" in capsys.readouterr().err


@pytest.mark.slow
@BOTH
def test_the_real_model_answers_from_a_quantized_cache(host: str, smollm2_dir: Path) -> None:
    result = tqcore(
        *("generate", "--host", host, "--model", str(smollm2_dir)),
        *("--kv-quant-scheme", "turboquant", "--kv-bits", "4", "--max-tokens", "24"),
        *("--prompt", "What is the capital of France? Answer in one word."),
    )
    assert result.returncode == 0, result.stderr
    assert "Paris" in result.stdout
    assert "29 of 30 layers quantized" in result.stderr
