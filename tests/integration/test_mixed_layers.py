"""Layers of one model under policies of their own: dense ones, wide ones, first tokens, a window."""

from __future__ import annotations

from typing import Any

import pytest

from tests.integration.batches import answers, apart
from tests.integration.helpers import drift, new_caches, packed, steps
from tqcore.adapters import enable
from tqcore.adapters.report import report

BOTH = pytest.mark.parametrize("host", ["vlm", "lm"])
POLICIES = {
    "turboquant:skip=first1,last1": [False, True, True, False],
    "turboquant:skip=none,layers=0-1:k8v8,3:k6v5": [True] * 4,
    "turboquant:sinks=4,layers=1:k8v4": [True, True, True, False],
    "turboquant:skip=first2,sinks=4": [False, False, True, True],
}


@BOTH
@pytest.mark.parametrize("scheme", POLICIES)
def test_field_case_25_layers_under_different_policies_run_alone_and_batched(
    host: str, scheme: str, loaded: Any
) -> None:
    model, processor = loaded
    dense, rows = steps(host, model), answers(host, model, processor)
    enable(model, scheme, 8)
    caches = new_caches(host, model)
    assert drift(steps(host, model, prompt_cache=caches), dense) < 0.1
    assert packed(caches) == POLICIES[scheme]
    assert all(layer.nbytes for layer in report(caches))
    assert apart(answers(host, model, processor), rows) < 0.1
