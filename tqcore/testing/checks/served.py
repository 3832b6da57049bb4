"""Check of a scheme with the kernel that serves it here: whole calls against the formula."""

from __future__ import annotations

from tqcore.doctor.check import check_attend, check_encode
from tqcore.select import encoder_for, kernel_for
from tqcore.spec import SchemeInfo
from tqcore.testing.checks.kernel import assert_right, samples
from tqcore.testing.verdict import NotApplicable


def check_scheme_attention(info: SchemeInfo) -> None:
    """The kernels that serve it on this machine attend and encode as its codecs do.

    A fused kernel reads the stored planes itself: a codebook that calls its format by a name
    that means another one is found here.
    """
    served = False
    for sample, call in samples(info):
        served = True
        choice = kernel_for(sample.request)
        who = f"scheme {info.name!r} with kernel {choice.kernel.name!r}"
        assert_right(who, check_attend(choice.kernel, sample), call)
        encoder = encoder_for(sample.encoding).kernel
        if encoder is not None:
            who = f"scheme {info.name!r}, encoded by kernel {encoder.name!r}"
            assert_right(who, check_encode(encoder, sample), call)
    if not served:
        raise NotApplicable("head_dim 64 is refused, or the scheme does not resolve")
