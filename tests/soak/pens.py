"""Caches of one scheme that live, are changed in every way that there is, and die."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np

from tqcore.cache import (
    BatchQuantizedKVCache,
    BatchRotatingQuantizedKVCache,
    QuantizedKVCache,
    RotatingQuantizedKVCache,
    load_caches,
    save_caches,
)

HEADS, DIM = 2, 32
LONGEST = 700
"""Tokens at which a sequence is cut back, as a server cuts its context."""

MOST = 4
"""Rows of a batch, and single caches of a pen."""


class Pen:
    """Single caches and a batch under one scheme; every operation keeps what they hold right."""

    def __init__(self, scheme: str, bits: float, window: int, seed: int, folder: Path) -> None:
        self.rng = np.random.default_rng(seed)
        self.path = folder / f"pen-{seed}.safetensors"
        self.window, self.tokens = window, 0
        self.many: Any = BatchRotatingQuantizedKVCache if window else BatchQuantizedKVCache
        if window:
            self.make: Callable[[], Any] = lambda: RotatingQuantizedKVCache(window, 0, scheme, bits)
        else:
            self.make = lambda: QuantizedKVCache(scheme, bits)
        self.singles: list[Any] = [self.make()]
        self.batch: Any = self.many.merge([self.fresh(5)])
        names = [name for name in vars(Pen) if name.startswith("do_")]
        self.operations = [getattr(self, name) for name in sorted(names)]

    @property
    def caches(self) -> list[Any]:
        """Everything alive."""
        return [*self.singles, self.batch]

    def step(self) -> str:
        """Do one operation; return its name."""
        operation = self.operations[self.rng.integers(len(self.operations))]
        operation()
        for cache in self.caches:
            mx.eval(cache.arrays())
        return operation.__name__.removeprefix("do_")

    def vectors(self, rows: int, n: int) -> list[mx.array]:
        shape = (rows, HEADS, n, DIM)
        self.tokens += rows * n
        return [mx.array(self.rng.standard_normal(shape), mx.float16) for _ in "kv"]

    def fresh(self, n: int) -> Any:
        cache = self.make()
        cache.update_and_fetch(*self.vectors(1, n))
        return cache

    def some(self) -> int:
        return int(self.rng.integers(len(self.singles)))

    # Single sequences

    def do_append(self) -> None:
        cache = self.singles[self.some()]
        n = int(self.rng.choice([1, 1, 1, 1, 7, 40, 300]))
        cache.update_and_fetch(*self.vectors(1, n))
        if cache.size() > LONGEST:
            cache.trim(cache.size() - LONGEST // 2)

    def do_attend(self) -> None:
        cache = self.singles[self.some()]
        n = int(self.rng.choice([1, 1, 3]))
        views = cache.update_and_fetch(*self.vectors(1, n))
        q = mx.array(self.rng.standard_normal((1, 2 * HEADS, n, DIM)), mx.float16)
        mask = cache.make_mask(n)
        dense = cache.dequantize()  # before: attention may be what packs a first chunk
        got = cache.attend(q, *views, scale=0.2, mask="causal" if n > 1 else None)
        assert mx.isfinite(got).all().item(), mask
        if n == 1 and not self.window:
            want = mx.fast.scaled_dot_product_attention(q, *dense, scale=0.2)
            assert mx.allclose(got, want, atol=2e-2), float(mx.abs(got - want).max().item())

    def do_trim(self) -> None:
        cache = self.singles[self.some()]
        if cache.is_trimmable():
            cache.trim(int(self.rng.integers(0, 30)))

    def do_copy(self) -> None:
        i = self.some()
        twin = self.singles[i].copy()
        same(twin, self.singles[i])
        self.singles[i] = twin

    def do_state(self) -> None:
        i = self.some()
        old = self.singles[i]
        self.singles[i] = type(old).from_state(old.state, old.meta_state)
        same(self.singles[i], old)

    def do_pickle(self) -> None:
        i = self.some()
        old = self.singles[i]
        self.singles[i] = pickle.loads(pickle.dumps(old))
        same(self.singles[i], old)

    def do_file(self) -> None:
        save_caches(self.path, self.singles)
        loaded, _ = load_caches(self.path)
        for one, other in zip(loaded, self.singles, strict=True):
            same(one, other)
        self.singles = loaded

    def do_be_born(self) -> None:
        if len(self.singles) < MOST:
            self.singles.append(self.fresh(int(self.rng.integers(1, 90))))

    def do_die(self) -> None:
        if len(self.singles) > 1:
            self.singles.pop(self.some())

    # Batches

    def do_batch_append(self) -> None:
        n = int(self.rng.choice([1, 1, 1, 5]))
        views = self.batch.update_and_fetch(*self.vectors(self.batch.batch_size, n))
        q = mx.ones((self.batch.batch_size, HEADS, n, DIM), mx.float16)
        got = self.batch.attend(q, *views, scale=0.2, mask="causal" if n > 1 else None)
        assert mx.isfinite(got).all().item()
        if self.batch.size() > LONGEST:
            self.batch = self.many.merge([self.fresh(5)])

    def do_batch_prompt(self) -> None:
        rows = self.batch.batch_size
        lengths = self.rng.integers(1, 40, rows).tolist()
        longest = max(lengths)
        self.batch.prepare(lengths=lengths, right_padding=[longest - n for n in lengths])
        self.batch.update_and_fetch(*self.vectors(rows, longest))
        self.batch.finalize()

    def do_join(self) -> None:
        """A single cache moves into the batch, as a request that is taken up."""
        if self.batch.batch_size < MOST:
            self.batch.extend(self.many.merge([self.singles[self.some()].copy()]))

    def do_leave(self) -> None:
        rows = self.batch.batch_size
        if rows > 1:
            keep = self.rng.choice(rows, int(self.rng.integers(1, rows)), replace=False)
            self.batch.filter(mx.array(keep.astype(np.int32)))

    def do_extract(self) -> None:
        row = int(self.rng.integers(self.batch.batch_size))
        taken = self.batch.extract(row)
        assert taken.offset == self.batch.offset.tolist()[row]
        self.singles[self.some()] = taken

    def do_reorder(self) -> None:
        rows = self.batch.batch_size
        self.batch.reorder(self.rng.integers(0, rows, rows).tolist())

    def do_batch_copy(self) -> None:
        self.batch = self.batch.copy()

    def do_batch_trim(self) -> None:
        if self.batch.is_trimmable():
            least = min(self.batch.offset.tolist())
            self.batch.trim(min(least, int(self.rng.integers(0, 4))))


def same(one: Any, other: Any) -> None:
    """Assert that two caches hold the same bytes."""
    assert one.meta_state == other.meta_state
    for mine, its in zip(one.arrays(), other.arrays(), strict=True):
        assert all(mx.array_equal(a, b) for a, b in zip(mine, its, strict=True))
