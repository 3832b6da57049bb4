"""How the hosts' ``kv_*`` arguments are read."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from tqcore.adapters import flags
from tqcore.adapters.flags import Flags, turboquant_enabled
from tqcore.errors import OptionError, WidthError


def choice(**arguments: Any) -> Any:
    return Flags.take(arguments).choose()


@pytest.mark.parametrize(
    ("bits", "scheme", "expected"),
    [
        (None, "turboquant", False),
        (None, None, False),
        (4, None, False),
        (4.0, "uniform", False),
        (3.5, None, True),
        (3.5, "uniform", True),
        (4, "turboquant", True),
        (4, "turboquant:seed=3", True),
        (4, "turboquant:seed=3+uniform", True),
        (4, "uniform+turboquant", True),
    ],
)
def test_turboquant_enabled(bits: float | None, scheme: str | None, expected: bool) -> None:
    assert turboquant_enabled(bits, scheme) is expected


@pytest.mark.parametrize(
    ("arguments", "text", "sides"),
    [
        ({"kv_bits": 3.5}, "turboquant", (3, 4)),
        ({"kv_bits": 4}, "uniform", (4, 4)),
        ({"kv_bits": 3.5, "kv_quant_scheme": "uniform"}, "turboquant", (3, 4)),
        ({"kv_quant_scheme": "turboquant"}, "turboquant", (3, 4)),
        ({"kv_quant_scheme": "turboquant", "kv_bits": None}, "turboquant", (3, 4)),
        ({"kv_key_scheme": "turboquant", "kv_bits": 4}, "turboquant+uniform", (4, 4)),
        ({"kv_key_scheme": "turboquant", "kv_bits": 3.5}, "turboquant", (3, 4)),
        ({"kv_value_scheme": "uniform"}, "uniform", (8, 8)),
        (
            {"kv_key_scheme": "turboquant", "kv_value_scheme": "uniform"},
            "turboquant+uniform",
            (3, 8),
        ),
        (
            {"kv_quant_scheme": "turboquant:skip=none", "kv_value_scheme": "uniform"},
            "turboquant:skip=none+uniform",
            (3, 8),
        ),
        (
            {"kv_quant_scheme": "turboquant+uniform", "kv_key_scheme": "uniform", "kv_bits": 4},
            "uniform",
            (4, 4),
        ),
        (
            {"kv_quant_scheme": "turboquant+uniform", "kv_bits": 4, "kv_group_size": 32},
            "turboquant+uniform:group_size=32",
            (4, 4),
        ),
        (
            {"kv_bits": 4, "kv_value_scheme": "turboquant", "kv_value_bits": 3.3},
            "uniform+turboquant",
            (4, 3.3),
        ),
        (
            {"kv_key_scheme": "turboquant", "kv_value_scheme": "turboquant", "kv_bits": 4},
            "turboquant",
            (4, 4),
        ),
        ({"kv_bits": 3.5, "kv_key_bits": 4, "kv_value_bits": 2}, "turboquant", (4, 2)),
        ({"kv_quant_scheme": "uniform"}, "uniform", None),
        ({"kv_bits": 4, "kv_group_size": 32}, "uniform:group_size=32", (4, 4)),
    ],
)
def test_what_is_chosen(arguments: Any, text: str, sides: Any) -> None:
    chosen = choice(**arguments)
    assert chosen.text == text
    if sides is not None:
        assert chosen.sides == sides


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"kv_bits": None, "kv_quant_scheme": "uniform", "kv_group_size": 64},
        {"quantized_kv_start": 5000, "kv_group_size": 64},
    ],
)
def test_the_hosts_defaults_ask_for_nothing(arguments: Any) -> None:
    assert choice(**arguments) is None


def test_field_case_12_the_start_is_0_unless_it_is_given() -> None:
    assert choice(kv_bits=3.5).start == 0
    assert choice(kv_bits=3.5, quantized_kv_start=5000).start == 5000


def test_flags_are_taken_out_and_the_rest_is_left() -> None:
    arguments = {"kv_bits": 4, "max_tokens": 3, "quantized_kv_start": 1}
    Flags.take(arguments)
    assert arguments == {"max_tokens": 3}


def test_a_scheme_without_groups_says_so_once(caplog: pytest.LogCaptureFixture) -> None:
    flags._say_no_groups.cache_clear()
    with caplog.at_level(logging.INFO):
        choice(kv_bits=3.5, kv_group_size=32)
        choice(kv_bits=3.5, kv_group_size=32)
    assert caplog.text.count("has no groups") == 1


def test_three_schemes_are_refused() -> None:
    with pytest.raises(OptionError, match="3 schemes"):
        choice(kv_quant_scheme="turboquant", kv_key_scheme="uniform+turboquant")


def test_a_width_that_the_scheme_does_not_store_is_refused() -> None:
    with pytest.raises(WidthError):
        choice(kv_bits=9)
