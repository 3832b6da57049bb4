"""Write ``docs/cli.md``, the reference of the command line, from the parsers.

``python -m tests.docs.cli > docs/cli.md``
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable

from tests.docs.commands import parsers, wraps_a_host
from tqcore import cli

HEAD = """\
# Command line

Every command and every flag, as `tqcore COMMAND --help` shows them. A command exits with 0; with 2 and one line that says
what to do for a mistake ([errors](errors.md)); others say so below. What a scheme's own options are, `tqcore schemes` lists.

This page is written by `python -m tests.docs.cli`.
"""

VARIABLES = {
    "TQCORE_KERNEL": "the one kernel to use: it serves, or the run stops; see [kernels](kernels.md)",
    "TQCORE_DISABLE_PLUGINS": "entry points or packages that are not loaded, with commas between",
    "TQCORE_TRACEBACK": "1 shows where an error was raised",
    "TQCORE_CACHE_DIR": "where the demo's model and compiled kernels are kept; else the user's cache folder",
    "TQCORE_CXX": "the clang that compiles Metal kernels for the CPU; see [msl](msl.md)",
}


def page() -> str:
    """Return the page."""
    parts = [HEAD, _table("command", "", (_command_row(name) for name in cli.COMMANDS))]
    shared: dict[str, str] = {}
    parts += [_section(words, parser, shared) for words, parser in parsers().items()]
    rows = ((f"`{name}`", text) for name, text in VARIABLES.items())
    parts.append(f"## Environment variables\n\n{_table('variable', '', rows)}")
    return "\n".join(parts)


def _command_row(name: str) -> tuple[str, str]:
    return f"[`tqcore {name}`](#tqcore-{name})", cli.COMMANDS[name]


def _section(words: str, parser: argparse.ArgumentParser, shared: dict[str, str]) -> str:
    level = "#" * (1 + len(words.split()))
    about = " ".join((parser.description or "").replace("``", "`").split())
    lines = [f"{level} `tqcore {words}`", "", *([about, ""] if about else [])]
    lines += [f"    {_usage(words, parser)}", ""]
    plain, *named = _groups(parser)
    if plain[1]:
        lines.append(_table("argument", "", plain[1]))
    for title, rows in named:
        table = _table("argument", "", rows)
        first = shared.setdefault(table, words)
        title = f"{title[0].upper()}{title[1:]}"
        same = f": the flags of [`tqcore {first}`](#tqcore-{first.replace(' ', '-')})\n"
        lines += [f"**{title}**\n", table] if first == words else [f"**{title}**{same}"]
    return "\n".join(lines)


def _groups(parser: argparse.ArgumentParser) -> list[tuple[str, list[tuple[str, str]]]]:
    """Return the groups' titles and rows: argparse's own two as one, first, then named ones."""
    rows = [
        (str(group.title), [_row(parser, each) for each in group._group_actions if _shown(each)])
        for group in parser._action_groups
    ]
    (_, given), (_, flags), *named = rows
    return [("", given + flags), *((title, cells) for title, cells in named if cells)]


def _usage(words: str, parser: argparse.ArgumentParser) -> str:
    given = [a for a in parser._actions if not a.option_strings and _shown(a)]
    names = [f"[{_metavar(a)}]" if a.nargs in ("?", "*") else _metavar(a) for a in given]
    names += [str(a.metavar) for a in parser._actions if isinstance(a, argparse._SubParsersAction)]
    flags = ["[flags]"] if any(a.option_strings and _shown(a) for a in parser._actions) else []
    rest = ["[its arguments]" if names else "[the host's flags]"] if wraps_a_host(words) else []
    return " ".join(["tqcore", words, *names, *flags, *rest])


def _shown(action: argparse.Action) -> bool:
    hidden = isinstance(action, (argparse._HelpAction, argparse._SubParsersAction))
    return not hidden and action.help != argparse.SUPPRESS


def _row(parser: argparse.ArgumentParser, action: argparse.Action) -> tuple[str, str]:
    takes = "" if action.nargs == 0 else f" {_metavar(action)}"
    if not action.option_strings:
        return f"`{_metavar(action)}`", _help(parser, action)
    return ", ".join(f"`{flag}{takes}`" for flag in action.option_strings), _help(parser, action)


def _metavar(action: argparse.Action) -> str:
    if isinstance(action.metavar, str):
        return action.metavar
    if action.choices is not None:
        return "|".join(str(choice) for choice in action.choices)
    return action.dest.upper()


def _help(parser: argparse.ArgumentParser, action: argparse.Action) -> str:
    text = parser._get_formatter()._expand_help(action) if action.help else ""
    default = _default(action)
    if default and default not in text and "default" not in text:
        text = f"{text}; default: {default}" if text else f"default: {default}"
    return text


def _default(action: argparse.Action) -> str:
    value = action.default
    if value is None or isinstance(value, bool) or value in (argparse.SUPPRESS, ()):
        return ""
    return ",".join(map(str, value)) if isinstance(value, tuple) else str(value)


def _table(first: str, second: str, rows: Iterable[tuple[str, str]]) -> str:
    cells = [(first, second), ("---", "---"), *rows]
    return "".join(f"| {_cell(a)} | {_cell(b)} |\n" for a, b in cells)


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


if __name__ == "__main__":
    print(page(), end="")
