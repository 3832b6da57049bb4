"""One function a check: it takes a description, asserts, and says what was expected and came.

A component may refuse a dimension or a width with ``ShapeError`` or ``WidthError``: a clear
error is an answer. It must accept at least one.
"""

from tqcore.testing.checks.codebook import (
    check_codebook_codes,
    check_codebook_idempotence,
    check_codebook_planes,
    check_decode_kind,
    check_finite_extremes,
    check_poisoned_row,
    check_rate_distortion,
    check_zero_vector,
)
from tqcore.testing.checks.common import (
    check_batch_invariance,
    check_deterministic,
    check_device_equals_oracle,
    check_protocol,
)
from tqcore.testing.checks.gain import check_beats_scalar, check_no_bias
from tqcore.testing.checks.kernel import check_kernel_equals_oracle, check_kernel_refusals
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

__all__ = [
    "check_batch_invariance",
    "check_beats_scalar",
    "check_codebook_codes",
    "check_codebook_idempotence",
    "check_codebook_planes",
    "check_decode_kind",
    "check_deterministic",
    "check_device_equals_oracle",
    "check_finite_extremes",
    "check_kernel_equals_oracle",
    "check_kernel_refusals",
    "check_no_bias",
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
    "check_scheme_bytes",
    "check_scheme_distortion",
    "check_scheme_options",
    "check_scheme_storage",
    "check_spec_json",
    "check_zero_vector",
]
