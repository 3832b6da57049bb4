"""Everything a host's dense caches can do, ours can, or the table says why not."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import mlx.core as mx
import pytest

from tests.integration.protocol.names import ARGUMENTS, host_class, public_names
from tests.integration.protocol.page import page
from tests.integration.protocol.table import CLASSES, not_served, served
from tqcore.adapters import get_host
from tqcore.schemestring import choose

BOTH = pytest.mark.parametrize("host", ["vlm", "lm"])
CASES = [
    (host, cls, name)
    for host in ("vlm", "lm")
    for cls in CLASSES
    for name in sorted(served(host, cls))
    if name in public_names(host, cls)
]


@BOTH
@pytest.mark.parametrize("cls", sorted(CLASSES))
def test_field_case_20_every_name_of_a_dense_cache_is_in_a_table(host: str, cls: str) -> None:
    version = importlib.import_module(f"mlx_{host}").__version__
    known = set(served(host, cls)) | set(not_served(host, cls))
    unknown = public_names(host, cls) - known
    assert not unknown, f"mlx_{host} {version}: {cls} has new names: {', '.join(sorted(unknown))}"


@pytest.mark.parametrize("cls", sorted(CLASSES))
def test_no_table_has_a_name_that_no_host_has(cls: str) -> None:
    names = public_names("vlm", cls) | public_names("lm", cls)
    assert not set().union(*CLASSES[cls]) - names


@pytest.mark.parametrize(("host", "cls", "name"), CASES)
def test_field_case_20_ours_does_what_the_hosts_own_does(host: str, cls: str, name: str) -> None:
    types = get_host(host).types
    assert hasattr(types.batch if cls.startswith("Batch") else types.quantized, name)
    served(host, cls)[name](host)


@BOTH
def test_what_is_not_served_is_not_there(host: str) -> None:
    for cls, kind in (("KVCache", "quantized"), ("BatchKVCache", "batch")):
        ours = getattr(get_host(host).types, kind)
        assert not [name for name in not_served(host, cls) if hasattr(ours, name)]


@BOTH
@pytest.mark.parametrize("cls", ["RotatingKVCache", "BatchRotatingKVCache"])
def test_field_case_10_a_sliding_window_is_left_as_it_is_and_works(host: str, cls: str) -> None:
    cache: Any = host_class(host, cls)(*ARGUMENTS[cls])
    converter = get_host(host).converter(choose("turboquant:skip=none", 4))
    assert converter.convert([cache])[0] is cache
    assert converter.reasons == {0: f"{cls} is kept as it is"}
    rows = 2 if cls.startswith("Batch") else 1
    for count in (20, 1):
        cache.make_mask(count)
        keys, _ = cache.update_and_fetch(*mx.random.normal((2, rows, 2, count, 32)))
    assert keys.shape[2] >= 16


def test_the_page_is_the_table() -> None:
    written = Path(__file__).parents[2] / "docs" / "protocol.md"
    assert written.read_text() == page(), "python -m tests.integration.protocol > docs/protocol.md"
