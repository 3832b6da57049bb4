"""Writing a package from its template: all files or none, and never over one that is there."""

from __future__ import annotations

import datetime
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from string import Template

from tqcore import __version__
from tqcore.errors import PluginError
from tqcore.scaffold.names import Names

KINDS = ("scheme", "codebook", "rotation")
LICENSES = ("MIT", "BSD-3-Clause", "Apache-2.0", "none")

PLACES = {
    "ci.yml": ".github/workflows/ci.yml",
    "gitignore": ".gitignore",
    "test_contract.py": "tests/test_contract.py",
}
"""Where a template goes; a Python module goes into the package, another file beside it."""

SUFFIX = ".tmpl"
"""Of templates: no tool takes them for code."""


def files_of(names: Names, kind: str, license: str, author: str) -> dict[str, str]:
    """Return the new package's files: path in the package, text.

    Args:
        names: of the package.
        kind: one of ``KINDS``.
        license: one of ``LICENSES``.
        author: holder of the copyright.
    """
    root = resources.files("tqcore.scaffold") / "template"
    values = {
        "distribution": names.distribution,
        "module": names.module,
        "item": names.item,
        "title": "".join(word.capitalize() for word in names.module.split("_")),
        "tqcore": ".".join(__version__.split(".")[:2]),
        "author": author,
        "year": str(datetime.date.today().year),
        "license_field": "" if license == "none" else f'\nlicense = "{license}"',
    }
    files = {f"{names.module}/__init__.py": ""}
    for template in (*(root / "common").iterdir(), *(root / kind).iterdir()):
        files[_place(template.name.removesuffix(SUFFIX), names)] = _filled(template, values)
    if license != "none":
        files["LICENSE"] = _filled(root / "licenses" / f"{license}{SUFFIX}", values)
    return dict(sorted(files.items()))


def write(files: dict[str, str], folder: Path) -> list[Path]:
    """Write files into a folder, which is made; return their paths.

    Raises:
        PluginError: a file is there already, or the folder cannot be written; nothing is written
            then.
    """
    paths = {folder / name: text for name, text in files.items()}
    if there := [str(path) for path in paths if path.exists()]:
        raise PluginError(
            f"{there[0]} is there already, and nothing is overwritten: choose another --directory"
        )
    try:
        for path, text in paths.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
    except OSError as error:
        raise PluginError(f"cannot write {error.filename}: {error.strerror}") from error
    return list(paths)


def _place(name: str, names: Names) -> str:
    if name in PLACES:
        return PLACES[name]
    return f"{names.module}/{name}" if name.endswith(".py") else name


def _filled(template: Traversable, values: dict[str, str]) -> str:
    return Template(template.read_text(encoding="utf-8")).substitute(values)
