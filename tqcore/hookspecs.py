"""The five hooks. A plugin module implements any of them and is named in an entry point.

    [project.entry-points.tqcore]
    mypackage = "mypackage.plugin"

Hooks return frozen descriptions and never build anything: a plugin module stays light,
and the classes it names are imported when a scheme first needs them.
"""

from __future__ import annotations

from collections.abc import Iterable

import pluggy

from tqcore.spec import Component, SchemeInfo

PROJECT = "tqcore"
"""Project name of the markers, and the entry-point group plugins are found in."""

hookspec = pluggy.HookspecMarker(PROJECT)
hookimpl = pluggy.HookimplMarker(PROJECT)


@hookspec
def tqcore_rotations() -> Iterable[Component]:  # type: ignore[empty-body]
    """Return rotations: isometries of the head dimension, ``tqcore.protocols.Rotation``."""


@hookspec
def tqcore_codebooks() -> Iterable[Component]:  # type: ignore[empty-body]
    """Return codebooks: rotated vectors to integer codes, ``tqcore.protocols.Codebook``."""


@hookspec
def tqcore_packers() -> Iterable[Component]:  # type: ignore[empty-body]
    """Return packers: integer codes to machine words, ``tqcore.protocols.Packer``."""


@hookspec
def tqcore_score_kernels() -> Iterable[Component]:  # type: ignore[empty-body]
    """Return score kernels: attention on packed state, ``tqcore.protocols.ScoreKernel``."""


@hookspec
def tqcore_schemes() -> Iterable[SchemeInfo]:  # type: ignore[empty-body]
    """Return schemes: what ``--kv-quant-scheme`` selects by name."""
