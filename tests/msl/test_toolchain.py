"""Which compiler is taken, and what is said when there is none."""

import importlib.util
import shutil
import sys

import pytest

from tests.msl.helpers import run
from tqcore.errors import KernelError
from tqcore.testing.msl import prelude, toolchain


@pytest.fixture
def afresh(monkeypatch):
    """No compiler and no cache is known yet, nor afterwards."""
    known = (toolchain.toolchain, prelude.prelude)
    for function in known:
        function.cache_clear()
    yield monkeypatch
    for function in known:
        function.cache_clear()


def test_the_package_is_taken_before_the_system(afresh):
    afresh.delenv("TQCORE_CXX", raising=False)
    command = toolchain.toolchain().clang
    assert command[0].endswith("zig") == bool(importlib.util.find_spec("ziglang"))
    afresh.setattr(shutil, "which", lambda name: None)
    assert toolchain.toolchain().clang == command


def test_without_any_it_says_what_to_install(afresh):
    afresh.delenv("TQCORE_CXX", raising=False)
    afresh.setattr(importlib.util, "find_spec", lambda name: None)
    afresh.setattr(shutil, "which", lambda name: None)
    with pytest.raises(KernelError, match=r"pip install 'tqcore\[msl\]'"):
        toolchain.toolchain()


def test_a_named_compiler_must_be_clang(afresh, tmp_path):
    other = tmp_path / "c++"
    other.write_text(f"#!{sys.executable}\nprint('g++ 12')\n")
    other.chmod(0o755)
    afresh.setenv("TQCORE_CXX", str(other))
    with pytest.raises(KernelError, match="is no clang: g\\+\\+ 12"):
        toolchain.toolchain()


def test_a_named_compiler_is_used_and_a_kernel_is_built_once(afresh, tmp_path):
    known = toolchain.toolchain()
    toolchain.toolchain.cache_clear()
    linker = " ".join(part for part in known.linker if not part.startswith("-"))
    calls, wrapper = tmp_path / "calls", tmp_path / "clang++"
    wrapper.write_text(
        f'#!/bin/sh\necho >> {calls}\ncase "$*" in -shared*) exec {linker} "$@";; esac\n'
        f'exec {" ".join(known.clang)} "$@"\n'
    )
    wrapper.chmod(0o755)
    afresh.setenv("TQCORE_CXX", str(wrapper))
    afresh.setenv("TQCORE_CACHE_DIR", str(tmp_path / "cache"))
    source = "out[thread_position_in_grid.x] = x[thread_position_in_grid.x];"
    run(source)
    made = calls.read_text().count("\n")
    assert made > 4
    run(source)
    assert calls.read_text().count("\n") == made


def test_precompiled_files_are_not_shared_by_checkouts(tmp_path, monkeypatch):
    ours = prelude._identity(toolchain.toolchain())
    shutil.copytree(prelude.HERE, tmp_path / "msl")
    monkeypatch.setattr(prelude, "HERE", tmp_path / "msl")
    assert prelude._identity(toolchain.toolchain()) != ours
