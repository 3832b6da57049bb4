"""The text that MLX compiles of ``src/tensor*.cu``.

MLX writes a kernel's head, and looks at the whole text at every call. So the text is a few lines
that include the files; constants are part of it, where template arguments would have it built
again each time.
"""

from __future__ import annotations

import functools
import hashlib
from importlib.resources import files
from pathlib import Path

import mlx.core as mx
from attrs import astuple, fields, filters, frozen

from tqmetal.around import Beside
from tqmetal.decode import CAUSAL, NO_MASK
from tqmetal.kernels import read

HEADERS = ("tensor_ptx.h", "tensor.h", "tensor_rows.h", "tensor_trellis.h", "tensor_pairs.h")
BODY = ("tensor.cu", "tensor_loop.cu", "tensor_merge.cu")
"""Parts of one function, in order."""

AROUND = "tensor_around.cu"
"""The part before these of a program that reads what a cache has around packed tokens, too."""

INPUTS = (
    "q", "key_words", "key_scales", "value_words", "value_scales", "constants", "arrived",
)  # fmt: skip
MASKS = ("mask", "padding", "place")
PLACED = (
    "q_strides", "key_words_shape", "key_words_strides", "key_scales_strides",
    "value_words_strides", "value_scales_strides",
)  # fmt: skip
"""Shapes and strides that the files use: MLX passes those whose name it finds in its text."""


@frozen(cache_hash=True)
class Variant:
    """One program: the constants of ``src/tensor.cu``, and dtypes."""

    dim: int
    key_bits: int
    value_bits: int
    key_states: int
    value_states: int
    gqa: int
    q_len: int
    rows: int
    warps: int
    mask: int
    padded: bool
    capped: bool
    finished: bool
    q_dtype: mx.Dtype
    out_dtype: mx.Dtype
    mask_dtype: mx.Dtype
    around: Beside | None = None
    spans: tuple[int, int] = (1, 1)

    @property
    def masks_read(self) -> tuple[bool, bool, bool]:
        """Which of ``MASKS`` the kernel reads."""
        return self.mask not in (NO_MASK, CAUSAL), self.padded, self.mask == CAUSAL

    @property
    def inputs(self) -> tuple[str, ...]:
        """Return the names of the inputs."""
        masks = (name for name, used in zip(MASKS, self.masks_read, strict=True) if used)
        return (*INPUTS, *masks, *(self.around.names if self.around else ()))

    @property
    def name(self) -> str:
        """Return a name that no other program has: MLX keeps what it compiled by name."""
        listed = fields(Variant)
        told = astuple(self, filter=filters.exclude(listed.around, listed.spans))
        words = [str(field).rpartition(".")[2] for field in told]
        words += [f"spans_{self.spans[0]}_{self.spans[1]}"] if 2 in self.spans else []
        words += [self.around.name] if self.around else []
        return f"tq_tensor_{'_'.join(words)}_{_digest()}"

    @property
    def constants(self) -> str:
        """Return the lines that precede the body."""
        numbers = {
            "D": self.dim, "KBITS": self.key_bits, "VBITS": self.value_bits,
            "KSTATES": self.key_states, "VSTATES": self.value_states, "GQA": self.gqa,
            "Q_LEN": self.q_len, "ROWS": self.rows, "WARPS": self.warps, "CAPPED": int(self.capped),
        }  # fmt: skip
        lines = [f"constexpr int {name} = {number};" for name, number in numbers.items()]
        switches = {"MASK": self.mask, "PADDED": self.padded, "FINISHED": self.finished}
        lines += [f"#define {name} {int(value)}" for name, value in switches.items()]
        if 2 in self.spans:
            spans = zip(("KSPAN", "VSPAN"), self.spans, strict=True)
            lines += ["#define PAIRS 1", *(f"constexpr int {name} = {n};" for name, n in spans)]
        lines += [self.around.constants] if self.around else []
        return "\n".join(lines)

    @property
    def bounds(self) -> str:
        """Threads a block, and blocks that shall fit a multiprocessor: it limits the registers."""
        return f"__launch_bounds__({32 * self.warps}, {2 if self.rows <= 4 else 1})"


def kernel_text(variant: Variant) -> tuple[str, str, str]:
    """Return name, header and body for ``mx.fast.cuda_kernel``.

    The header gives the name, in the head that MLX writes, what MLX has no option for.
    """
    full = f"custom_kernel_{variant.name}"
    headers = "".join(map(_include, HEADERS))
    header = f"#define {full} {variant.bounds} {full}\n{headers}"
    placed = [*PLACED, *(["mask_strides"] if variant.masks_read[0] else [])]
    parts = [*BODY]
    if variant.around:
        placed += variant.around.placed
        parts.insert(0, AROUND)
    body = "".join(map(_include, parts))
    return (
        variant.name,
        header,
        f"// {' '.join(placed)}\n{variant.constants}\n{body}#undef {full}\n",
    )


def _include(name: str) -> str:
    path = Path(str(files("tqmetal").joinpath("src", name))).resolve()
    return f'#include "{path.as_posix()}"\n'


@functools.cache
def _digest() -> str:
    """Return a digest of the files: what is compiled of other files has another name."""
    text = "".join(map(read, (*HEADERS, *BODY, AROUND)))
    return hashlib.sha256(text.encode()).hexdigest()[:8]
