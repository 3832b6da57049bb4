"""What is in the wheel, and that it works where the checkout is out of sight."""

from __future__ import annotations

import json
import zipfile
from email.parser import Parser

import pytest

import tqcore
from tests.packaging.environment import ROOT

pytestmark = pytest.mark.slow

PACKAGES = {"tqcore", "tqplugins", "tqmetal"}


def contents(wheel) -> dict[str, bytes]:
    with zipfile.ZipFile(wheel) as archive:
        return {
            name: archive.read(name) for name in archive.namelist() if not name.endswith("/RECORD")
        }


def test_only_our_three_packages_are_installed(dist):
    top = {name.split("/")[0] for name in contents(dist["wheel"])}
    assert top == PACKAGES | {f"tqcore-{tqcore.__version__}.dist-info"}


def test_every_source_file_is_there_and_nothing_else(dist):
    roots = {"tqcore": ROOT, "tqplugins": ROOT / "plugins", "tqmetal": ROOT / "metal_kernels"}
    expected = {
        path.relative_to(root).as_posix()
        for package, root in roots.items()
        for path in (root / package).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert {name for name in contents(dist["wheel"]) if ".dist-info/" not in name} == expected


def test_types_are_declared_and_licence_and_scripts_are_in_the_metadata(dist):
    files = contents(dist["wheel"])
    info = f"tqcore-{tqcore.__version__}.dist-info"
    assert "tqcore/py.typed" in files
    assert f"{info}/licenses/LICENSE" in files
    assert b"tqcore = tqcore.cli:main" in files[f"{info}/entry_points.txt"]
    metadata = Parser().parsestr(files[f"{info}/METADATA"].decode())
    required = [each for each in metadata.get_all("Requires-Dist") if "extra ==" not in each]
    assert {each.split(">")[0].split("[")[0] for each in required} >= {"mlx", "pluggy", "attrs"}
    assert not any("torch" in each for each in metadata.get_all("Requires-Dist"))


def test_the_sdist_builds_the_same_wheel(dist, wheel_from_sdist):
    assert contents(wheel_from_sdist) == contents(dist["wheel"])


def test_the_installed_packages_are_the_wheels_own(environment):
    code = "import tqcore, tqplugins, tqmetal; print(*(m.__file__ for m in (tqcore, tqplugins, tqmetal)))"
    files = environment.run("python", "-c", code).split()
    assert all(str(environment.site) in file for file in files)


def test_no_generic_name_is_importable(environment):
    code = "import importlib.util as u; print([n for n in %r if u.find_spec(n)])"
    names = ("plugins", "metal_kernels", "tests", "src", "docs")
    assert environment.run("python", "-c", code % (names,)).strip() == "[]"


def test_the_entry_points_are_found(environment):
    listed = json.loads(environment.run("tqcore", "plugins", "--json"))
    assert {each["entry_point"]: each["status"] for each in listed} == {
        "builtin": "loaded",
        "metal": "loaded",
    }


def test_schemes_are_listed_by_script_and_by_module(environment):
    by_script = json.loads(environment.run("tqcore", "schemes", "--json"))
    assert {"turboquant", "uniform"} <= {each["name"] for each in by_script}
    assert json.loads(environment.run("python", "-m", "tqcore", "schemes", "--json")) == by_script


def test_kernel_sources_are_read_from_the_installed_package(environment):
    code = (
        "from importlib.resources import files\n"
        "for f in sorted(files('tqmetal').joinpath('src').iterdir(), key=lambda f: f.name):\n"
        "    if f.name.endswith(('.metal', '.h')): print(f.name, len(f.read_text()))"
    )
    read = dict(line.split() for line in environment.run("python", "-c", code).splitlines())
    source = ROOT / "metal_kernels/tqmetal/src"
    assert sorted(read) == sorted(f.name for f in source.iterdir() if f.suffix in (".metal", ".h"))
    assert {name.rpartition(".")[2] for name in read} == {"metal", "h"}
    assert all(int(size) > 0 for size in read.values())


def test_a_cache_works_in_the_installed_package(environment):
    code = (
        "import mlx.core as mx, tqcore\n"
        "cache = tqcore.TurboQuantKVCache(bits=3.5)\n"
        "x = mx.random.normal((1, 2, 8, 64))\n"
        "k, v = cache.update_and_fetch(x, x)\n"
        "print(k.shape, cache.attend(x, k, v, scale=0.125, mask='causal').shape)"
    )
    assert environment.run("python", "-c", code) == "(1, 2, 8, 64) (1, 2, 8, 64)\n"
