"""Which layers a scheme leaves dense or gives other widths, and of which model they are.

The options ``skip``, ``layers`` and ``fits``.
"""

from __future__ import annotations

import re

from attrs import asdict, frozen

from tqcore.errors import OptionError, ShapeError

_TERM = re.compile(r"(first|last)(\d*)")
_RANGE = re.compile(r"(\d+)(?:-(\d+))?:k(\d+(?:\.\d+)?)v(\d+(?:\.\d+)?)")


_FITS = re.compile(r"([1-9]\d{0,6})x(\*|[1-9]\d{0,6})x(\*|[1-9]\d{0,6})x(\*|[1-9]\d{0,6})")


@frozen
class Fits:
    """The model that widths were planned for; None where its layers differ.

    Args:
        layers: of the whole model.
        kv_heads, key_dim, value_dim: of every layer.
    """

    layers: int
    kv_heads: int | None = None
    key_dim: int | None = None
    value_dim: int | None = None

    @property
    def text(self) -> str:
        """As the option ``fits`` has it: ``30x3x64x64``, ``*`` for None."""
        return "x".join("*" if size is None else str(size) for size in self.to_dict().values())

    def to_dict(self) -> dict[str, int | None]:
        """Return the sizes by name."""
        return asdict(self)

    def check_layers(self, count: int) -> None:
        """Check the layers of a model.

        Raises:
            ShapeError: another number.
        """
        if count != self.layers:
            raise ShapeError(self._refusal(f"one of {count} layers"))

    def check_heads(self, kv_heads: int, key_dim: int, value_dim: int) -> None:
        """Check what one layer's cache sees.

        Raises:
            ShapeError: something else than was planned for.
        """
        given = (kv_heads, key_dim, value_dim)
        planned = (self.kv_heads, self.key_dim, self.value_dim)
        pairs = zip(given, planned, strict=True)
        same = [size is None or own == size for own, size in pairs]
        if not all(same[1:]) or not (same[0] or self._is_shard(kv_heads)):
            raise ShapeError(self._refusal(_heads(*given)))

    def _is_shard(self, kv_heads: int) -> bool:
        """Say whether the heads are this process's part of a model split over several."""
        import mlx.core as mx

        return bool(kv_heads * mx.distributed.init().size() == self.kv_heads)

    def _refusal(self, given: str) -> str:
        planned = _heads(self.kv_heads, self.key_dim, self.value_dim)
        return (
            f"these widths are planned for a model of {self.layers} layers, {planned}; this is "
            f"{given}: make a plan for it with `tqcore plan`"
        )


def _heads(kv_heads: int | None, key_dim: int | None, value_dim: int | None) -> str:
    heads, key, value = ("any" if n is None else n for n in (kv_heads, key_dim, value_dim))
    return f"{heads} KV heads of {key} (keys) and {value} (values)"


def parse_fits(text: str) -> Fits | None:
    """Return what ``fits`` says, or None for ``any``.

    Raises:
        OptionError: another word.
    """
    if text == "any":
        return None
    match = _FITS.fullmatch(text.strip())
    if not match:
        raise OptionError(
            f"fits={text}: expected any, or LAYERSxKV_HEADSxKEY_DIMxVALUE_DIM such as 30x3x64x64"
        )
    layers, *rest = (None if size == "*" else int(size) for size in match.groups())
    assert layers is not None
    return Fits(layers, *rest)


def skipped(skip: str, layer: int, n_layers: int) -> bool:
    """Say whether ``layer`` of ``n_layers`` stays dense.

    Args:
        skip: ``none``, or terms ``first<N>`` and ``last<N>`` joined by commas (N defaults
            to 1). As in mlx-vlm, stacks of one or two layers skip nothing: leaving one
            dense would undo the compression.

    Raises:
        OptionError: another word.
    """
    terms = [] if skip in ("none", "") else skip.split(",")
    counts = {"first": 0, "last": 0}
    for term in terms:
        match = _TERM.fullmatch(term.strip())
        if not match:
            raise OptionError(f"skip={skip}: expected none, first<N> or last<N>, found {term!r}")
        counts[match[1]] = int(match[2] or 1)
    if n_layers <= 2:
        return False
    return layer < counts["first"] or layer >= n_layers - counts["last"]


def layer_widths(layers: str, layer: int) -> tuple[float, float] | None:
    """Return the key and value widths that ``layers`` gives to one layer, or None.

    Args:
        layers: ``none``, or terms ``A-B:k<bits>v<bits>`` or ``A:k<bits>v<bits>`` joined by
            commas, layers counted from 0; where terms overlap, the last one wins.
        layer: the layer asked about.

    Raises:
        OptionError: another word.
    """
    found = None
    for first, last, widths in _ranges(layers):
        if first <= layer <= last:
            found = widths
    return found


def all_widths(layers: str) -> list[tuple[float, float]]:
    """Return every pair of key and value widths that ``layers`` names.

    Raises:
        OptionError: as ``layer_widths``.
    """
    return [widths for _, _, widths in _ranges(layers)]


def _ranges(layers: str) -> list[tuple[int, int, tuple[float, float]]]:
    terms = [] if layers in ("none", "") else layers.split(",")
    ranges = []
    for term in terms:
        match = _RANGE.fullmatch(term.strip())
        if not match or (match[2] and int(match[2]) < int(match[1])):
            raise OptionError(
                f"layers={layers}: expected none or terms such as 0-3:k8v4, found {term!r}"
            )
        ranges.append(
            (int(match[1]), int(match[2] or match[1]), (float(match[3]), float(match[4])))
        )
    return ranges
