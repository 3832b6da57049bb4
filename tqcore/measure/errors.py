"""Errors of measuring."""

from __future__ import annotations

from tqcore.errors import TqcoreError


class MeasureError(TqcoreError, RuntimeError):
    """A model cannot be measured as asked."""
