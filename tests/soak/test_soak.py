"""Caches that work for long stay right, and take no more memory than they say."""

from __future__ import annotations

import gc

import mlx.core as mx

from tests.soak.run import growth, soak
from tqcore.cache.storage import PlaneStore

OPERATIONS = 5000
MIB = 2**20


def run(folder, operations):
    return list(soak(folder, lambda done: done < operations, every=operations // 40))


def test_thousands_of_operations_leave_memory_flat(tmp_path):
    gc.collect()
    others = mx.get_active_memory()  # of whatever ran before in this process
    samples = run(tmp_path, OPERATIONS)
    assert samples[-1].tokens > 5 * OPERATIONS
    assert growth([sample.unaccounted for sample in samples]) < MIB / 4
    assert max(sample.unaccounted for sample in samples) - others < 4 * MIB
    assert growth([sample.resident for sample in samples]) < 32 * MIB


def test_a_leak_would_be_seen(tmp_path, monkeypatch):
    """Stores that somebody keeps: what the samples show of them is far above the limits."""
    kept, copy = [], PlaneStore.copy

    def keeping(self):
        twin = copy(self)
        kept.append(twin._buffers)
        return twin

    monkeypatch.setattr(PlaneStore, "copy", keeping)
    assert growth([sample.unaccounted for sample in run(tmp_path, 1000)]) > MIB
