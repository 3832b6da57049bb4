"""``make mutation``: change the codec core a little, many times over; the tests must notice.

The changes are made by cosmic-ray in a copy of the tree. What survives is listed with its
change; docs/mutation.md says why each known survivor may live.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.mutation.scope import LEFT_OUT, SCOPE

ROOT = Path(__file__).parents[2]
IGNORED = (".git", ".venv", "__pycache__", ".hypothesis", ".*_cache", "site", "dist", "build")


def config(module: str, tests: str, timeout: int) -> str:
    command = f"{sys.executable} -m pytest -x -q -p no:cacheprovider {tests}"
    left_out = json.dumps(list(LEFT_OUT))
    return f"""
[cosmic-ray]
module-path = {json.dumps(module)}
timeout = {timeout}.0
excluded-modules = []
test-command = {json.dumps(command)}

[cosmic-ray.distributor]
name = "local"

[cosmic-ray.filters.operators-filter]
exclude-operators = {left_out}
"""


def sample(session: Path, most: int, seed: int) -> None:
    """Leave at most so many mutations in a session."""
    with sqlite3.connect(session) as data:
        # by what they change: the ids are drawn anew each time
        order = "operator_name, operator_args, occurrence"
        done = "SELECT job_id FROM work_results"
        query = f"SELECT job_id FROM mutation_specs WHERE job_id NOT IN ({done}) ORDER BY {order}"
        jobs = [row[0] for row in data.execute(query)]
        drawn = set(random.Random(seed).sample(jobs, min(most, len(jobs))))
        for job in set(jobs) - drawn:
            data.execute("DELETE FROM mutation_specs WHERE job_id = ?", (job,))
            data.execute("DELETE FROM work_items WHERE job_id = ?", (job,))


def mutate(tree: Path, module: str, tests: str, args: argparse.Namespace) -> tuple[int, list[str]]:
    """Run one module; return how many mutations were tried, and the changes that survived."""
    settings, session = tree / "mutation.toml", tree / "mutation.sqlite"
    session.unlink(missing_ok=True)
    settings.write_text(config(module, tests, args.timeout))
    roots = [tree, tree / "plugins", tree / "metal_kernels"]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, roots)), "CI": "1"}

    def run(*command: str) -> str:
        done = subprocess.run(
            command, cwd=tree, env=env, capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise SystemExit(f"{command}: {done.stdout}{done.stderr}")
        return done.stdout

    run("cosmic-ray", "init", settings.name, session.name)
    run("cr-filter-operators", session.name, settings.name)
    sample(session, args.most, args.seed)
    run("cosmic-ray", "--verbosity", "ERROR", "baseline", settings.name)
    run("cosmic-ray", "exec", settings.name, session.name)
    tried, alive = 0, []
    for line in run("cosmic-ray", "dump", session.name).splitlines():
        _, result = json.loads(line)
        if not result or result["worker_outcome"] == "skipped":
            continue
        tried += 1
        if result["test_outcome"] == "survived":
            changed = [each for each in result["diff"].splitlines() if each[:1] in "+-"]
            alive.append("\n".join(each for each in changed if each[:3] not in ("+++", "---")))
    return tried, alive


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.mutation", description=__doc__)
    parser.add_argument(
        "modules", nargs="*", default=list(SCOPE), help="of the scope; all by default"
    )
    parser.add_argument(
        "--most", type=int, default=10**6, help="mutations a module, drawn at random"
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--timeout", type=int, default=120, help="seconds that the tests may take")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder, "tree")
        shutil.copytree(ROOT, tree, ignore=shutil.ignore_patterns(*IGNORED))
        for module in args.modules:
            tried, alive = mutate(tree, module, SCOPE[module], args)
            print(
                f"{module}: {tried} tried, {tried - len(alive)} noticed, {len(alive)} survived",
                flush=True,
            )
            for change in alive:
                print(f"{change}\n", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
