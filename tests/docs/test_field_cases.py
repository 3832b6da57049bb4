"""Every field case that people met elsewhere has a test of its own here."""

import ast
import re
from pathlib import Path

TESTS = Path(__file__).parents[1]
LAST = 44
NAME = re.compile(r"test_field_case_(\d\d)_[a-z0-9_]+")


def names() -> list[str]:
    """Return the name of every test of the suite."""
    return [
        node.name
        for path in TESTS.rglob("test_*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
    ]


def test_every_field_case_has_a_test():
    found = {int(match[1]) for name in names() if (match := NAME.fullmatch(name))}
    missing = sorted(set(range(1, LAST + 1)) - found)
    assert not missing, f"no test_field_case_NN for {missing}"


def test_names_of_field_cases_are_alike():
    odd = [name for name in names() if re.match(r"test_(field_)?case_", name)]
    assert [name for name in odd if not NAME.fullmatch(name)] == []
