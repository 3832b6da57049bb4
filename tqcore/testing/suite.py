"""Which checks apply to what."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tqcore.testing import checks

Check = Callable[[Any], None]

FIRST: tuple[Check, ...] = (
    checks.check_protocol,
    checks.check_deterministic,
    checks.check_same_in_another_process,
    checks.check_no_state,
    checks.check_device_equals_oracle,
    checks.check_compiles,
    checks.check_thread_safety,
)

CHECKS: dict[str, tuple[Check, ...]] = {
    "rotation": (
        *FIRST,
        checks.check_batch_invariance,
        checks.check_rotation_isometry,
        checks.check_rotation_inverse,
        checks.check_rotation_adjoint,
        checks.check_rotation_dtype,
    ),
    "codebook": (
        *FIRST,
        checks.check_batch_invariance,
        checks.check_codebook_codes,
        checks.check_codebook_planes,
        checks.check_decode_kind,
        checks.check_codebook_idempotence,
        checks.check_rate_distortion,
        checks.check_beats_scalar,
        checks.check_no_bias,
        checks.check_scale,
        checks.check_zero_vector,
        checks.check_finite_extremes,
        checks.check_poisoned_row,
    ),
    "packer": (
        *FIRST,
        checks.check_packer_exact,
        checks.check_packer_planes,
        checks.check_packer_bytes,
        checks.check_packer_layout,
    ),
    "score_kernel": (
        checks.check_protocol,
        checks.check_kernel_refusals,
        checks.check_kernel_equals_oracle,
        checks.check_kernel_compiles,
    ),
    "scheme": (
        checks.check_spec_json,
        checks.check_scheme_options,
        checks.check_scheme_bytes,
        checks.check_scheme_distortion,
        checks.check_scheme_storage,
        checks.check_scheme_attention,
        checks.check_scheme_centring,
    ),
}
"""The checks of each kind, in the order they run."""
