"""A host that moved a name is refused with its version and the name, never half patched."""

from __future__ import annotations

import importlib
import tomllib
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from tests.integration.helpers import adapter
from tqcore.adapters import seams
from tqcore.adapters.seams import Versions
from tqcore.errors import HostError

ROOT = Path(__file__).parents[2]
HOSTS = [("vlm", "mlx-vlm", "mlx_vlm"), ("lm", "mlx-lm", "mlx_lm")]


@pytest.mark.parametrize(("host", "distribution", "package"), HOSTS)
def test_the_installed_host_has_every_seam(host: str, distribution: str, package: str) -> None:
    adapter(host).check()


@pytest.mark.parametrize(("host", "distribution", "package"), HOSTS)
def test_a_seam_that_moved_is_named_with_the_host_version(
    host: str, distribution: str, package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    base = importlib.import_module(f"{package}.models.base")
    monkeypatch.delattr(base, "scaled_dot_product_attention")
    with pytest.raises(HostError) as caught:
        adapter(host).install()
    message = str(caught.value)
    assert f"{distribution} {version(distribution)}" in message
    assert f"{package}.models.base.scaled_dot_product_attention is gone" in message


@pytest.mark.parametrize(("host", "distribution", "package"), HOSTS)
def test_a_function_that_lost_a_parameter_is_named(
    host: str, distribution: str, package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def load(path: str) -> None: ...

    monkeypatch.setattr(importlib.import_module(f"{package}.utils"), "load", load)
    with pytest.raises(HostError, match="no longer takes path_or_hf_repo"):
        adapter(host).check()


def test_a_missing_host_says_what_to_install() -> None:
    with pytest.raises(HostError, match=r'pip install "tqcore\[vlm\]"'):
        seams.check((), "mlx-vlm-that-nobody-has", "vlm", Versions("1.0", "1.0"))


@pytest.mark.parametrize(
    ("version", "how"),
    [
        ("1.2", None),
        ("1.2.0", None),
        ("1.4.1", None),
        ("1.4.1.0", None),
        ("1.4.1.0.3", "newer"),
        ("1.10", "newer"),
        ("1.4.2.dev1+local", "newer"),
        ("2", "newer"),
        ("1.1.99", "older"),
        ("0.9rc1", "older"),
    ],
)
def test_a_version_that_nobody_tried_gets_one_notice(version, how, monkeypatch, caplog) -> None:
    monkeypatch.setattr(seams, "installed", lambda distribution: version)
    tested = Versions("1.2", "1.4.1")
    for _ in range(3):
        seams.check((), f"host-{version}", "vlm", tested)
    said = [record.getMessage() for record in caplog.records]
    assert len(said) == (how is not None)
    for message in said:
        assert f"host-{version} {version} is {how} than what this tqcore was tested with" in message
        assert "(1.2 to 1.4.1)" in message
        assert f"pip install host-{version}==1.4.1" in message


@pytest.mark.parametrize(("host", "distribution", "package"), HOSTS)
def test_the_oldest_version_is_the_declared_floor(host, distribution, package) -> None:
    table = importlib.import_module(f"tqcore.adapters.{package}._seams")
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"][
        "optional-dependencies"
    ]
    assert extras[host] == [f"{distribution}>={table.TESTED.oldest}"]


def _names(table: Any) -> list[str]:
    return [seam.path for seam in table]


@pytest.mark.parametrize(("host", "distribution", "package"), HOSTS)
def test_every_patched_name_is_in_the_table(host: str, distribution: str, package: str) -> None:
    described = adapter(host).host()
    for patches in (described.wiring, described.routes):
        for patch in patches._patches:
            if patch.module.startswith(f"{package}.models.") and patch.module.count(".") > 2:
                continue  # files of models, found from the model at hand
            name = f"{patch.module}.{patch.attribute}"
            in_model_file = patch.attribute in (
                "scaled_dot_product_attention",
                "dequantize_kv_state",
            )
            assert name in _names(described.seams) or in_model_file, name


def test_every_patched_name_of_the_server_is_in_its_table() -> None:
    from tqcore.adapters.flags import Flags
    from tqcore.adapters.mlx_vlm import _seams, settings

    patches = settings.server_patches(Flags(), None)._patches
    assert {f"{p.module}.{p.attribute}" for p in patches} <= set(_names(_seams.SERVER_SEAMS))
