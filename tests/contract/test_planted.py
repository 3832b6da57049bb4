"""``tqcore check`` on installed plugins with one fault each: which check tells, and what it says."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

PLANTED = Path(__file__).parent / "planted"
"""Laid out as an installed distribution: modules, metadata and entry points."""

FAULTS = {
    "truncating-rotation": {
        "check_rotation_isometry": ("<x0, x0> = 74.8", "64.3", "make_vectors(80, 1, 'gaussian'"),
        "check_rotation_inverse": ("within 0.0001", "off by 0.63", "make_vectors(96, 1, "),
        "check_rotation_adjoint": ("<Rx, y>", "off by 0.08", "make_vectors(80, 5, "),
        "check_rotation_dtype": ("at most 0.0001", "0.59", "make_vectors(96, 4, "),
    },
    "off-by-one-packer": {
        "check_packer_exact": ("codes[0] = 1", "0", "make_codes(((1, 1),), (), seed=0) = [1]")
    },
    "wrong-scale": {
        "check_scale": ("within 0.032 of 1", "106.5% of the size", "make_vectors(64, 128, ")
    },
    "unseeded": {"check_deterministic": ("from the seed alone", "differ", "make_vectors(64, 1, ")},
    "hashed-seed": {
        "check_same_in_another_process": ("hash()", "", "make_vectors(64, 5, 'gaussian', seed=8)")
    },
    "first-chunk": {
        "check_no_state": (
            "what is learnt belongs into params",
            "codes[0, 0] is 8, then 9",
            "make_vectors(64, 1, 'gaussian', seed=24) after make_vectors(64, 1, ",
        )
    },
    "nan-on-zero": {
        "check_codebook_codes": ("codes below 16", "", "make_vectors(64, 1, 'some_zero', seed=0)"),
        "check_zero_vector": ("0", "[nan], in 64 of 64", "zeros((1, 64))"),
    },
    "wrong-at-one-width": {
        "check_kernel_equals_oracle": ("float64 formula", "off by 0.", "trellis@5 64/64")
    },
    "crashes": {
        "check_rotation_isometry": ("MLX checks no index", "SIGABRT", "check_rotation_isometry"),
        "check_rotation_adjoint": ("MLX checks no index", "SIGABRT", "check_rotation_adjoint"),
    },
    "biased-trellis": {
        "check_beats_scalar": ("1.5 * 4^-b = 0.0938", "0.097", "make_vectors(128, 512, "),
        "check_no_bias": ("within 5.5", "-8.8 standard deviations off", "make_vectors(64, 4096, "),
    },
}
"""Who fails which checks, and parts of what is expected, what came and the input."""


def check(*arguments: str) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join([str(PLANTED), *(each for each in sys.path if each)])
    command = [sys.executable, "-m", "tqcore", "check", *arguments]
    environment = {**os.environ, "PYTHONPATH": path}
    return subprocess.run(command, capture_output=True, text=True, check=False, env=environment)


@pytest.fixture(scope="module")
def rows() -> list[dict[str, str]]:
    done = check(*(f"planted-{name}" for name in FAULTS), "--json")
    assert done.returncode == 1, done.stderr
    return json.loads(done.stdout)["checks"]


@pytest.mark.parametrize("fault", FAULTS)
def test_the_fault_is_named_by_its_checks_and_no_other(rows, fault):
    mine = [row for row in rows if f"-planted-{fault}-" in row["item"]]
    failed = {row["check"]: row for row in mine if row["status"] == "failed"}
    assert set(failed) == set(FAULTS[fault])
    for name, (expected, got, given) in FAULTS[fault].items():
        row = failed[name]
        assert f"planted-{fault}" in row["reason"]
        assert expected in row["expected"]
        assert row["got"]
        assert got in row["got"]
        assert given in row["input"]


def test_the_kernels_message_names_the_width(rows):
    (row,) = (r for r in rows if "one-width" in r["item"] and r["status"] == "failed")
    assert "wrong at 5 bits of scheme" in row["reason"]


def test_the_sound_twin_passes_every_check():
    done = check("planted-sound", "--json")
    assert done.returncode == 0, done.stdout
    told = json.loads(done.stdout)
    assert told["failed"] == 0
    kinds = {row["item"].partition("-")[0] for row in told["checks"] if row["status"] == "passed"}
    assert kinds == {"rotation", "codebook", "packer", "score_kernel"}


def test_the_report_shows_the_three_lines_of_a_failure():
    done = check("planted-off-by-one-packer", "--quick")
    assert done.returncode == 1
    lines = [" ".join(line.split()) for line in done.stdout.splitlines()]
    assert "expected codes[0] = 1" in lines
    assert "got 0" in lines
    assert "input make_codes(((1, 1),), (), seed=0) = [1]" in lines
    assert any(line.startswith("FAILED check_packer_exact: ") for line in lines)
    assert any(line.startswith("n/a check_device_equals_oracle: no numpy") for line in lines)
    assert "1 failed" in done.stdout
    assert done.stderr == ""
