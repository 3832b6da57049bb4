"""The kernels on the Metal emulator: the text that MLX would compile, run on the CPU."""

from __future__ import annotations

from collections.abc import Callable

from tqcore.testing.msl import Emulator
from tqmetal import kernels
from tqmetal.decode import Launches
from tqmetal.kernels import Backend, Launch

Edit = Callable[[str], str]


def kernel(name: str, seed: int = 0, edit: Edit = lambda text: text) -> Launch:
    """Return a kernel of ``src``, its text and headers changed by ``edit``."""
    inputs, outputs = kernels.ARRAYS[name]
    return Emulator(seed=seed).metal_kernel(
        name=f"tq_{name}",
        input_names=inputs,
        output_names=outputs,
        source=edit(kernels.read(f"{name}.metal")),
        header=edit(kernels.header(name, "metal")),
        ensure_row_contiguous=False,
    )


def launches(backend: Backend = "metal", seed: int = 0, edit: Edit = lambda text: text) -> Launches:
    """Return what a decode takes; ``backend`` decides how it is tiled."""
    names = "decode", "merge", "complete"
    return Launches(backend, *(kernel(name, seed, edit) for name in names))
