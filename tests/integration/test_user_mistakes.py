"""What people type and do wrong around the hosts, each with the answer they get."""

from __future__ import annotations

import importlib
from typing import Any

import pytest

import tqcore
from tests.integration.helpers import PROMPT, steps
from tqcore import cli
from tqcore.adapters.flags import Flags
from tqcore.errors import OptionError, WidthError


@pytest.mark.parametrize("command", ["generate", "chat", "server", "lm-server"])
@pytest.mark.parametrize(
    ("short", "full"),
    [
        ("--kv-quant-s", "--kv-quant-scheme"),
        ("--kv-bit", "--kv-bits"),
        ("--kv-bit=3", "--kv-bits"),
        ("--quantized-kv", "--quantized-kv-start"),
    ],
)
def test_field_case_24_a_flag_cut_short_is_refused_not_taken_by_the_host(
    command: str, short: str, full: str, capsys: Any
) -> None:
    assert cli.main([command, "--model", "none", short, "3"]) == 2
    assert f"write the flag out: {full}" in capsys.readouterr().err


@pytest.mark.parametrize("host", ["vlm", "lm"])
def test_a_model_that_is_not_there_is_said_so(host: str, tmp_path: Any, capsys: Any) -> None:
    for flags in ([], ["--kv-bits", "3.5"]):
        line = ["generate", "--host", host, "--model", str(tmp_path), "--prompt", "hi", *flags]
        assert cli.main(line) == 2
        said = capsys.readouterr().err
        assert f"cannot load '{tmp_path}'" in said
        assert "Traceback" not in said


@pytest.mark.parametrize(
    ("flags", "scheme"),
    [
        ({"kv_key_bits": 8, "kv_value_bits": 3.5}, "turboquant"),
        ({"kv_bits": 4, "kv_value_bits": 3.5}, "turboquant"),
        ({"kv_key_bits": 8, "kv_value_bits": 4}, "uniform"),
    ],
)
def test_any_fraction_selects_turboquant(flags: dict[str, float], scheme: str) -> None:
    choice = Flags(**flags).choose()
    assert choice is not None
    assert choice.info.name == scheme


@pytest.mark.parametrize("host", ["vlm", "lm"])
def test_caches_go_on_working_after_uninstall(host: str, request: Any) -> None:
    model = request.getfixturevalue(host)[0]
    adapter = importlib.import_module(f"tqcore.adapters.mlx_{host}")
    caches = tqcore.make_caches("turboquant", 4, 4, host=host)
    steps(host, model, prompt_cache=caches)
    adapter.install()
    adapter.uninstall()
    before = caches[0].offset
    steps(host, model, prompt_cache=caches)
    assert caches[0].offset > before
    tqcore.enable(model, "turboquant", 4)
    kept = tqcore.make_caches("turboquant", 4, 4, host=host)
    steps(host, model, prompt_cache=kept)
    tqcore.disable(model)
    steps(host, model, prompt_cache=kept)
    assert kept[0].offset > len(PROMPT)


@pytest.mark.parametrize("host", ["vlm", "lm"])
@pytest.mark.parametrize(
    ("flags", "error"),
    [
        ({"kv_bits": "x"}, WidthError),
        ({"kv_bits": "x", "kv_quant_scheme": "uniform"}, WidthError),
        ({"kv_bits": 4, "kv_group_size": "x"}, OptionError),
        ({"kv_bits": 4, "kv_group_size": 48}, OptionError),
        ({"kv_bits": 4, "quantized_kv_start": "x"}, OptionError),
    ],
)
def test_a_hosts_function_refuses_what_is_no_number(
    host: str, flags: dict[str, Any], error: type[Exception], installed: Any
) -> None:
    with pytest.raises(error, match=r"x|48"):
        steps(host, installed[0], **flags)
