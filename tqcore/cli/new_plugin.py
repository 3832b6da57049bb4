"""``tqcore new-plugin``: write a package that works, to change into one's own."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from tqcore.registry import registry
from tqcore.scaffold.names import names_of
from tqcore.scaffold.write import KINDS, LICENSES, files_of, write

USE = {
    "scheme": "--kv-quant-scheme {item}",
    "codebook": "--kv-quant-scheme {item}",
    "rotation": "--kv-quant-scheme turboquant:rotation={item}",
}


def add_parser(subparsers: Any) -> None:
    """Add the subcommand."""
    parser = subparsers.add_parser(
        "new-plugin",
        description="Write a new plugin package that works as it is: pyproject, code, contract "
        "test, README, licence and a workflow for GitHub. Nothing is overwritten.",
    )
    parser.add_argument("name", metavar="NAME", help="of the distribution, say tqcore-mine")
    parser.add_argument(
        "--kind",
        choices=KINDS,
        default="scheme",
        help="a scheme with its codebook; a codebook with its float64 oracle, and a scheme to "
        "use it; or a rotation (default: %(default)s)",
    )
    parser.add_argument(
        "--directory", type=Path, help="where to write (default: a new folder NAME)"
    )
    parser.add_argument("--license", choices=LICENSES, default="MIT", help="default: %(default)s")
    parser.add_argument("--author", help="holder of the copyright")


def run(args: argparse.Namespace) -> int:
    """Write the package and say what to do next."""
    names = names_of(args.name, args.kind, registry())
    author = args.author or f"the authors of {names.distribution}"
    folder = args.directory or Path(names.distribution)
    for path in write(files_of(names, args.kind, args.license, author), folder):
        print(path)
    use = USE[args.kind].format(item=names.item)
    print(
        f"\nNext:\n"
        f'  cd {folder} && pip install -e ".[test]"\n'
        f"  pytest                       # the contract: it passes as it is\n"
        f"  tqcore check {names.distribution}\n"
        f"  tqcore generate --model MODEL {use}\n"
        f"Then change {names.module}/{_heart(args.kind)} into your method."
    )
    return 0


def _heart(kind: str) -> str:
    return "rotation.py" if kind == "rotation" else "codebook.py"
