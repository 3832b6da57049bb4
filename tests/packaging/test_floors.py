"""The declared floors are the versions that ``make test-floors`` installs."""

from __future__ import annotations

import re
import tomllib

import pytest

from tests.packaging.environment import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS = PROJECT["optional-dependencies"]
CORE = [*PROJECT["dependencies"], *(each for name in ("cpu", "fast", "report", "msl", "testing") for each in EXTRAS[name])]  # fmt: skip
HOSTS = [*CORE, *EXTRAS["lm"], *EXTRAS["vlm"]]


def release(version: str) -> tuple[int, ...]:
    numbers = [int(each) for each in version.split(".")]
    return (*numbers, 0, 0, 0)[:3]


def pins(name: str) -> dict[str, str]:
    lines = (ROOT / "tests/floors" / f"{name}.txt").read_text().splitlines()
    return dict(
        line.split()[0].rstrip(";").split("==") for line in lines if not line.startswith("#")
    )


def floors(requirements: list[str]) -> dict[str, str]:
    """Name and version of each ``name[extra]>=version; marker``."""
    found = {}
    for each in requirements:
        name, version = re.fullmatch(r"([\w-]+)(?:\[\w+\])?>=([\d.]+)(?:;.*)?", each).groups()
        found[name] = version
    return found


def test_alone_every_floor_is_tested_as_declared():
    declared, pinned = floors(CORE), pins("core")
    assert set(declared) == set(pinned) - {"mlx-cpu"}
    assert {name: release(version) for name, version in declared.items()} == {
        name: release(pinned[name]) for name in declared
    }
    assert pinned["mlx-cpu"] == pinned["mlx"]


def test_with_hosts_no_floor_is_below_the_declared_and_the_hosts_are_at_theirs():
    declared, pinned = floors(HOSTS), pins("hosts")
    assert set(declared) == set(pinned) - {"mlx-cpu", "pyparsing"}
    assert all(release(pinned[name]) >= release(version) for name, version in declared.items())
    for host in ("mlx-lm", "mlx-vlm"):
        assert release(pinned[host]) == release(declared[host])


@pytest.mark.parametrize("requirement", HOSTS)
def test_nothing_has_a_ceiling(requirement):
    assert "<" not in requirement
    assert "==" not in requirement.partition(";")[0]


def test_the_pythons_that_are_declared_are_those_of_ci():
    declared = [c.rpartition(" ")[2] for c in PROJECT["classifiers"] if re.search(r":: 3\.\d+$", c)]
    workflow = (ROOT / ".github/workflows/ci.yml").read_text()
    (matrix,) = re.findall(r"^ *python: \[(.*)\]$", workflow, re.MULTILINE)
    assert [each.strip('" ') for each in matrix.split(",")] == declared
    assert PROJECT["requires-python"] == f">={declared[0]}"
