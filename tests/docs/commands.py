"""The parsers of ``tqcore``, one a command, as the program itself makes them."""

from __future__ import annotations

import argparse
import importlib
from collections.abc import Iterator

from tqcore import cli


def parsers() -> dict[str, argparse.ArgumentParser]:
    """Return the parser of every command and subcommand, by the words that call it."""
    return {
        words: parser for name in cli.COMMANDS for words, parser in _tree(name, parser_of(name))
    }


def parser_of(name: str) -> argparse.ArgumentParser:
    """Return a command's parser; where a host parses the rest, that of our flags."""
    module = importlib.import_module(f"tqcore.cli.{name.replace('-', '_')}")
    if hasattr(module, "main"):
        return module.parser()
    return subparsers_of(cli._parser({name: cli.COMMANDS[name]}, module))[name]


def wraps_a_host(words: str) -> bool:
    """Say whether somebody else's parser gets the rest of the line."""
    name = words.split()[0].replace("-", "_")
    return hasattr(importlib.import_module(f"tqcore.cli.{name}"), "main")


def subparsers_of(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    """Return a parser's own commands."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            return dict(action.choices)
    return {}


def _tree(
    words: str, parser: argparse.ArgumentParser
) -> Iterator[tuple[str, argparse.ArgumentParser]]:
    yield words, parser
    for name, child in subparsers_of(parser).items():
        yield from _tree(f"{words} {name}", child)
