"""A program that imported the hosts' functions before ``install()`` is served all the same."""

from __future__ import annotations

from typing import Any

import mlx.core as mx
import pytest

# bound before any install(), as a program's own imports are
from mlx_lm import generate as early_lm_generate
from mlx_vlm import generate as early_vlm_generate
from mlx_vlm import stream_generate as early_vlm_stream
from mlx_vlm.generate import generate_step as early_vlm_step

from tests.integration.helpers import PROMPT, adapter, new_caches, packed

BOTH = pytest.mark.parametrize("host", ["vlm", "lm"])
QUANTIZED = [True, True, True, False]


@BOTH
def test_functions_imported_before_install_work(host: str, installed: Any) -> None:
    caches = new_caches(host, installed[0])
    flags = {"kv_bits": 3.5, "kv_quant_scheme": "turboquant", "max_tokens": 4}
    if host == "lm":
        early_lm_generate(*installed, "hello", prompt_cache=caches, **flags)
    else:
        early_vlm_generate(*installed, "hello", prompt_cache=caches, **flags)
        streamed = new_caches(host, installed[0])
        list(early_vlm_stream(*installed, "hello", prompt_cache=streamed, **flags))
        assert packed(streamed) == QUANTIZED
    assert packed(caches) == QUANTIZED


def test_an_early_generate_step_of_mlx_vlm_converts_through_its_own_hook(vlm: Any) -> None:
    adapter("vlm").install()
    caches = new_caches("vlm", vlm[0])
    run = early_vlm_step(
        mx.array([PROMPT]),
        vlm[0],
        None,
        None,
        max_tokens=3,
        prompt_cache=caches,
        kv_bits=3.5,
        quantized_kv_start=0,
    )
    assert len(list(run)) == 3
    assert packed(caches) == QUANTIZED
    assert {c.choice.info.name for c in caches[:3]} == {"turboquant"}
