"""Plugins written against every plugin API that is taken, installed beside today's tqcore."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from tests.compat.conftest import HERE, SAMPLES
from tqcore.api import API_VERSION, OLDEST_API
from tqcore.spec import KINDS

NAMES = [sample.name for sample in SAMPLES]


def digest(folder: Path) -> str:
    """One digest of a sample's files and their names."""
    found = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        if path.is_file() and "__pycache__" not in path.parts:
            found.update(path.relative_to(folder).as_posix().encode() + b"\0" + path.read_bytes())
    return found.hexdigest()


def test_every_version_that_is_taken_has_its_sample():
    assert [f"api{version}" for version in range(OLDEST_API, API_VERSION + 1)] == NAMES


@pytest.mark.parametrize("sample", SAMPLES, ids=NAMES)
def test_a_sample_is_never_edited(sample):
    """What was written then must work as it was: a fault in it is no reason to change it."""
    frozen = json.loads((HERE / "frozen.json").read_text())
    assert digest(sample) == frozen[sample.name]


@pytest.mark.slow
@pytest.mark.parametrize("sample", NAMES)
def test_it_loads_and_registers_every_kind_of_part(with_samples, sample):
    listed = json.loads(with_samples.run("tqcore", "plugins", "--json"))
    (plugin,) = (each for each in listed if each["package"] == f"tqcore-compat-{sample}")
    assert (plugin["status"], plugin["error"], plugin["deprecated"]) == ("loaded", None, [])
    assert set(plugin["provides"]) == {*(f"{kind}s" for kind in KINDS), "schemes"}


@pytest.mark.slow
@pytest.mark.parametrize("sample", NAMES)
def test_its_schemes_are_explained(with_samples, sample):
    number = sample.removeprefix("api")
    for scheme in (f"compat-{number}:swap=yes,kind=none,reach=1.5", f"compat-{number}-borrowed"):
        told = json.loads(with_samples.run("tqcore", "explain", scheme, "--json"))
        assert told["key"]["nbytes"] > 0


@pytest.mark.slow
@pytest.mark.parametrize("sample", NAMES)
def test_it_passes_todays_contract(with_samples, sample, tmp_path):
    test = tmp_path / "contract_of_sample.py"
    test.write_text(
        "from tqcore.testing.contract import contract\n\n\n"
        f"@contract('tqcore-compat-{sample}')\ndef test_contract(check):\n    check()\n"
    )
    options = ("-q", "-p", "no:cacheprovider", "-W", "error", "--rootdir", str(tmp_path))
    assert " passed" in with_samples.run("python", "-m", "pytest", *options, str(test))


@pytest.mark.slow
@pytest.mark.parametrize("sample", NAMES)
def test_caches_files_and_batches_run_on_its_scheme_and_kernel(with_samples, sample):
    number = sample.removeprefix("api")
    scheme, kernel = f"compat-{number}", f"compat-{number}-whole"
    out = with_samples.run(
        "python", "-W", "error", str(HERE / "use.py"), scheme, kernel, TQCORE_KERNEL=kernel
    )
    assert out == "8.0\n"
