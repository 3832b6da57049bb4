"""mlx-lm's draft models: the drafted answer is the plain one, whatever the draft guesses."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import mlx.core as mx
import mlx_lm
import pytest

from tests.integration import models
from tests.integration.helpers import PROMPT, adapter, new_caches, packed, steps
from tqcore.adapters import enable
from tqcore.adapters.report import report

TOKENS = 12


def drafted(model: Any, draft: Any, **kwargs: Any) -> list[tuple[int, bool]]:
    """Return each token with whether the draft model guessed it."""
    run = importlib.import_module("mlx_lm.generate").speculative_generate_step(
        mx.array(PROMPT), model, draft, max_tokens=TOKENS, num_draft_tokens=3, **kwargs
    )
    return [(int(token), bool(guessed)) for token, _, guessed in run]


def plain(model: Any, **kwargs: Any) -> list[int]:
    return [token for token, _ in steps("lm", model, max_tokens=TOKENS, **kwargs)]


@pytest.fixture
def twin(llama_dir: Path) -> Any:
    """The target itself, as a draft that is mostly right."""
    return mlx_lm.load(str(llama_dir))[0]


@pytest.fixture
def stranger(tmp_path: Path) -> Any:
    """A draft of another family that is mostly wrong."""
    return mlx_lm.load(str(models.write(tmp_path / "qwen2", "qwen2")))[0]


@pytest.mark.parametrize("bits", [8, 3.5])
@pytest.mark.parametrize("draft", ["twin", "stranger"])
def test_field_case_04_guesses_are_kept_or_rolled_back_through_trim(
    lm: Any, draft: str, bits: float, request: pytest.FixtureRequest
) -> None:
    adapter("lm").install()
    drafter = request.getfixturevalue(draft)
    flags: dict[str, Any] = {"kv_bits": bits, "kv_quant_scheme": "turboquant"}
    caches = [*new_caches("lm", lm[0]), *new_caches("lm", drafter)]
    found = drafted(lm[0], drafter, prompt_cache=caches, **flags)
    assert [token for token, _ in found] == plain(lm[0], **flags)
    assert packed(caches) == [True, True, True, False] * 2
    guessed = sum(was for _, was in found)
    assert guessed > TOKENS // 2 if draft == "twin" else guessed < TOKENS
    target = {cache.offset for cache in caches[:4]}
    assert len(target) == 1, "every layer was rolled back alike"


def test_field_case_09_an_enabled_target_with_a_dense_draft(lm: Any, stranger: Any) -> None:
    adapter("lm").install()
    seen: list[Any] = []
    enable(lm[0], "turboquant", 8).watch = lambda *made: seen.append(made)
    found = drafted(lm[0], stranger)
    assert [token for token, _ in found] == plain(lm[0])
    assert [layer.kind == "quantized" for layer in report(*seen[0])] == [True, True, True, False]
