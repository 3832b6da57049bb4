"""What a kernel is given of a codec: constants, tables, planes."""

from __future__ import annotations

from collections.abc import Callable

import mlx.core as mx
from attrs import frozen

from tqcore.protocols import Planes


@frozen(eq=False)
class Side:
    """How kernels read the keys, or the values, of a codec.

    Args:
        dim: values a vector that count; padding may follow.
        bits: width of the narrow codes.
        wide: how many codes, the first ones, are a bit wider.
        group: codes that share a scale and a bias; 0: one scale a vector.
        levels: float32, the table of ``bits + 1`` if any code is wide, then that of ``bits``; or
            points, ``span`` values each, of a trellis in the order of ``layout.by_window``; unused
            with groups.
        span: values a code.
        states: of a trellis; 0: there is none.
        project: of codes with signs, what the signs were drawn by, to project a rotated query.
    """

    dim: int
    bits: int
    wide: int
    group: int
    levels: mx.array
    span: int = 1
    states: int = 0
    project: Callable[[mx.array], mx.array] | None = None

    @property
    def signs(self) -> bool:
        """Whether a sign of one bit a value follows the codes."""
        return self.project is not None

    @property
    def width(self) -> int:
        """Values of a decoded vector: with signs, as many again, to meet the projected query."""
        return self.dim * (1 + self.signs)

    def arrays(self, planes: Planes) -> list[mx.array]:
        """Return words, scales, biases and levels as kernels take them; no plane is copied."""
        if self.group:
            return [*planes, self.levels]
        words, *scales = planes
        # Of signs the second is their own scale; else it is not read.
        return [words, scales[0][..., None], scales[-1][..., None], self.levels]

    def queries(self, q: mx.array) -> mx.array:
        """Return rotated queries ``[..., dim]`` as they meet decoded vectors, ``[..., width]``."""
        if self.project is None:
            return q
        q = q.astype(mx.float32)
        return mx.concatenate([q, self.project(q)], axis=-1)

    def constants(self, prefix: str = "") -> list[tuple[str, int]]:
        """Return the template constants by name, but for ``SIGNS``."""
        sizes = {
            "D": self.dim,
            "BITS": self.bits,
            "WIDE": self.wide,
            "GROUP": self.group,
            "SPAN": self.span,
            "STATES": self.states,
        }
        return [(prefix + name, size) for name, size in sizes.items()]
