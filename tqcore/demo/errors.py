"""Errors of the demo."""

from __future__ import annotations

from tqcore.errors import TqcoreError


class DemoError(TqcoreError, RuntimeError):
    """The demo cannot run as asked."""


class ModelFetchError(DemoError):
    """The demo model cannot be found, downloaded or converted."""
