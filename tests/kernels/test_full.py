"""The run of every variant: what it covers, and that it repeats nothing but what may have changed."""

import itertools
import json
import random

import pytest
from attrs import evolve

from tests.kernels import emulated, full, fullcases
from tests.kernels.fullcases import Case, Result, cases, digest_of, error_of, run
from tests.kernels.fullreport import Report
from tqcore.testing.msl.signature import signature
from tqmetal import kernels, variants
from tqmetal.checks import Stored, Variant

DEQUANTIZE = Case("dequantize", Variant(Stored(3, 64), Stored(3, 64)))
SCORE = Case("score", Variant(Stored(3, 64), Stored(3, 64), tokens=9))


def test_every_kernel_runs_every_side_and_dtype():
    found = set()
    for case in cases():
        keys = [case.variant.key] if case.kernel in ("score", "dequantize") else []
        values = [case.variant.value] if case.kernel == "mix" else []
        for side in keys or values or (case.variant.key, case.variant.value):
            found.add((case.kernel, side, case.variant.dtype))
    sides = set(variants.every_side())
    for side, dtype in itertools.product(sides, variants.DTYPES):
        assert ("decode", side, dtype) in found
        assert ("score", side, dtype) in found
    for bits, dim, dtype in itertools.product(range(1, 9), variants.FULL_DIMS, variants.DTYPES):
        made = {(k, s.bits, s.dim, t) for k, s, t in found if k == "encode"}
        assert ("encode", bits, dim, dtype) in made
    trellises = {(s.states, s.bits, s.dim) for s in sides if s.kind == "trellis"}
    written = {(s.states, s.bits, s.dim, t) for k, s, t in found if k == "trellis_encode"}
    for trellis, dtype in itertools.product(trellises, variants.DTYPES):
        assert (*trellis, dtype) in written
    for side in sides:
        assert ("dequantize", side, "float32") in found
        assert side.kind == "lut+sign" or ("mix", side, "float32") in found


def test_no_two_cases_have_a_name():
    names = [case.name for case in cases()]
    assert len(names) == len(set(names))


def test_no_constant_is_negative(monkeypatch):
    """MLX 0.32.1 to 0.32.3 put the minus sign into the kernel's name, which nothing compiles."""
    constants = []

    def spy(definition, inputs, dtypes, template):
        constants.extend((definition.name, *constant) for constant in template)
        return signature(definition, inputs, dtypes, template)

    monkeypatch.setattr(fullcases, "signature", spy)
    every, rng = cases(), random.Random(0)
    for kernel in sorted({case.kernel for case in every}):
        for case in rng.sample([case for case in every if case.kernel == kernel], 8):
            digest_of(case)
    assert {name for name, *_ in constants} > {
        "tq_decode",
        "tq_merge",
        "tq_complete",
        "tq_trellis_encode",
    }
    assert [
        constant for constant in constants if isinstance(constant[-1], int) and constant[-1] < 0
    ] == []


@pytest.mark.parametrize("case", [DEQUANTIZE, SCORE], ids=lambda case: case.kernel)
def test_a_changed_program_has_another_digest(monkeypatch, case):
    before = digest_of(case)
    read = kernels.read

    def changed(old, new):
        monkeypatch.setattr(
            kernels, "read", lambda name: read(name).replace(old, new) if old else read(name)
        )

    changed("// ", "// Said otherwise. ")
    assert digest_of(case) == before
    changed("code == 0 ? 0.0f", "code == 0 ? 1.0f")
    assert digest_of(case) != before
    changed("", "")
    assert digest_of(evolve(case, variant=evolve(case.variant, tokens=8))) != before
    monkeypatch.setattr(fullcases, "judges", lambda: "another compiler")
    assert digest_of(case) != before


def test_the_digest_is_of_the_text_that_is_compiled(monkeypatch):
    texts = []
    kernel = emulated.kernel("dequantize")

    def launch(**call):
        texts.append(call)
        return kernel(**call)

    error_of(DEQUANTIZE, lambda name: launch)
    assert dict(texts[0]["template"])["BITS"] == 3
    monkeypatch.setattr("tqmetal.dequantize.VALUES_A_THREAD", 8)
    other = digest_of(DEQUANTIZE)
    monkeypatch.undo()
    assert other != digest_of(DEQUANTIZE)


@pytest.fixture
def few(monkeypatch, tmp_path):
    monkeypatch.setattr(full, "REPORT", tmp_path / "report.json")
    monkeypatch.setattr(full, "cases", lambda: [DEQUANTIZE, SCORE])
    monkeypatch.setenv("TQCORE_CACHE_DIR", str(tmp_path / "cache"))
    return full.REPORT


def test_a_second_run_repeats_only_what_was_wrong_or_has_changed(few, capsys):
    assert full.main(["--processes", "1"]) == 0
    assert "2 run, 0 known, 0 wrong" in capsys.readouterr().out
    assert full.main(["--processes", "1"]) == 0
    assert "0 run, 2 known, 0 wrong" in capsys.readouterr().out
    report = Report.read(few)
    report.results[SCORE.name] = evolve(report.results[SCORE.name], digest="of another text")
    report.results["a kernel that is gone"] = Result("", 0.0)
    report.write(few, 2)
    assert full.main(["--processes", "1"]) == 0
    assert "1 run, 1 known" in capsys.readouterr().out
    assert set(Report.read(few).results) == {DEQUANTIZE.name, SCORE.name}
    assert full.main(["--processes", "1", "--fresh", "--only", "score"]) == 0
    assert "1 run, 0 known" in capsys.readouterr().out


def test_a_wrong_case_is_said_and_run_again(few, capsys, monkeypatch):
    read = kernels.read
    monkeypatch.setattr(kernels, "read", lambda name: read(name).replace("* factor", "+ factor"))
    result = run(DEQUANTIZE)
    assert not result.right
    report = Report({DEQUANTIZE.name: result, SCORE.name: Result("", float("inf"), "a fault")})
    report.write(few, 2)
    assert Report.read(few).results[SCORE.name].error == float("inf")
    assert json.loads(few.read_text())["wrong"] == sorted([DEQUANTIZE.name, SCORE.name])
    monkeypatch.setattr(kernels, "read", read)
    assert full.main(["--processes", "1"]) == 0
    assert "2 run, 0 known, 0 wrong" in capsys.readouterr().out


def test_half_a_file_is_no_report(tmp_path):
    path = tmp_path / "report.json"
    Report({"decode x": Result("digest", 1e-7, "", 1e-4)}).write(path, 1)
    assert Report.read(path).results["decode x"].right
    assert [p.name for p in tmp_path.iterdir()] == ["report.json"]
    path.write_text(path.read_text()[:40])
    assert Report.read(path).results == {}
