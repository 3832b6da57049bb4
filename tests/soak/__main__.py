"""``make soak``: as long as asked for, with a line a minute; exit code 1 if memory grew."""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

from tests.soak.run import growth, minutes, soak

MIB = 2**20


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    args = parser.parse_args()
    print(f"seed {args.seed}, {args.minutes:g} minutes")
    print(
        f"{'operations':>12}{'tokens':>12}{'resident':>12}{'MLX':>12}{'caches':>12}{'other':>12}   MiB"
    )
    samples, said = [], 0.0
    with tempfile.TemporaryDirectory() as folder:
        for sample in soak(Path(folder), minutes(args.minutes), 1000, args.seed):
            samples.append(sample)
            if time.monotonic() - said > 60:
                said = time.monotonic()
                sizes = (sample.resident, sample.active, sample.held, sample.unaccounted)
                shown = "".join(f"{size / MIB:12.2f}" for size in sizes)
                print(f"{sample.operations:12}{sample.tokens:12}{shown}", flush=True)
    resident = growth([sample.resident for sample in samples]) / MIB
    other = growth([sample.unaccounted for sample in samples]) / MIB
    print(
        f"from the second quarter to the last: resident {resident:+.2f} MiB, other {other:+.2f} MiB"
    )
    return int(resident > 32 or other > 0.25)


if __name__ == "__main__":
    sys.exit(main())
