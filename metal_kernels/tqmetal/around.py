"""What kernels read of an ``Around``: the gain, means and sinks of a cache."""

from __future__ import annotations

import functools
from collections.abc import Sequence

import mlx.core as mx
from attrs import frozen

from tqcore.protocols import Around

MOST_SINKS = 8
"""A thread holds its part of all of them."""


@frozen(cache_hash=True)
class Beside:
    """What tells programs apart that read it.

    Args:
        sinks: dense tokens a row.
        dtypes: of the arrays, by the fields of ``Around``; None for what is not read.
    """

    sinks: int
    dtypes: tuple[mx.Dtype | None, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names of the inputs."""
        return tuple(name for name, dtype in zip(Around._fields, self.dtypes, strict=True) if dtype)

    @property
    def name(self) -> str:
        """Return what tells it apart, for the name of a program."""
        dtypes = ("0" if dtype is None else str(dtype).rpartition(".")[2] for dtype in self.dtypes)
        return f"around_{self.sinks}_{'_'.join(dtypes)}"

    @property
    def constants(self) -> str:
        """Return the lines that precede the body of ``src/tensor*.cu``."""
        lines = ["#define AROUND 1", f"#define SINKS {self.sinks}"]
        return "\n".join([*lines, *(f"#define {name.upper()} 1" for name in self.names)])

    @property
    def placed(self) -> tuple[str, ...]:
        """Return the names of the strides that ``src/tensor_around.cu`` reads."""
        return tuple(f"{name}_strides" for name in self.names)


def read_of(around: Around) -> tuple[Beside, Sequence[mx.array]] | None:
    """Return what is read of ``around``, and the arrays; None for more sinks than are served."""
    sinks = around.sink_keys
    count = 0 if sinks is None else sinks.shape[2]
    if count > MOST_SINKS:
        return None
    if not count:  # a shift of all logits tells nowhere
        around = Around(around.key_gain, None, around.value_mean)
    dtypes = tuple([None if array is None else array.dtype for array in around])
    return _beside(count, dtypes), [array for array in around if array is not None]


_beside = functools.cache(Beside)
"""One object of each kind: it is looked up with at every step."""
