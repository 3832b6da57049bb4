"""Turns, medians, and what the clock counts."""

from __future__ import annotations

import time

import pytest

from tqcore.bench import attention
from tqcore.bench.clock import Times, Work, once, take_turns
from tqcore.bench.options import KernelOptions, asked


def test_works_take_turns_and_the_first_turn_does_not_count():
    order, waits = [], {"a": iter([0.2, 0, 0, 0]), "b": iter([0, 0.02, 0.02, 0.02])}

    def work(name):
        order.append(name)
        time.sleep(next(waits[name]))
        return ()

    ticks = []
    works = {name: Work(lambda name=name: work(name)) for name in "ab"}
    times = take_turns(works, 3, lambda: ticks.append(1))
    assert order == list("abababab")
    assert len(ticks) == len(order)
    assert times["a"].seconds < 0.02 <= times["b"].seconds
    assert times["b"].cpu_seconds < times["b"].seconds


@pytest.mark.parametrize("recorded", [True, False])
def test_recording_counts_only_where_it_may_be_the_work(recorded):
    def work():
        time.sleep(0.05)
        return ()

    assert (once(Work(work, recorded)).seconds < 0.05) is recorded


def test_on_a_gpu_a_layer_is_the_slope_between_two_chains(monkeypatch):
    taken = {("x", 1): Times(1.0 + 4 * 0.5, 0.0), ("x", 3): Times(1.0 + 12 * 0.5, 0.0)}
    monkeypatch.setattr(attention, "device_kind", lambda: "metal")
    assert attention.of_a_layer("x", 4, taken).seconds == pytest.approx(0.5)
    monkeypatch.setattr(attention, "device_kind", lambda: "cpu")
    assert attention.of_a_layer("x", 4, taken).seconds == pytest.approx(0.75)


def test_the_chains_of_a_gpu_run_on_any_device(monkeypatch):
    monkeypatch.setattr(attention, "device_kind", lambda: "metal")
    options = KernelOptions(
        (asked("turboquant@4"),), (512,), layers=4, repeats=3, peers=False, dtypes=("float32",)
    )
    rows, left_out = attention.measure(options, lambda text, share: None)
    assert not left_out
    assert [row.name for row in rows] == ["mlx float32", "turboquant@4"]
    # a kernel that works while it is recorded is not taken for one that takes no time
    assert all(1e-5 < row.seconds < 1 for row in rows)


def test_a_layer_that_noise_hides_gets_the_upper_bound(monkeypatch):
    monkeypatch.setattr(attention, "device_kind", lambda: "cuda")
    taken = {("x", 1): Times(1.3, 0.0), ("x", 3): Times(1.2, 0.0)}
    assert attention.of_a_layer("x", 4, taken).seconds == pytest.approx(0.1)
