"""Keys and values at widths of their own, through every door that takes a width."""

from __future__ import annotations

import argparse
import importlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import tqcore
from tests.integration.batches import generator, insert
from tests.integration.helpers import adapter, new_caches, steps
from tqcore.adapters import enable
from tqcore.adapters.flags import Flags
from tqcore.adapters.mlx_vlm.settings import from_environment, starting_values
from tqcore.cli._kv_flags import add_flags, choice_of

BOTH = pytest.mark.parametrize("host", ["vlm", "lm"])
APART: dict[str, Any] = {
    "kv_quant_scheme": "turboquant:skip=none",
    "kv_key_bits": 5,
    "kv_value_bits": 3,
}


def by_enable(host: str, loaded: Any, path: Path) -> list[Any]:
    enable(loaded[0], "turboquant:skip=none", key_bits=5, value_bits=3)
    caches = new_caches(host, loaded[0])
    steps(host, loaded[0], max_tokens=1, prompt_cache=caches)
    return caches


def by_generate_step(host: str, loaded: Any, path: Path) -> list[Any]:
    caches = new_caches(host, loaded[0])
    steps(host, loaded[0], max_tokens=1, prompt_cache=caches, **APART)
    return caches


def by_load(host: str, loaded: Any, path: Path) -> list[Any]:
    model, _ = importlib.import_module(f"mlx_{host}").load(str(path), **APART)
    caches = new_caches(host, model)
    steps(host, model, max_tokens=1, prompt_cache=caches)
    return caches


def by_batches(host: str, loaded: Any, path: Path) -> list[Any]:
    running = generator(host, *loaded, quantized_kv_start=0, **APART)
    insert(host, running, loaded[0], [[40, 41, 42]], 3)
    try:
        while True:
            _, made = running.next()
            if made:
                return list(running._generation_batch.prompt_cache)
    finally:
        running.close()


def by_make_caches(host: str, loaded: Any, path: Path) -> list[Any]:
    caches = tqcore.make_caches("turboquant:skip=none", 4, key_bits=5, value_bits=3, host=host)
    steps(host, loaded[0], max_tokens=1, prompt_cache=caches)
    return caches


DOORS: list[Callable[[str, Any, Path], list[Any]]] = [
    by_enable,
    by_generate_step,
    by_load,
    by_batches,
    by_make_caches,
]


@BOTH
@pytest.mark.parametrize("door", DOORS)
def test_field_case_16_keys_take_5_bits_and_values_3(
    host: str, door: Any, loaded: Any, llama_dir: Path
) -> None:
    adapter(host).install()
    for cache in door(host, loaded, llama_dir):
        key, value = (codec.spec.bits for codec in cache.tokens.codecs)
        assert (key, value) == (5, 3)
        assert cache.is_quantized


def test_field_case_16_the_command_line_has_both_flags() -> None:
    parser = argparse.ArgumentParser()
    add_flags(parser)
    args = parser.parse_args(
        ["--kv-quant-scheme", "turboquant", "--kv-key-bits", "5", "--kv-value-bits", "3"]
    )
    choice = choice_of(args)
    assert choice is not None
    assert choice.widths.sides() == (5, 3)


def test_field_case_16_the_servers_settings_have_both() -> None:
    flags = from_environment(Flags(kv_quant_scheme="turboquant", kv_key_bits=5, kv_value_bits=3))
    values = starting_values(flags, flags.choose())
    assert (values["kv_key_bits"], values["kv_value_bits"]) == (5, 3)
