"""The sliding-window caches: they stay the host's own, so no name of theirs is served.

A name that is served moves to ``SERVED`` with its exercise, as for the other classes.
"""

from __future__ import annotations

from tests.integration.protocol.pair import Exercise

STAYS = "sliding windows stay the host's own objects"

SERVED: dict[str, Exercise] = {}

_COMMON = """
    empty from_state is_trimmable keys keys_and_values make_mask max_size memory_profile merge
    meta_state nbytes offset prefix_cache_merge prefix_cache_reserve prefix_cache_restore
    prefix_cache_snapshot size state step to_quantized trim update_and_fetch values
"""
_BATCH = """
    batch_size extend extract filter finalize is_single_row left_padding prepare rotated
"""
NOT_SERVED: dict[str, str] = dict.fromkeys((*_COMMON.split(), "keep"), STAYS)
BATCH_NOT_SERVED: dict[str, str] = dict.fromkeys((*_COMMON.split(), *_BATCH.split()), STAYS)
