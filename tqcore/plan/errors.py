"""Errors of planning."""

from __future__ import annotations

from tqcore.errors import TqcoreError


class BudgetError(TqcoreError, ValueError):
    """A budget of bytes that nothing fits."""
