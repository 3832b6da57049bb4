"""One decorator over one test function: every check that applies to a plugin.

    from tqcore.testing.contract import contract

    @contract("my-package")
    def test_contract(check):
        check()

In the manner of scikit-learn's ``parametrize_with_checks``.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tqcore.errors import PluginError, UnknownNameError
from tqcore.registry import Registry, registry
from tqcore.spec import Component, SchemeInfo
from tqcore.testing import checks

COMMON = (
    checks.check_protocol,
    checks.check_deterministic,
    checks.check_device_equals_oracle,
)

CHECKS: dict[str, tuple[Callable[[Any], None], ...]] = {
    "rotation": (
        *COMMON,
        checks.check_batch_invariance,
        checks.check_rotation_isometry,
        checks.check_rotation_inverse,
        checks.check_rotation_adjoint,
        checks.check_rotation_dtype,
    ),
    "codebook": (
        *COMMON,
        checks.check_batch_invariance,
        checks.check_codebook_codes,
        checks.check_codebook_planes,
        checks.check_decode_kind,
        checks.check_codebook_idempotence,
        checks.check_rate_distortion,
        checks.check_beats_scalar,
        checks.check_no_bias,
        checks.check_zero_vector,
        checks.check_finite_extremes,
        checks.check_poisoned_row,
    ),
    "packer": (
        *COMMON,
        checks.check_packer_exact,
        checks.check_packer_planes,
        checks.check_packer_bytes,
        checks.check_packer_layout,
    ),
    "score_kernel": (
        checks.check_protocol,
        checks.check_kernel_refusals,
        checks.check_kernel_equals_oracle,
    ),
    "scheme": (
        checks.check_spec_json,
        checks.check_scheme_options,
        checks.check_scheme_bytes,
        checks.check_scheme_distortion,
        checks.check_scheme_storage,
    ),
}
"""The checks of each kind, in the order they run."""


def contract(
    target: str, known: Registry | None = None, skip: tuple[str, ...] = ()
) -> Callable[[Callable[..., None]], Any]:
    """Parametrize a test function by ``check``, a function of no arguments.

    Args:
        target: a distribution, an entry point, or a scheme: whose parts are checked.
        known: the registry; None takes the installed plugins.
        skip: checks that are left out: by name, say ``"check_rate_distortion"``, or for one
            part by the id that pytest shows, ``"codebook-mine-mlx-check_rate_distortion"``.

    Raises:
        PluginError: the plugin failed to load, is disabled, or declares nothing.
        UnknownNameError: no plugin or scheme has this name.
    """
    params = [
        pytest.param(functools.partial(check, item), id=name)
        for item in items_of(target, known or registry())
        for check in CHECKS[_kind(item)]
        if not {name := f"{_id(item)}-{check.__name__}", check.__name__} & set(skip)
    ]
    return pytest.mark.parametrize("check", params)


def items_of(target: str, known: Registry) -> list[Component | SchemeInfo]:
    """Return what ``target`` registers; for a scheme, the scheme and the parts it composes.

    Raises:
        PluginError, UnknownNameError: as ``contract``.
    """
    plugins = [each for each in known.plugins if target in (each.name, each.package)]
    if not plugins:
        names = {name for each in known.plugins for name in (each.name, each.package)}
        schemes = {info.name for info, _ in known.schemes()}
        if target not in schemes:
            raise UnknownNameError("plugin or scheme", target, names | schemes, known.failures)
        return list(_scheme(target, known))
    for plugin in plugins:
        if plugin.error or plugin.disabled:
            raise PluginError(f"plugin {target!r} is not loaded: {plugin.error or 'disabled'}")
    items = [item for plugin in plugins for item in known.provided_by(plugin)]
    if not items:
        raise PluginError(f"plugin {target!r} declares nothing: are its hooks misnamed?")
    return items


def _scheme(name: str, known: Registry) -> Iterator[Component | SchemeInfo]:
    info = known.scheme(name)
    yield info
    spec = info.resolve()
    parts = {
        (kind, getattr(side, kind)): None
        for side in (spec.key, spec.value)
        for kind in ("rotation", "codebook", "packer")
    }
    for kind, part in parts:
        yield known.component(kind, part)  # type: ignore[arg-type]


def _kind(item: Component | SchemeInfo) -> str:
    return "scheme" if isinstance(item, SchemeInfo) else item.kind


def _id(item: Component | SchemeInfo) -> str:
    backend = "" if isinstance(item, SchemeInfo) else f"-{item.backend}"
    return f"{_kind(item)}-{item.name}{backend}"
