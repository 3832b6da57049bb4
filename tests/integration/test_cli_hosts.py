"""``tqcore chat``, ``run`` and the servers' flags, short of a server that runs."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.integration.test_cli_generate import SERVED, tqcore
from tqcore.adapters.flags import Flags
from tqcore.adapters.mlx_vlm import settings
from tqcore.cli import chat, main, run
from tqcore.errors import OptionError

LINE = f"(keys 3, values 4 bits) {SERVED}"


@pytest.mark.parametrize("command", ["chat", "server", "lm-server"])
def test_a_typo_is_refused_before_a_host_is_imported(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([command, "--model", "no/such", "--kv-quant-scheme", "turboqant"]) == 2
    assert "did you mean 'turboquant'" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["generate", "chat", "server", "lm-server"])
def test_a_misspelt_kernel_is_refused_before_a_model_is_loaded(
    command: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TQCORE_KERNEL", "metal-fusd")
    assert main([command, "--model", "no/such", "--kv-quant-scheme", "turboquant"]) == 2
    assert (
        "unknown score kernel 'metal-fusd'; did you mean 'metal-fused'" in capsys.readouterr().err
    )


def test_a_misspelt_kernel_is_refused_before_a_program_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    script = tmp_path / "program.py"
    script.write_text("raise SystemExit('it ran')")
    monkeypatch.setenv("TQCORE_KERNEL", "metal-fusd")
    assert main(["run", str(script)]) == 2
    assert "did you mean 'metal-fused'" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["chat", "server", "lm-server"])
def test_help_shows_our_flags_and_the_hosts(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main([command, "--help"])
    out = capsys.readouterr().out
    assert out.index("--kv-report") < out.index("Flags of mlx-")


def test_chat_talks_in_turns_on_a_quantized_cache(
    llama_dir: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("hello\nand then?\n/exit\n"))
    flags = ("--kv-quant-scheme", "turboquant", "--max-tokens", "3", "--no-verbose")
    assert chat.main(["--model", str(llama_dir), *flags]) == 0
    captured = capsys.readouterr()
    assert "Error" not in captured.out
    assert captured.out.count("Assistant:") == 2
    assert f"scheme turboquant {LINE}: 3 of 4 layers quantized" in captured.err


def test_the_server_is_not_reloaded_without_us(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["server", "--reload", "--kv-bits", "4"]) == 2
    assert "--reload" in capsys.readouterr().err


def test_the_servers_environment_is_read_as_the_server_reads_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, text in {"KV_BITS": "3.5", "KV_QUANT_SCHEME": "uniform", "KV_KEY_BITS": "0"}.items():
        monkeypatch.setenv(name, text)
    assert settings.from_environment(Flags()) == Flags(kv_bits=3.5)
    assert settings.from_environment(Flags(kv_bits=4)) == Flags(kv_bits=4)
    monkeypatch.setenv("KV_KEY_SCHEME", "uniform")
    assert settings.from_environment(Flags()) == Flags(kv_bits=3.5, kv_key_scheme="uniform")
    monkeypatch.setenv("QUANTIZED_KV_START", "soon")
    with pytest.raises(OptionError, match="QUANTIZED_KV_START='soon': not a number"):
        settings.from_environment(Flags())


@pytest.mark.parametrize(
    ("flags", "text", "sides"),
    [
        (Flags(kv_quant_scheme="turboquant"), "turboquant", (3, 4)),
        (Flags(kv_quant_scheme="turboquant:seed=3", kv_bits=5), "turboquant:seed=3", (5, 5)),
        (Flags(kv_quant_scheme="uniform", kv_bits=3.5), "uniform", (3, 4)),
        (Flags(kv_bits=6, kv_value_bits=4), "uniform", (6, 4)),
        (Flags(kv_quant_scheme="turboquant+uniform"), "turboquant+uniform", (3, 8)),
        (Flags(kv_key_scheme="uniform", kv_bits=3.5), "uniform+turboquant", (3, 4)),
    ],
)
def test_what_the_server_starts_with_means_to_its_batches_what_was_asked(
    flags: Flags, text: str, sides: tuple[float, float]
) -> None:
    values: dict[str, Any] = settings.starting_values(flags, flags.choose())
    understood = Flags.take(values).choose()
    assert understood is not None
    assert (understood.text, understood.sides) == (text, sides)
    assert understood.start == 0


SCRIPT = """
import sys, mlx_{host}
model, tokenizer = mlx_{host}.load(sys.argv[1])
for _ in range(2):
    mlx_{host}.generate(model, tokenizer, "hello", max_tokens=3, kv_bits=3.5)
print("done", __name__, sys.argv[1:])
"""


@pytest.mark.parametrize("host", ["vlm", "lm"])
def test_run_makes_a_script_take_our_flags(
    host: str, llama_dir: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    script = tmp_path / "program.py"
    script.write_text(SCRIPT.format(host=host))
    before = list(sys.path)
    assert run.main([str(script), str(llama_dir)]) == 0
    assert sys.path == before
    captured = capsys.readouterr()
    assert f"done __main__ ['{llama_dir}']" in captured.out
    notices = [line for line in captured.err.splitlines() if line.startswith("tqcore:")]
    assert notices == [f"tqcore: scheme turboquant {LINE}: 3 of 4 layers quantized"]


@pytest.mark.parametrize(
    "module", [["mlx_lm", "generate"], ["mlx_lm.generate"], ["mlx_vlm.generate"]]
)
def test_run_makes_a_hosts_own_module_take_our_flags(module: list[str], llama_dir: Path) -> None:
    line = ["--model", str(llama_dir), "--prompt", "hello", "--max-tokens", "3"]
    result = tqcore("run", *module, *line, "--kv-bits", "4", "--quantized-kv-start", "0")
    assert result.returncode == 0, result.stderr
    assert "scheme uniform (keys 4, values 4 bits)" in result.stderr
    assert "layers quantized" in result.stderr


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["no_such_module"], "no module 'no_such_module' to run"),
        (["no_such.module"], "no module 'no_such.module' to run"),
        (["nowhere/to/be/found.py"], "no file"),
    ],
)
def test_run_says_what_it_cannot_find(argv: Sequence[str], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        run.main(argv)


def test_run_says_when_nothing_asked_for_a_quantized_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "idle_program.py").write_text("import sys; print(sys.argv); sys.exit(3)")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as caught:
        run.main(["idle_program", "-x"])
    assert caught.value.code == 3
    captured = capsys.readouterr()
    assert "'-x']" in captured.out
    assert "no run of a model asked for a quantized KV cache" in captured.err
    assert os.getcwd() not in sys.path
