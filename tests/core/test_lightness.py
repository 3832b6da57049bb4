"""What is read before a model loads costs no array library and little time."""

from __future__ import annotations

import resource
import subprocess
import sys

import pytest

HEAVY = ("numpy", "scipy", "mlx", "mlx_lm", "mlx_vlm", "transformers", "torch", "numba")
STARTUP_LIMIT = 0.6
"""Processor seconds, best of five: three times what a 2020s core needs, and less than half of what
numpy, scipy and mlx would add there. Processor time, so that a busy machine changes nothing."""


def loaded(code: str, *names: str) -> set[str]:
    """Return which modules are loaded in a fresh interpreter after ``code``."""
    script = (
        f"import sys\n{code}\nprint(*(n for n in {names!r} if n in sys.modules), file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    return set(done.stderr.split())


COMMANDS = {
    "schemes": "from tqcore.cli import main; assert main(['schemes']) == 0",
    "schemes --json": "from tqcore.cli import main; assert main(['schemes', '--json']) == 0",
    "plugins": "from tqcore.cli import main; assert main(['plugins']) == 0",
    "help": "from tqcore.cli import main; assert main([]) == 0",
    "import": "import tqcore; tqcore.Registry; dir(tqcore)",
    "choose": "from tqcore.schemestring import choose; choose('turboquant', 3.5)",
    "resolve": "from tqcore.registry import registry; [i.resolve() for i, _ in registry().schemes()]",
}


@pytest.mark.parametrize("command", COMMANDS)
def test_no_array_library_is_imported(command):
    assert loaded(COMMANDS[command], *HEAVY) == set()


@pytest.mark.parametrize(
    "command",
    [
        ("explain", "turbquant"),
        ("report", "--schemes", "turbquant"),
        ("plan", "--bits", "3", "--scheme", "turbquant"),
        ("plan", "--fit", "--scheme", "@no/such.toml"),
    ],
)
def test_a_mistyped_scheme_is_refused_before_anything_heavy_is_imported(command):
    code = f"from tqcore.cli import main; assert main({command!r}) == 2"
    assert "numpy" not in loaded(code, *HEAVY)


@pytest.mark.parametrize("command", ["schemes --json", "help", "import"])
def test_rich_is_imported_only_for_tables(command):
    assert loaded(COMMANDS[command], "rich") == set()


def test_importing_tqcore_alone_costs_nothing_else():
    assert loaded("import tqcore", "attr", "pluggy", "rich", *HEAVY) == set()


def test_schemes_starts_quickly():
    times = []
    for _ in range(5):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, "-m", "tqcore", "schemes"], capture_output=True, check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        times.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    assert min(times) < STARTUP_LIMIT, f"{min(times):.2f} s at best: is something imported early?"


def test_every_public_name_is_the_same_whenever_it_is_asked_for():
    # a lazy name that is also a submodule's would change once the submodule is imported
    code = (
        "import tqcore\n"
        "for name in tqcore.__all__:\n"
        "    first = getattr(tqcore, name)\n"
        "    assert getattr(tqcore, name) is first, name\n"
        "    assert type(first).__name__ != 'module', name\n"
    )
    assert loaded(code, "tqcore.cache") == {"tqcore.cache"}
