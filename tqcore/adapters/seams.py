"""Seams: the names of a host that an adapter touches, checked before any of them is used."""

from __future__ import annotations

import functools
import importlib
import inspect
import logging
import re
from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from attrs import frozen

from tqcore.errors import HostError

logger = logging.getLogger(__name__)


@frozen
class Versions:
    """The versions of a host that the tests have run with; between them is taken as tested."""

    oldest: str
    newest: str

    def __str__(self) -> str:
        return self.newest if self.oldest == self.newest else f"{self.oldest} to {self.newest}"

    def outside(self, version: str) -> str | None:
        """Return ``older`` or ``newer`` for a version that is, else None."""
        release = _release(version)
        if release < _release(self.oldest):
            return "older"
        return "newer" if release > _release(self.newest) else None


def _release(version: str) -> tuple[int, ...]:
    match = re.match(r"\d+(\.\d+)*?(?=(\.0+)*(?!\.?\d))", version)  # 1.2 is 1.2.0
    return tuple(map(int, match[0].split("."))) if match else ()


@frozen
class Seam:
    """One name of a host.

    Args:
        module: where it is looked up.
        attribute: the name, dots included.
        purpose: what the adapter needs it for, as it reads after "needs it to".
        takes: parameters that the adapter passes by name.
    """

    module: str
    attribute: str
    purpose: str
    takes: tuple[str, ...] = ()

    @property
    def path(self) -> str:
        """The full dotted name."""
        return f"{self.module}.{self.attribute}"

    def find(self) -> Any:
        """Import and return the object.

        Raises:
            ImportError, AttributeError: it is not there.
        """
        # by module name: `mlx_vlm.generate` as an attribute is a function, not the package
        module = importlib.import_module(self.module)
        return functools.reduce(getattr, self.attribute.split("."), module)

    def problem(self) -> str | None:
        """Return what is wrong with this seam in the installed host, or None."""
        try:
            found = self.find()
        except (ImportError, AttributeError):
            return "is gone"
        if self.takes:
            parameters = inspect.signature(found).parameters
            missing = [name for name in self.takes if name not in parameters]
            if missing:
                return f"no longer takes {', '.join(missing)}"
        return None


def installed(distribution: str) -> str | None:
    """Return the installed version of a host, or None."""
    try:
        return version(distribution)
    except PackageNotFoundError:
        return None


def check(seams: Iterable[Seam], distribution: str, extra: str, tested: Versions) -> None:
    """Check every seam of a host; log once if its version is not one that was tested.

    Args:
        seams: the table.
        distribution: the host's name on the package index.
        extra: the extra of tqcore that installs it.
        tested: the host versions that the table was tried with.

    Raises:
        HostError: the host is not installed, or names every seam that moved.
    """
    found = installed(distribution)
    if found is None:
        raise HostError(f'{distribution} is not installed: pip install "tqcore[{extra}]"')
    moved = [(seam, problem) for seam in seams if (problem := seam.problem())]
    if moved:
        listed = "; ".join(f"{s.path} {what} (needed to {s.purpose})" for s, what in moved)
        raise HostError(
            f"{distribution} {found} does not fit this tqcore: {listed}. "
            f"It works with {distribution} {tested}: upgrade tqcore, or install that version"
        )
    _notice(distribution, found, tested)


@functools.cache
def _notice(distribution: str, found: str, tested: Versions) -> None:
    if how := tested.outside(found):
        logger.warning(
            "%s %s is %s than what this tqcore was tested with (%s). Every name that it needs is "
            "there; should an answer look wrong, try: pip install %s==%s",
            *(distribution, found, how, tested, distribution, tested.newest),
        )
