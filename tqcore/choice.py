"""A scheme that a user asked for, checked: what every cache of a run is made of."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import Any

from attrs import field, frozen

from tqcore.errors import TqcoreError
from tqcore.layers import Fits, layer_widths, parse_fits, skipped
from tqcore.registry import registry
from tqcore.spec import POLICY_OPTIONS, PolicySpec, SchemeInfo, SchemeSpec, ShapeCtx
from tqcore.widths import Side, Widths


def _freeze(options: dict[str, Any]) -> tuple[tuple[str, Any], ...]:
    return tuple(sorted(options.items()))


@frozen
class SchemeChoice:
    """A scheme that a user asked for: declared, its options parsed, its widths checked.

    Hashable, so that a run resolves each layer once.

    Args:
        info: the scheme, of the keys where ``value`` is given.
        options: parsed; those of ``POLICY_OPTIONS`` hold for keys and values alike.
        widths: with the scheme's default filled in; as asked where there are two schemes, since
            each has a default of its own (``sides`` has both filled in).
        start: tokens a sequence must hold before anything is quantized.
        value: another scheme for the values, under the same cache's options.
    """

    info: SchemeInfo
    options: tuple[tuple[str, Any], ...] = field(converter=_freeze)
    widths: Widths
    start: int = 0
    value: SchemeChoice | None = None

    @property
    def policy(self) -> PolicySpec:
        """What stays dense."""
        only: Side | None = "key" if self.value else None
        return self.info.policy(dict(self.options), self.start, only)

    @property
    def sides(self) -> tuple[float, float]:
        """Bits a value of keys and of values, before a fraction is spread over layers.

        By the scheme's own rule, at a usual shape. Of a plan, the mean over the layers that are
        packed.
        """
        return _sides(self)

    @property
    def text(self) -> str:
        """The shortest scheme string that selects the same."""
        own = _text(self.info, self.options)
        if self.value is None:
            return own
        values = [(k, v) for k, v in self.value.options if k not in OF_CACHE]
        return f"{own}+{_text(self.value.info, values)}"

    @property
    def names(self) -> tuple[str, ...]:
        """The scheme's name, or that of the keys and that of the values."""
        return (self.info.name, *(self.value.names if self.value else ()))

    @property
    def package(self) -> str:
        """The distributions that declare what is named."""
        return " and ".join(dict.fromkeys(map(registry().package_of, self.names)))

    @property
    def fits(self) -> Fits | None:
        """The model that the widths were planned for, if one."""
        return parse_fits(dict(self.options)["fits"])

    def check_layers(self, count: int) -> None:
        """Check that a plan is for a model of ``count`` layers.

        Raises:
            ShapeError: it is for another number.
        """
        if fits := self.fits:
            fits.check_layers(count)

    def place(self, ctx: ShapeCtx) -> ShapeCtx:
        """Return ``ctx`` with the layers and shapes of the model that a plan is for."""
        fits = self.fits
        if fits is None:
            return ctx
        return ShapeCtx(
            ctx.layer,
            fits.layers,
            fits.kv_heads or ctx.kv_heads,
            fits.key_dim or ctx.key_dim,
            fits.value_dim or ctx.value_dim,
        )

    def resolve(self, ctx: ShapeCtx) -> SchemeSpec:
        """Return the codecs of one layer.

        Raises:
            ShapeError: the widths were planned for another model.
        """
        key, value = self, self.value
        if value is None:
            return key.info.resolve(key.widths, dict(key.options), ctx, key.start)
        keys = key.info.resolve(key.widths, dict(key.options), ctx, key.start, "key")
        values = value.info.resolve(value.widths, dict(value.options), ctx, value.start, "value")
        return SchemeSpec(keys.key, values.value, keys.policy)


@functools.lru_cache(maxsize=64)
def _sides(choice: SchemeChoice) -> tuple[float, float]:
    if choice.value is None:
        base = _given(choice)
    else:
        base = _given(choice, "key")[0], _given(choice.value, "value")[1]
    fits = choice.fits
    if fits is None:
        return base
    policy = choice.policy
    packed = [n for n in range(fits.layers) if not skipped(policy.skip, n, fits.layers)]
    widths = [layer_widths(policy.layers, n) or base for n in packed] or [base]
    return (
        sum(key for key, _ in widths) / len(widths),
        sum(value for _, value in widths) / len(widths),
    )


_SPREAD = 0.02
"""A side's codes are whole bits: so far a fraction that is met over layers is off in one."""


def _given(choice: SchemeChoice, only: Side | None = None) -> tuple[float, float]:
    """Return what the scheme gives both sides of a layer without widths of its own."""
    info = choice.info
    asked = choice.widths.with_default(info.default_bits).sides()
    options = {**dict(choice.options), "layers": info.parse_options({})["layers"]}
    ctx = choice.place(ShapeCtx())
    try:
        spec = info.resolve(choice.widths, options, ctx, choice.start, only)
    except TqcoreError:  # a scheme for other shapes
        return asked
    key, value = (
        was if abs(side.bits - was) < _SPREAD else side.bits
        for side, was in zip((spec.key, spec.value), asked, strict=True)
    )
    return key, value


OF_CACHE = tuple(option.name for option in POLICY_OPTIONS)
"""Options that hold for keys and values alike."""


def _text(info: SchemeInfo, options: Iterable[tuple[str, Any]]) -> str:
    defaults = info.parse_options({})
    changed = [f"{k}={v}" for k, v in options if v != defaults[k]]
    return info.name + (":" + ",".join(changed) if changed else "")
