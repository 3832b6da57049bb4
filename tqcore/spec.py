"""Frozen descriptions: what plugins declare, and what a run resolves them to.

Everything here is strings and numbers, so a description can be printed, compared,
hashed and stored in a file, and costs no import of numpy or mlx.
"""

from __future__ import annotations

import importlib
import json
from collections.abc import Mapping
from typing import Any, Literal

from attrs import asdict, evolve, field, frozen
from attrs import validators as v

from tqcore import fields
from tqcore.api import UNDECLARED_API
from tqcore.centring import centre_of
from tqcore.errors import OptionError, PluginError, SpecError, TqcoreError, WidthError, suggest
from tqcore.layers import all_widths, layer_widths, parse_fits, skipped
from tqcore.option import Option as Option
from tqcore.widths import Side, Widths

Kind = Literal["rotation", "codebook", "packer", "score_kernel"]
KINDS: tuple[Kind, ...] = ("rotation", "codebook", "packer", "score_kernel")


def import_target(target: str) -> Any:
    """Import ``"pkg.mod:Attr"`` and return the attribute.

    Raises:
        PluginError: the module does not import, or has no such attribute.
    """
    module, _, attr = target.partition(":")
    try:
        return getattr(importlib.import_module(module), attr)
    except (ImportError, AttributeError) as error:
        raise PluginError(f"target {target!r} cannot be imported: {error}") from error


_ITEMSIZE = {"uint8": 1, "uint16": 2, "uint32": 4, "float16": 2, "float32": 4}


@frozen
class PlaneSpec:
    """One array that a codec stores: ``[B, H, T, *shape]`` of ``dtype``."""

    name: str = field(validator=fields.name)
    dtype: str = field(validator=v.in_(_ITEMSIZE))
    shape: tuple[int, ...] = field(default=(), converter=fields.as_tuple)

    @property
    def nbytes(self) -> int:
        """Bytes a token and head."""
        count = 1
        for size in self.shape:
            count *= size
        return count * _ITEMSIZE[self.dtype]


@frozen
class Component:
    """One registered part: a rotation, codebook, packer or score kernel.

    Args:
        kind: which interface it implements.
        name: what schemes call it by.
        target: ``"pkg.mod:Class"``, imported when first built.
        backend: ``mlx``, or ``numpy`` for the float64 oracle beside it.
        summary: one line for ``tqcore plugins``.
        api: the API version it was written for (``tqcore.api``).
    """

    kind: Kind = field(validator=v.in_(KINDS))
    name: str = field(validator=fields.name)
    target: str = field(validator=fields.target)
    backend: str = field(default="mlx", validator=v.in_(("mlx", "numpy")))
    summary: str = ""
    api: int = UNDECLARED_API

    def load(self) -> Any:
        """Import the target.

        Raises:
            PluginError: it cannot be imported.
        """
        return import_target(self.target)


@frozen
class ShapeCtx:
    """Where a codec will work: the layer, and the shapes that layer's cache sees."""

    layer: int = 0
    n_layers: int = 1
    kv_heads: int = 1
    key_dim: int = 128
    value_dim: int = 128


@frozen
class CodecSpec:
    """How one side (keys or values) of one layer is encoded. Strings and numbers only.

    Args:
        rotation, codebook, packer: registered names.
        bits: mean width of a code, 1 to 8; a fraction gives the first coordinates one bit more.
        seed: of the rotation.
        scale: policy ``norm``, ``mse`` or ``unbiased``.
        centre: ``none``; ``mean``: stored without a mean of its row and head, which the cache
            learns and keeps (``tqcore.cache.centre``); ``balanced``, of keys: channels scaled too.
        params: further arguments of the parts, by name.
    """

    rotation: str = field(validator=fields.text)
    codebook: str = field(validator=fields.text)
    packer: str = field(validator=fields.text)
    bits: float = field(converter=float, validator=[v.ge(1), v.le(8)])
    seed: int = field(default=0, validator=fields.whole)
    scale: str = field(default="unbiased", validator=fields.text)
    centre: str = field(default="none", validator=fields.text)
    params: tuple[tuple[str, Any], ...] = field(default=(), converter=fields.as_scalars)

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-ready dict."""
        return {**asdict(self, recurse=False), "params": dict(self.params)}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> CodecSpec:
        """Rebuild a spec from ``to_dict``.

        Raises:
            SpecError: unknown or missing keys, or values that are none.
        """
        return fields.read(cls, data)


@frozen
class PolicySpec:
    """Which tokens and layers a scheme leaves dense.

    Args:
        skip: layers left dense: ``none``, or ``first<N>``/``last<N>`` joined by commas.
        layers: other widths for some layers: ``none``, or ``A-B:k<bits>v<bits>`` terms.
        fits: the model that ``layers`` is for: ``any``, or its layers, KV heads and dims.
        sinks: tokens at the start of each sequence that stay dense.
        window: most recent tokens that stay dense.
        centre: sides stored without their mean: ``none``, ``keys``, ``values`` or ``both``;
            ``balanced``: both, and the channels of keys scaled by what queries make of them.
        rotating: smallest sliding window that is packed; a smaller one has little to give.
        arrays: layers of models that compute attention themselves: ``packed`` and handed out as
            arrays, or ``dense``.
        start: tokens a sequence must hold before anything is quantized.
    """

    skip: str = field(default="none", validator=fields.text)
    layers: str = field(default="none", validator=fields.text)
    fits: str = field(default="any", validator=fields.text)
    sinks: int = field(default=0, validator=fields.count)
    window: int = field(default=0, validator=fields.count)
    centre: str = field(default="none", validator=fields.text)
    rotating: int = field(default=512, validator=fields.count)
    arrays: str = field(default="packed", validator=fields.text)
    start: int = field(default=0, validator=fields.count)

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-ready dict."""
        return asdict(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> PolicySpec:
        """Rebuild a policy from ``to_dict``; raises as ``CodecSpec.from_dict``."""
        return fields.read(cls, data)


@frozen
class SchemeSpec:
    """A scheme resolved for one layer: both codecs, and what stays dense."""

    key: CodecSpec
    value: CodecSpec
    policy: PolicySpec = PolicySpec()

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-ready dict."""
        return {
            "key": self.key.to_dict(),
            "value": self.value.to_dict(),
            "policy": self.policy.to_dict(),
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> SchemeSpec:
        """Rebuild a spec from ``to_dict``; raises as ``CodecSpec.from_dict``."""
        kinds = {"key": CodecSpec, "value": CodecSpec, "policy": PolicySpec}
        if not isinstance(data, Mapping) or set(data) != set(kinds):
            raise SpecError(f"no SchemeSpec: expected key, value and policy, not {data!r:.80}")
        return cls(**{side: fields.read(kind, data[side]) for side, kind in kinds.items()})


POLICY_OPTIONS = (
    Option("skip", "str", "none", "layers left dense: none, last, first2,last1, ..."),
    Option("layers", "str", "none", "other widths for some layers: 0-3:k8v4,9:k4v4"),
    Option("fits", "str", "any", "the model that layers is for: 30x3x64x64; another is refused"),
    Option("sinks", "int", 0, "tokens at the start of each sequence that stay dense"),
    Option("window", "int", 0, "most recent tokens that stay dense"),
    Option(
        "centre",
        "str",
        "none",
        "sides stored without a mean, learnt from the first tokens of each row and head; "
        "balanced: both, and channels of keys scaled by what the first queries make of them",
        choices=("none", "keys", "values", "both", "balanced"),
    ),
    Option("rotating", "int", 512, "smallest sliding window that is packed, in tokens"),
    Option(
        "arrays",
        "str",
        "packed",
        "layers of models that compute attention themselves: handed out as arrays, or dense",
        choices=("packed", "dense"),
    ),
)
"""Options that every scheme takes: they belong to the cache, not to the codec."""


@frozen
class SchemeInfo:
    """A scheme as its plugin declares it; ``resolve`` turns it into codecs.

    Args:
        name: what ``--kv-quant-scheme`` takes.
        target: ``"pkg.mod:function"``, called as ``function(widths, options, ctx)``;
            returns a ``SchemeSpec`` (its policy is filled in here).
        options: the scheme's own options.
        bits_range: smallest and largest mean width.
        default_bits: the width when none is asked for.
        widths: the widths it can store, when not every one in the range.
        skip: default of the common ``skip`` option.
        defaults: defaults of other common options, by name.
        summary: one line for ``tqcore schemes``.
        api: the API version it was written for (``tqcore.api``).
    """

    name: str = field(validator=fields.name)
    target: str = field(validator=fields.target)
    options: tuple[Option, ...] = field(default=(), converter=fields.as_tuple)
    bits_range: tuple[float, float] = (1.0, 8.0)
    default_bits: float = 4.0
    widths: tuple[float, ...] = field(default=(), converter=fields.as_tuple)
    skip: str = "none"
    defaults: tuple[tuple[str, Any], ...] = field(default=(), converter=fields.as_scalars)
    summary: str = ""
    api: int = UNDECLARED_API

    def all_options(self) -> dict[str, Option]:
        """Return every option the scheme takes, its own and the common ones, its defaults in."""
        own = {"skip": self.skip, **dict(self.defaults)}
        common = [evolve(o, default=own.get(o.name, o.default)) for o in POLICY_OPTIONS]
        return {option.name: option for option in (*self.options, *common)}

    def parse_options(self, given: Mapping[str, object]) -> dict[str, Any]:
        """Return all options, parsed, with defaults where ``given`` is silent.

        Raises:
            OptionError: an unknown name (the known ones are listed) or a bad value.
        """
        known = self.all_options()
        for name in given:
            if name not in known:
                close = suggest(name, known)
                hint = f"; did you mean {close!r}?" if close else ""
                raise OptionError(
                    f"scheme {self.name!r} has no option {name!r}{hint} "
                    f"known: {', '.join(sorted(known))}"
                )
        return {name: o.parse(given.get(name, o.default)) for name, o in known.items()}

    def check_widths(self, widths: Widths, only: Side | None = None) -> None:
        """Check every width that was asked for; ``only`` checks that side's alone.

        Raises:
            WidthError: outside the scheme's range, or not one it stores.
        """
        low, high = self.bits_range
        key, value = widths.sides()
        for side, bits in (("key", key), ("value", value)):
            if only not in (None, side):
                continue
            if not low <= bits <= high:
                raise WidthError(
                    f"{side} width {bits:g}: scheme {self.name!r} stores {low:g} to {high:g} bits"
                )
            if self.widths and bits not in self.widths:
                listed = ", ".join(f"{w:g}" for w in self.widths)
                raise WidthError(
                    f"{side} width {bits:g}: scheme {self.name!r} stores {listed} bits; "
                    "another scheme may store it, see `tqcore schemes`"
                )

    def resolve(
        self,
        bits: Widths | float | None = None,
        options: Mapping[str, object] | None = None,
        ctx: ShapeCtx | None = None,
        start: int = 0,
        only: Side | None = None,
    ) -> SchemeSpec:
        """Return the codecs of one layer.

        Args:
            bits: the widths asked for; None takes ``default_bits``.
            options: option values, parsed or as text.
            ctx: layer and shapes.
            start: tokens a sequence must hold before anything is quantized.
            only: the side that this scheme stores; another one stores the other.

        Raises:
            OptionError, WidthError: as ``parse_options`` and ``check_widths``.
            ShapeError: the widths were planned for another model.
            PluginError: the target cannot be imported or returns something else.
        """
        widths = bits if isinstance(bits, Widths) else Widths(bits)
        widths = widths.with_default(self.default_bits)
        parsed = self.parse_options(options or {})
        ctx = ctx or ShapeCtx()
        policy = self.policy(parsed, start, only)
        if fits := parse_fits(policy.fits):
            fits.check_layers(ctx.n_layers)
            fits.check_heads(ctx.kv_heads, ctx.key_dim, ctx.value_dim)
        if own := layer_widths(policy.layers, ctx.layer):
            widths = Widths(None, *own)
        widths = widths.only(only) if only else widths
        self.check_widths(widths, only)
        try:
            spec = import_target(self.target)(widths, parsed, ctx)
        except TqcoreError:
            raise
        except Exception as error:  # whatever a plugin's function raises
            raise PluginError(
                f"scheme {self.name!r}: {self.target} raised {type(error).__name__}: {error}"
            ) from error
        if not isinstance(spec, SchemeSpec):
            raise PluginError(
                f"scheme {self.name!r}: {self.target} returned {type(spec).__name__}, "
                "not SchemeSpec"
            )
        return SchemeSpec(
            evolve(spec.key, centre=centre_of(policy.centre, "keys", spec.key.centre)),
            evolve(spec.value, centre=centre_of(policy.centre, "values", spec.value.centre)),
            policy,
        )

    def policy(
        self, options: Mapping[str, Any], start: int = 0, only: Side | None = None
    ) -> PolicySpec:
        """Return the policy that parsed options ask for; ``only`` as for ``resolve``.

        Raises:
            OptionError: a count below 0, or terms that ``skip``, ``layers`` or ``fits`` lacks.
            WidthError: ``layers`` names a width that the scheme does not store.
        """
        for name in ("sinks", "window", "rotating"):
            if options[name] < 0:
                raise OptionError(f"option {name}={options[name]}: tokens are counted from 0")
        skipped(options["skip"], 0, 3)
        parse_fits(options["fits"])
        for key, value in all_widths(options["layers"]):
            self.check_widths(Widths(None, key, value), only)
        return PolicySpec(
            **{option.name: options[option.name] for option in POLICY_OPTIONS}, start=start
        )


def to_json(spec: CodecSpec | SchemeSpec) -> str:
    """Return the canonical JSON of a spec: sorted keys, no spaces."""
    return json.dumps(spec.to_dict(), sort_keys=True, separators=(",", ":"))
