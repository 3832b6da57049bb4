"""What components give in a new interpreter, which hashes strings otherwise."""

from __future__ import annotations

import functools
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from hashlib import sha256
from typing import Any

import numpy as np
from attrs import asdict

from tqcore.registry import registry
from tqcore.spec import Component
from tqcore.testing.checks._exercise import input_of, outputs
from tqcore.testing.checks._subject import first_of
from tqcore.testing.verdict import NotApplicable


def digest(arrays: Sequence[tuple[str, Any]]) -> str:
    """Return a digest of named arrays."""
    whole = sha256()
    for name, array in arrays:
        whole.update(f"{name} {array.dtype} {array.shape}".encode())
        whole.update(np.ascontiguousarray(array).tobytes())
    return whole.hexdigest()[:16]


def digests_elsewhere(component: Component) -> str:
    """Return the digest of a component's outputs in another process, or what it raised there.

    One process serves all the components of a package: starting one costs a second.

    Raises:
        NotApplicable: the component exists in this process alone.
    """
    module = component.target.partition(":")[0]
    if getattr(sys.modules.get(module), "__spec__", None) is None:  # made by hand, not imported
        raise NotApplicable(f"module {module} exists in this process alone")
    return _ran(_companions(component))[_key(component)]


def _key(component: Component) -> str:
    """Return what identifies a component."""
    return f"{component.kind} {component.name} {component.backend} {component.target}"


def _companions(component: Component) -> tuple[Component, ...]:
    known = dict(registry().components())
    if component not in known:
        return (component,)
    package = known[component]
    return tuple(
        each
        for each, of in known.items()
        if of == package and each.kind != "score_kernel" and each.backend == component.backend
    )


@functools.cache
def _ran(components: tuple[Component, ...]) -> dict[str, str]:
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
        "PYTHONHASHSEED": "271828",
    }
    done = subprocess.run(
        [sys.executable, "-m", "tqcore.testing.checks._elsewhere"],
        input=json.dumps([asdict(each) for each in components]),
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        return {_key(each): done.stderr.strip()[-300:] for each in components}
    digests: dict[str, str] = json.loads(done.stdout.splitlines()[-1])
    return digests


def main() -> None:
    """Read descriptions from stdin, write their digests to stdout."""
    digests = {}
    for data in json.load(sys.stdin):
        component = Component(**data)
        try:
            arguments, part = first_of(component)
            came = digest(outputs(component, part, input_of(component, arguments, seed=8)))
        except Exception as error:  # of one component; the others are asked too
            came = f"{type(error).__name__}: {error}"
        digests[_key(component)] = came
    print(json.dumps(digests))


if __name__ == "__main__":
    main()
