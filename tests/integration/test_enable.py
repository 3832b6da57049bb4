"""``enable`` and ``disable``: one attribute of one model, and every route follows."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import mlx.core as mx
import pytest

import tqcore
from tests.integration import models
from tests.integration.helpers import drift, new_caches, packed, steps
from tqcore.adapters import enable, host_of
from tqcore.adapters.report import report
from tqcore.errors import HostError, UnknownNameError, WidthError

BOTH = pytest.mark.parametrize("host", ["vlm", "lm"])


@BOTH
def test_field_case_19_8_bits_are_close_to_dense(host: str, loaded: Any) -> None:
    model, _ = loaded
    dense = steps(host, model)
    enable(model, "turboquant", 8)
    caches = new_caches(host, model)
    ours = steps(host, model, prompt_cache=caches)
    assert packed(caches) == [True, True, True, False]
    assert drift(ours, dense) < 0.02


@BOTH
def test_the_model_is_found_out_to_be_its_hosts(host: str, loaded: Any) -> None:
    assert host_of(loaded[0]) == host


@BOTH
def test_disable_gives_the_model_its_own_caches_back(host: str, loaded: Any) -> None:
    model, _ = loaded
    target = model.language_model if host == "vlm" else model
    before = [type(c) for c in new_caches(host, model)]
    own = "make_cache" in vars(target)
    tqcore.enable(model, "turboquant")
    assert tqcore.disable(model) is True
    assert tqcore.disable(model) is False
    assert ("make_cache" in vars(target)) is own
    assert [type(c) for c in new_caches(host, model)] == before


@BOTH
def test_enabling_again_changes_the_scheme(host: str, loaded: Any) -> None:
    model, _ = loaded
    enable(model, "turboquant", 3)
    enable(model, "uniform", 8)
    caches = new_caches(host, model)
    assert [c.choice.text for c in caches] == ["uniform"] * models.LAYERS
    tqcore.disable(model)
    assert not any(hasattr(c, "choice") for c in new_caches(host, model))


@BOTH
def test_another_model_is_not_touched(host: str, loaded: Any, llama_dir: Path) -> None:
    model, _ = loaded
    other = _load(host, llama_dir)
    enable(model, "turboquant")
    caches = new_caches(host, other)
    steps(host, other, prompt_cache=caches)
    assert packed(caches) == [False] * models.LAYERS


@BOTH
def test_generate_and_stream_generate_follow(host: str, loaded: Any) -> None:
    import mlx_lm
    import mlx_vlm

    module = mlx_vlm if host == "vlm" else mlx_lm
    made: list[list[Any]] = []
    enable(loaded[0], "turboquant", 4).watch = lambda caches, _: made.append(caches)
    module.generate(*loaded, "hello world", max_tokens=4)
    assert len(list(module.stream_generate(*loaded, "hello world", max_tokens=4))) > 0
    assert [packed(caches) for caches in made] == [[True, True, True, False]] * 2


@BOTH
def test_field_case_03_a_path_with_qat_in_it_is_quantized_like_any_other(
    host: str, tmp_path: Path
) -> None:
    model = _load(host, models.write(tmp_path / "gemma-3-qat-4bit"))
    enable(model, "turboquant")
    caches = new_caches(host, model)
    steps(host, model, prompt_cache=caches)
    assert packed(caches) == [True, True, True, False]


@BOTH
@pytest.mark.parametrize(("scheme", "bits"), [("turboquant", 3.5), ("uniform:group_size=64", 8)])
def test_field_case_06_head_dim_96(host: str, scheme: str, bits: float, tmp_path: Path) -> None:
    path = models.write(tmp_path / "wide", head_dim=96, hidden_size=384)
    model = _load(host, path)
    dense = steps(host, model)
    enable(model, scheme, bits)
    caches = new_caches(host, model)
    ours = steps(host, model, prompt_cache=caches)
    assert any(packed(caches))
    assert drift(ours, dense) < (0.05 if bits == 8 else 2.0)


@BOTH
def test_field_case_34_the_width_asked_for_and_the_dtype_given(host: str, loaded: Any) -> None:
    model, _ = loaded
    model.set_dtype(mx.bfloat16)
    enable(model, "turboquant", 3.5)
    caches = new_caches(host, model)
    steps(host, model, prompt_cache=caches)
    first = report(caches)[0]
    # a 16-bit scale on each vector of 32 is half a bit a value
    assert (first.key_bits, first.value_bits) == (3.5, 4.5)
    query = mx.zeros((1, 4, 1, 32), mx.bfloat16)
    assert caches[0].attend(query, scale=1.0).dtype == mx.bfloat16
    assert caches[0].dequantize()[0].dtype == mx.bfloat16


@BOTH
def test_a_short_sequence_stays_dense_until_the_start(host: str, loaded: Any) -> None:
    model, _ = loaded
    enable(model, "turboquant", quantized_kv_start=53)
    caches = new_caches(host, model)
    dense = [token for token, _ in steps(host, model, max_tokens=1, prompt_cache=caches)]
    assert packed(caches) == [False] * models.LAYERS
    assert "starts at 53" in report(caches)[0].reason
    assert dense
    steps(host, model, max_tokens=4, prompt_cache=caches)
    assert packed(caches) == [True, True, True, False]


@BOTH
def test_max_kv_size_is_kept_where_the_model_has_no_cache_of_its_own(
    host: str, tmp_path: Path
) -> None:
    model = _load(host, models.write(tmp_path / "qwen2", "qwen2"))
    seen: list[Any] = []
    enable(model, "turboquant").watch = lambda caches, reasons: seen.append((caches, reasons))
    steps(host, model, max_kv_size=16)
    caches, reasons = seen[-1]
    assert {type(c).__name__ for c in caches} == {"RotatingKVCache"}
    assert reasons[0] == "sliding window of 16 tokens, packed from rotating=512 on"
    steps(host, model)
    assert packed(seen[-1][0]) == [True, True, True, False]


@BOTH
def test_a_bad_choice_is_refused_before_the_model_is_touched(host: str, loaded: Any) -> None:
    model, _ = loaded
    with pytest.raises(UnknownNameError, match="did you mean 'turboquant'"):
        enable(model, "turbokwant")
    with pytest.raises(WidthError):
        enable(model, "uniform", 3.3)
    assert not tqcore.disable(model)


def test_a_model_of_no_host_is_refused() -> None:
    with pytest.raises(HostError, match="host="):
        enable(object(), "turboquant")


def _load(host: str, path: Path) -> Any:
    import mlx_lm
    import mlx_vlm

    return (mlx_vlm if host == "vlm" else mlx_lm).load(str(path))[0]


@BOTH
def test_a_copy_of_an_enabled_model_is_enabled_by_itself(host: str, loaded: Any) -> None:
    model, _ = loaded
    enable(model, "turboquant", 4)
    expected = steps(host, model)
    twin = copy.deepcopy(model)
    tqcore.disable(model)
    assert not any(hasattr(c, "choice") for c in new_caches(host, model))
    caches = new_caches(host, twin)
    assert drift(steps(host, twin, prompt_cache=caches), expected) == 0
    assert packed(caches) == [True, True, True, False]
    assert tqcore.disable(twin) is True
    assert not any(hasattr(c, "choice") for c in new_caches(host, twin))
