"""Errors of the demo."""

from __future__ import annotations

from tqcore.measure.errors import MeasureError


class DemoError(MeasureError):
    """The demo cannot run as asked."""


class ModelFetchError(DemoError):
    """The demo model cannot be found, downloaded or converted."""
