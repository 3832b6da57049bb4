"""The five hooks. A plugin module implements any of them and is named in an entry point.

    [project.entry-points.tqcore]
    mypackage = "mypackage.plugin"

Hooks return frozen descriptions and never build anything: a plugin module stays light,
and the classes it names are imported when a scheme first needs them. ``docs/hooks.md`` is
written from the docstrings here.
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
    """Return rotations: isometries of the head dimension.

    Each is a ``Component("rotation", name, target)``, built as ``cls(dim, seed, params)``.
    Interface: ``tqcore.protocols.Rotation``.
    """


@hookspec
def tqcore_codebooks() -> Iterable[Component]:  # type: ignore[empty-body]
    """Return codebooks: rotated vectors to integer codes and back.

    Each is a ``Component("codebook", name, target)``, built as ``cls(dim, bits, scale, params)``.
    A codebook sees the whole vector and owns its scale. Interface: ``tqcore.protocols.Codebook``.
    """


@hookspec
def tqcore_packers() -> Iterable[Component]:  # type: ignore[empty-body]
    """Return packers: integer codes to machine words and back.

    Each is a ``Component("packer", name, target)``, built as ``cls(runs)``.
    Interface: ``tqcore.protocols.Packer``.
    """


@hookspec
def tqcore_score_kernels() -> Iterable[Component]:  # type: ignore[empty-body]
    """Return score kernels: attention over packed state.

    Each is a ``Component("score_kernel", name, target)``, built as ``cls()``. Interface:
    ``tqcore.protocols.ScoreKernel``; one that encodes too has that of
    ``tqcore.protocols.EncodingKernel``, one that rotates that of
    ``tqcore.protocols.RotatingKernel``, and of ``FinishingKernel`` and ``CompletingKernel`` there
    if it goes on to the output.
    """


@hookspec
def tqcore_schemes() -> Iterable[SchemeInfo]:  # type: ignore[empty-body]
    """Return schemes: what ``--kv-quant-scheme`` selects by name.

    Each is a ``SchemeInfo(name, target, ...)``. The target is a function
    ``(widths, options, ctx) -> SchemeSpec``, called when a layer's shapes are known.
    """
