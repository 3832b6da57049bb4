"""How long fuzzing takes: a moment in the suite, as long as asked for in ``make fuzz``."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from hypothesis import HealthCheck, settings

from tqcore.errors import TqcoreError

FACTOR = int(os.environ.get("TQCORE_FUZZ", "1"))
"""Multiplies the examples of every fuzz test; beyond 1 they are drawn anew each time."""


def fuzz(examples: int) -> Any:
    """Settings of a fuzz test that draws ``examples`` in the suite."""
    fresh = {"derandomize": False} if FACTOR > 1 else {}
    return settings(
        max_examples=examples * FACTOR,
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
        **fresh,
    )


def attempt(
    call: Callable[..., Any], *arguments: Any, refusal: type[Exception] = TqcoreError
) -> Any:
    """Return what a call returns, None where it refuses in words; any other exception is a fault."""
    try:
        return call(*arguments)
    except refusal as error:
        if not str(error).strip():
            raise
        return None
