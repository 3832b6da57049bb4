"""An emulator of Metal: the text MLX would compile for ``mx.fast.metal_kernel``, run on the CPU.

    from tqcore.testing.msl import metal_kernel

    kernel = metal_kernel(name=..., input_names=..., output_names=..., source=...)
    outputs = kernel(inputs=..., grid=..., threadgroup=..., output_shapes=..., output_dtypes=...)

Both calls take what MLX's take. What the GPU would do in silence (an access out of bounds, a
data race, a barrier that not every thread reaches) raises ``KernelFault`` with the kernel's own
line. See docs/msl.md.
"""

from tqcore.testing.msl.emulator import Emulator, Kernel, metal_kernel
from tqcore.testing.msl.faults import FaultKind, KernelFault
from tqcore.testing.msl.runtime import Counts

__all__ = ["Counts", "Emulator", "FaultKind", "Kernel", "KernelFault", "metal_kernel"]
