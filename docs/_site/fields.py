"""A griffe extension: attrs classes get their constructor, and docstrings one entry a name.

Griffe reads sources without importing them. It knows how `dataclasses` makes ``__init__``, not
how attrs does; and it takes ``key_bits, value_bits: ...``, as docstrings here say what two
arguments share, for one odd name.
"""

from __future__ import annotations

import re
from typing import Any

import griffe

SHARED = re.compile(r"^( +)(\*{0,2}\w+(?:, \*{0,2}\w+)+): (.*(?:\n\1 +.*)*)", re.MULTILINE)
"""Arguments of one meaning: indent, names, text with its continuation lines."""


class Fields(griffe.Extension):
    """What mkdocs.yml names."""

    def on_object(self, *, obj: griffe.Object, **kwargs: Any) -> None:
        """Give every name of a docstring's entry its own."""
        if obj.docstring is not None:
            obj.docstring.value = SHARED.sub(_apart, obj.docstring.value)

    def on_class_members(self, *, cls: griffe.Class, **kwargs: Any) -> None:
        """Give an attrs class the constructor that attrs will."""
        if not any(_is_attrs(each) for each in cls.decorators) or "__init__" in cls.members:
            return
        fields = [each for each in cls.members.values() if _is_field(each)]
        itself = griffe.Parameter("self", kind=griffe.ParameterKind.positional_or_keyword)
        parameters = griffe.Parameters(itself, *(_parameter(each) for each in fields))
        init = griffe.Function("__init__", parameters=parameters, lineno=cls.lineno)
        cls.set_member("__init__", init)


def _apart(match: re.Match[str]) -> str:
    indent, names, text = match.groups()
    if indent == "    " and "Error" in names:
        return match[0]  # an entry of "Raises"
    return "\n".join(f"{indent}{name}: {text}" for name in names.split(", "))


def _is_attrs(decorator: griffe.Decorator) -> bool:
    return decorator.callable_path in ("attrs.frozen", "attrs.define")


def _is_field(member: griffe.Object | griffe.Alias) -> bool:
    if member.is_alias or not member.is_attribute:
        return False
    annotation = str(member.annotation or "")
    return bool(annotation) and not annotation.startswith(("ClassVar", "Final"))


def _parameter(member: Any) -> griffe.Parameter:
    value, default = member.value, member.value
    if isinstance(value, griffe.ExprCall) and value.canonical_path == "attrs.field":
        given = {each.name: each.value for each in value.arguments if hasattr(each, "name")}
        default = given.get("default", given.get("factory"))
    kind = griffe.ParameterKind.positional_or_keyword
    name = member.name.lstrip("_")
    return griffe.Parameter(name, annotation=member.annotation, kind=kind, default=default)
