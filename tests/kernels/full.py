"""Every width, head dimension, dtype and mask of the fused decode, on the emulator.

python -m tests.kernels.full [processes]      (``make kernels-full``)

Writes report.json beside this file: what was run, on which text, and the largest errors.
"""

from __future__ import annotations

import hashlib
import json
import random
import sys
from collections import defaultdict
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import mlx.core as mx

from tests.kernels import emulated
from tqcore.testing.msl.toolchain import toolchain
from tqmetal import kernels
from tqmetal.checks import Variant, covering, decode_error, everything, special

REPORT = Path(__file__).with_name("report.json")
CLOSE = 1e-4


def text_id() -> str:
    """Return a digest of the kernel's text."""
    text = kernels.header("metal") + kernels.read("decode.metal") + kernels.read("merge.metal")
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def run(variant: Variant) -> tuple[str, str, float, str]:
    """Return name, mask, error and what the emulator found wrong."""
    try:
        return variant.name, variant.mask, decode_error(variant, emulated.launches()), ""
    except Exception as fault:
        return variant.name, variant.mask, float("inf"), str(fault)


def main() -> None:
    """Run them all, two at a time unless told otherwise; what is done is reported as it goes."""
    processes = int(sys.argv[1]) if len(sys.argv) > 1 else 2
    variants = [*special(), *covering(), *everything()]
    random.Random(0).shuffle(variants)
    largest: dict[str, float] = defaultdict(float)
    wrong: list[dict[str, Any]] = []
    with ProcessPoolExecutor(processes) as pool:
        for i, (name, mask, error, fault) in enumerate(pool.map(run, variants)):
            largest[mask] = max(largest[mask], error)
            if not error <= CLOSE:
                wrong.append({"variant": name, "error": error, "fault": fault})
            print(f"{i + 1}/{len(variants)} {name} {error:.1e} {fault}", flush=True)
            report = {
                "text": text_id(),
                "mlx": mx.__version__,
                "compiler": toolchain().version.splitlines()[0],
                "variants": len(variants),
                "run": i + 1,
                "tolerance": CLOSE,
                "largest error by mask": dict(sorted(largest.items())),
                "wrong": wrong,
            }
            REPORT.write_text(json.dumps(report, indent=2) + "\n")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
