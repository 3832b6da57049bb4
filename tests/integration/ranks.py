"""Several processes of this machine as ranks, by MLX's own launcher over loopback."""

from __future__ import annotations

import json
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import mlx.core as mx
from attrs import frozen

RANK = Path(__file__).with_name("rank.py")
LAUNCHER = "from mlx._distributed_utils.launch import main; main()"
SECONDS = 180


@frozen
class Rank:
    """What one rank wrote.

    Args:
        arrays: ``logprobs`` ``[steps, vocabulary]``, and ``keys.<layer>``.
        tokens: those it generated.
        layers: number, kind, bytes and reason of each layer that it holds.
    """

    arrays: dict[str, mx.array]
    tokens: list[int]
    layers: list[list[Any]]


def launch(count: int, *command: str | Path, seconds: float = SECONDS) -> str:
    """Run ``python COMMAND`` as ``count`` ranks and return what they printed.

    Raises:
        RuntimeError: a rank failed, or they hang; with everything they printed.
    """
    line = [*launcher(count), sys.executable, *map(str, command)]
    with tempfile.TemporaryFile("w+") as output:
        process = subprocess.Popen(
            line,
            stdin=subprocess.PIPE,  # the launcher reads its input, and spins at the end of it
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # so that one signal reaches the ranks too
        )
        try:
            failed = f"code {code}" if (code := process.wait(seconds)) else ""
        except subprocess.TimeoutExpired:
            failed = f"no end after {seconds} s"
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
            assert process.stdin is not None
            process.stdin.close()
        output.seek(0)
        printed = output.read()
    # the launcher itself ends well when a rank does not, and says so
    if failed or "exited with code" in printed or "was killed" in printed:
        raise RuntimeError(f"{count} ranks of {command}: {failed}\n{printed[-4000:]}")
    return printed


def launcher(count: int) -> list[str]:
    """Return the command that runs another one as ``count`` ranks."""
    line = [sys.executable, "-c", LAUNCHER, "-n", str(count), "--backend", "ring"]
    return [*line, "-p", str(_free_ports(count)), "--"]


def run_ranks(count: int, model: Path, out: Path, *arguments: str) -> list[Rank]:
    """Run ``rank.py`` on ``count`` ranks and return what each of them wrote."""
    out.mkdir()
    launch(count, RANK, model, out, *arguments)
    return [_read(out / f"rank{rank}.safetensors") for rank in range(count)]


def _read(path: Path) -> Rank:
    arrays, about = mx.load(str(path), return_metadata=True)
    return Rank(arrays, json.loads(about["tokens"]), json.loads(about["layers"]))


def _free_ports(count: int) -> int:
    """Return the first of ``count`` consecutive ports that nobody listens on."""
    while True:
        first = random.randrange(20000, 30000)
        try:
            with ExitStack() as stack:
                for port in range(first, first + count):
                    taken = stack.enter_context(socket.socket())
                    taken.bind(("127.0.0.1", port))
            return first
        except OSError:
            continue
