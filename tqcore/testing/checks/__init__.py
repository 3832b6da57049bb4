"""One function a check: it takes a description, and raises ``CheckFailed`` or ``NotApplicable``.

A component may refuse a dimension or a width with ``ShapeError`` or ``WidthError``: a clear
error is an answer. It must accept at least one.
"""

from tqcore.testing.checks.bias import check_no_bias, check_scale
from tqcore.testing.checks.centring import check_scheme_centring
from tqcore.testing.checks.codebook import (
    check_codebook_codes,
    check_codebook_idempotence,
    check_codebook_planes,
    check_decode_kind,
    check_finite_extremes,
    check_poisoned_row,
    check_zero_vector,
)
from tqcore.testing.checks.compiled import check_compiles
from tqcore.testing.checks.determinism import check_deterministic, check_same_in_another_process
from tqcore.testing.checks.distortion import check_beats_scalar, check_rate_distortion
from tqcore.testing.checks.interface import check_protocol
from tqcore.testing.checks.kernel import (
    check_kernel_compiles,
    check_kernel_equals_oracle,
    check_kernel_refusals,
)
from tqcore.testing.checks.oracle import check_device_equals_oracle
from tqcore.testing.checks.packer import (
    check_packer_bytes,
    check_packer_exact,
    check_packer_layout,
    check_packer_planes,
)
from tqcore.testing.checks.rotation import (
    check_rotation_adjoint,
    check_rotation_dtype,
    check_rotation_inverse,
    check_rotation_isometry,
)
from tqcore.testing.checks.scheme import (
    check_scheme_bytes,
    check_scheme_distortion,
    check_scheme_options,
    check_scheme_storage,
    check_spec_json,
)
from tqcore.testing.checks.served import check_scheme_attention
from tqcore.testing.checks.state import check_batch_invariance, check_no_state
from tqcore.testing.checks.threads import check_thread_safety

__all__ = [
    "check_batch_invariance",
    "check_beats_scalar",
    "check_codebook_codes",
    "check_codebook_idempotence",
    "check_codebook_planes",
    "check_compiles",
    "check_decode_kind",
    "check_deterministic",
    "check_device_equals_oracle",
    "check_finite_extremes",
    "check_kernel_compiles",
    "check_kernel_equals_oracle",
    "check_kernel_refusals",
    "check_no_bias",
    "check_no_state",
    "check_packer_bytes",
    "check_packer_exact",
    "check_packer_layout",
    "check_packer_planes",
    "check_poisoned_row",
    "check_protocol",
    "check_rate_distortion",
    "check_rotation_adjoint",
    "check_rotation_dtype",
    "check_rotation_inverse",
    "check_rotation_isometry",
    "check_same_in_another_process",
    "check_scale",
    "check_scheme_attention",
    "check_scheme_bytes",
    "check_scheme_centring",
    "check_scheme_distortion",
    "check_scheme_options",
    "check_scheme_storage",
    "check_spec_json",
    "check_thread_safety",
    "check_zero_vector",
]
