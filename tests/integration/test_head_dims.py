"""Any head dimension and any grouping, at model level."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import pytest

from tests.integration import models
from tests.integration.helpers import drift, new_caches, packed, steps
from tqcore.adapters import enable

BOTH = pytest.mark.parametrize("host", ["vlm", "lm"])


def near_dense(host: str, path: Path, bits: float = 8) -> float:
    """Return how far a quantized run is from a dense one."""
    model, _ = importlib.import_module(f"mlx_{host}").load(str(path))
    dense = steps(host, model, max_tokens=2)
    enable(model, "turboquant:skip=none", bits)
    caches: list[Any] = new_caches(host, model)
    ours = steps(host, model, max_tokens=2, prompt_cache=caches)
    assert all(packed(caches))
    return drift(ours, dense)


@BOTH
@pytest.mark.parametrize("dim", [64, 72, 80, 96, 112, 128, 192, 256])
def test_head_dims(host: str, dim: int, tmp_path: Path) -> None:
    path = models.write(tmp_path / "model", head_dim=dim, num_hidden_layers=2)
    assert near_dense(host, path) < 0.1


@BOTH
@pytest.mark.parametrize(("heads", "kv_heads"), [(4, 4), (4, 2), (6, 1), (16, 2), (16, 1)])
def test_groups(host: str, heads: int, kv_heads: int, tmp_path: Path) -> None:
    sizes = {"num_attention_heads": heads, "num_key_value_heads": kv_heads}
    path = models.write(tmp_path / "model", num_hidden_layers=2, hidden_size=192, **sizes)
    assert near_dense(host, path) < 0.1


@BOTH
def test_field_case_08_head_dim_256_with_6_query_heads_a_kv_head(host: str, tmp_path: Path) -> None:
    sizes = {"head_dim": 256, "num_attention_heads": 6, "num_key_value_heads": 1}
    path = models.write(tmp_path / "model", num_hidden_layers=2, hidden_size=192, **sizes)
    assert near_dense(host, path) < 0.1
    assert near_dense(host, path, 3.5) < 2.0


@BOTH
def test_field_case_39_a_model_whose_keys_and_values_differ(host: str, tmp_path: Path) -> None:
    path = models.write(tmp_path / "model", "minicpm3")
    model, _ = importlib.import_module(f"mlx_{host}").load(str(path))
    enable(model, "turboquant:skip=none", 8)
    caches = new_caches(host, model)
    steps(host, model, max_tokens=2, prompt_cache=caches)
    assert [cache.geometry(side)[2] for cache in caches for side in ("key", "value")] == [
        48,
        32,
    ] * 4
    assert near_dense(host, path) < 0.1
