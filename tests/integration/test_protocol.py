"""Everything a host's dense caches can do, ours can, or the table says why not."""

from __future__ import annotations

import importlib
from pathlib import Path

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


def names_of_ours(host: str, cls: str) -> set[str]:
    """Return the names of a fresh cache of the class that takes a host's one's place."""
    kind = {"KVCache": "quantized", "BatchKVCache": "batch", "RotatingKVCache": "rotating"}
    ours = getattr(get_host(host).types, kind.get(cls, "batch_rotating"))
    made = ours(*ARGUMENTS[cls])
    return {name for name in dir(made) if hasattr(type(made), name) or name in vars(made)}


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
    assert name in names_of_ours(host, cls)
    served(host, cls)[name](host)


@BOTH
def test_what_is_not_served_is_not_there(host: str) -> None:
    for cls in CLASSES:
        assert not set(not_served(host, cls)) & names_of_ours(host, cls)


@BOTH
@pytest.mark.parametrize("cls", ["BatchKVCache", "BatchRotatingKVCache"])
def test_a_dense_batch_is_left_as_it_is_and_says_so(host: str, cls: str) -> None:
    cache = host_class(host, cls)(*ARGUMENTS[cls])
    converter = get_host(host).converter(choose("turboquant:skip=none", 4))
    assert converter.convert([cache])[0] is cache
    assert converter.reasons == {0: f"{cls} is kept as it is"}


def test_the_page_is_the_table() -> None:
    written = Path(__file__).parents[2] / "docs" / "protocol.md"
    assert written.read_text() == page(), "python -m tests.integration.protocol > docs/protocol.md"
