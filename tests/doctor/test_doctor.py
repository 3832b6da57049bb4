"""The doctor finds what is wrong, and nothing wrong where all is right."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from attrs import evolve

from tests.core.helpers import plugin, scheme
from tests.doctor import planted
from tqcore import cli
from tqcore import registry as registries
from tqcore import select as selection
from tqcore.doctor.calls import calls
from tqcore.doctor.check import check_attend
from tqcore.doctor.report import ask
from tqcore.doctor.sample import sample_of
from tqcore.doctor.times import ratios
from tqcore.errors import ShapeError
from tqcore.registry import Registry
from tqplugins.kernels_mlx.device import PortableKernel

REASONS = {
    "offoutput": "of the largest output",
    "offsum": "of the largest output",
    "notanumber": "off by inf",
    "finishesbadly": "of the largest output",
    "completesbadly": "of the largest output",
    "raises": "RuntimeError: no such instruction",
    "refusesbadly": "its refuses() raised ZeroDivisionError: by nothing",
    "encodesbadly": "of the values",
    "unbuilt": "driver too old",
}
GPU = ("cuda-tensor", "cuda-fused", "metal-fused", "cuda-blocks", "metal-blocks")


@pytest.fixture
def known(monkeypatch):
    """The installed kernels, and two schemes at one width each."""
    installed = Registry()
    made = Registry((), ())
    few = [
        evolve(installed.scheme("turboquant"), widths=(4,)),
        evolve(installed.scheme("uniform"), widths=(8,)),
    ]
    kernels = [c for c, _ in installed.components() if c.kind == "score_kernel"]
    made.register(plugin(schemes=few, score_kernels=kernels), "few")
    monkeypatch.setattr(registries, "registry", lambda: made)
    monkeypatch.setattr(selection, "registry", lambda: made)
    selection._built.cache_clear()
    yield made
    selection._built.cache_clear()


def examined(capsys):
    code = cli.main(["doctor", "--json"])
    report = json.loads(capsys.readouterr().out)
    return code, report, {kernel["name"]: kernel for kernel in report["kernels"]}


def test_nothing_fails_here(known, capsys):
    code, report, kernels = examined(capsys)
    assert (code, report["failed"]) == (0, [])
    assert kernels["portable"]["attend"]["right"] == len(calls([i for i, _ in known.schemes()]))
    assert kernels["portable"]["attend"]["largest_error"] < 1e-5
    assert kernels["portable"]["encode"] is None
    if report["machine"]["device"].startswith("cpu"):
        for name in GPU:
            assert kernels[name]["attend"]["right"] == 0
            assert any("this is cpu" in why for why in kernels[name]["attend"]["refusals"])
    if report["machine"]["numba"] != "not installed":
        assert kernels["cpu-compiled"]["attend"]["right"] > 0
        assert kernels["cpu-compiled"]["encode"]["right"] > 0


def test_a_report_says_what_it_was_made_on(known, capsys):
    machine = examined(capsys)[1]["machine"]
    assert {"tqcore", "mlx", "mlx-vlm", "mlx-lm", "numba", "python", "system"} <= set(machine)


def test_every_planted_kernel_is_found(known, capsys):
    known.register(planted, "planted")
    code, report, kernels = examined(capsys)
    assert code == 1
    assert report["failed"] == sorted(REASONS)
    for name, text in REASONS.items():
        assert text in json.dumps(kernels[name]), name


def test_the_report_as_tables(known, capsys):
    known.register(planted, "planted")
    assert cli.main(["doctor"]) == 1
    came = capsys.readouterr()
    assert all(text in came.out for text in REASONS.values())
    assert "FAILED: completesbadly, encodesbadly, finishesbadly, notanumber" in came.out
    assert "runs on metal, this is" in came.out or "runs on cuda, this is" in came.out


def test_a_scheme_that_cannot_be_stored_is_told_and_stops_nothing(known, capsys):
    broken = scheme("broken", target=f"{__name__}:broken", widths=(4,))
    picky = scheme("picky", target=f"{__name__}:picky", widths=(4,))
    known.register(plugin(schemes=[broken, picky]), "strangers")
    code, report, kernels = examined(capsys)
    assert (code, report["failed"]) == (1, ["scheme broken"])
    assert "ZeroDivisionError" in kernels["scheme broken"]["error"]
    assert kernels["portable"]["attend"]["right"] > 0


def broken(widths, options, ctx):
    raise ZeroDivisionError


def picky(widths, options, ctx):
    raise ShapeError("it stores head_dim 7")


def test_shares_of_the_calls_are_all_of_them(known):
    kernels = [PortableKernel()]
    whole = ask(kernels, known, lambda *what: None)
    shares = [ask(kernels, known, lambda *what: None, first, 2) for first in range(2)]
    asked = [[verdict[:3] for verdict in found.verdicts] for found in (whole, *shares)]
    assert sorted(asked[0]) == sorted(asked[1] + asked[2])
    assert all(asked)


def test_a_kernel_that_rounds_says_how_much(known):
    call = calls([known.scheme("turboquant")])[0]
    off = planted.OffOutput()
    assert check_attend(off, sample_of(call)).outcome == "failed"
    off.tolerance = 0.5
    assert check_attend(off, sample_of(call)).outcome == "right"


def test_what_a_kernel_says_it_went_round_is_a_failure(known):
    sample = sample_of(calls([known.scheme("turboquant")])[0])
    kernel = PortableKernel()
    kernel.faults = ["failed its probe: no such instruction"]
    verdict = check_attend(kernel, sample)
    assert (verdict.outcome, verdict.reasons) == ("failed", tuple(kernel.faults))
    kernel.faults = None  # not a list: a stranger's mistake stops nobody else
    assert check_attend(kernel, sample).outcome == "failed"


def test_calls_are_of_every_kind():
    asked = calls([info for info, _ in Registry().schemes()])
    assert {call.bits for call in asked} >= set(range(1, 9))
    assert {call.dtype for call in asked} == {"float16", "bfloat16", "float32"}
    assert {call.mask for call in asked} == {"none", "causal", "bool", "added"}
    assert any(call.dims[0] != call.dims[1] for call in asked)
    assert {call.dims[0] for call in asked} >= {64, 80, 96, 112, 128, 192, 256}
    assert any(call.q_len > 16 for call in asked)
    assert any(call.q_len == 1 and call.gqa == 1 for call in asked)
    assert any(call.padded for call in asked)
    assert any(call.capped for call in asked)


def test_the_sample_depends_on_every_part_of_a_call(known):
    call = calls([known.scheme("turboquant")])[0]
    call = evolve(call, q_len=4, tokens=20)
    usual = sample_of(call).expected
    changes = [
        {"mask": "bool"},
        {"mask": "added"},
        {"mask": "causal"},
        {"padded": True},
        {"capped": True},
    ]
    for change in changes:
        changed = sample_of(evolve(call, **change))
        assert abs(changed.expected - usual).max() > 1e-4 * abs(usual).max(), change
        assert check_attend(PortableKernel(), changed).outcome == "right"


def test_times_are_ratios_to_mlx():
    rows = list(ratios((64,)))
    assert [row.scheme for row in rows] == ["turboquant@4", "turboquant@3.5"]
    assert all(row.faster > 0 and row.kernel for row in rows)


@pytest.mark.slow
def test_an_installed_plugin_of_strangers_is_examined_with_all_schemes(tmp_path):
    shutil.copy(Path(planted.__file__), tmp_path / "planted.py")
    info = tmp_path / "planted-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: planted\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[tqcore]\nplanted = planted\n")
    path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    command = [sys.executable, "-m", "tqcore", "doctor", "--json"]
    done = subprocess.run(
        command, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1, done.stderr
    report = json.loads(done.stdout)
    assert report["failed"] == sorted(REASONS)
    assert {p["package"]: p["status"] for p in report["plugins"]}["planted"] == "loaded"


def test_times_are_shown_as_a_table(capsys):
    row = {
        "scheme": "turboquant@4",
        "tokens": 4096,
        "kernel": "cpu",
        "faster": 9.5,
        "dtype": "float32",
    }
    from tqcore.cli.doctor import show

    show({"machine": {"mlx": "1"}, "plugins": [], "kernels": [], "failed": [], "times": [row]})
    out = capsys.readouterr().out
    for text in ("faster than MLX", "turboquant@4", "4096", "9.50x", "nothing failed"):
        assert text in out
