"""Many clients on a server for minutes, dense and quantized: requests, latency, memory, answers.

    python benchmarks/server_soak.py --minutes 10 --clients 16
    python benchmarks/server_soak.py --modes dense "turboquant" "uniform@8" --command lm-server

Every client asks one question after the other, short ones and long ones in turn. Before that,
each question is asked once alone, and the answers are held against those by the server's own
log-probabilities: batches of other shapes round differently, so that a few fork where two tokens
are nearly as likely, dense ones too. An answer with more than 0.05 nats of KL to the one alone, or
a fork that is no near tie, is counted as wrong; with that, or an error, the run fails.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from tqcore.testing.answers import LOGPROBS, TOP, Agreement, compare

STORY = "The ferry left the harbour at dawn, and the fishermen waved from the pier. "
QUESTIONS = [
    "Name three colours.",
    STORY * 8 + "When did the ferry leave?",
    "Write one sentence about the sea.",
    STORY * 3 + "Who waved?",
    "What is 2+2?",
    STORY * 16 + "Repeat the first word of the story.",
]


KL, NEAR_TIE = 0.05, 1.0
"""Nats: beyond these an answer is wrong. One answer has few tokens, and one token may move."""


class Figures:
    """What one mode came to."""

    def __init__(self) -> None:
        self.tokens = 0
        self.alone: dict[str, Any] = {}
        self.agreements: list[Agreement] = []
        self.seconds: list[float] = []
        self.server_peak = 0.0
        self.errors: list[str] = []
        self.lock = threading.Lock()

    def add(self, question: str, answer: dict[str, Any], seconds: float) -> None:
        """Count one answer."""
        agreement = compare(self.alone[question], answer["choices"][0])
        with self.lock:
            self.seconds.append(seconds)
            self.agreements.append(agreement)
            self.tokens += int(answer["usage"]["completion_tokens"])
            # mlx-vlm's server tells its allocator's peak, mlx-lm's does not
            peak = answer.get("timings", {}).get("peak_memory") or 0.0
            self.server_peak = max(self.server_peak, 1000 * peak)

    def wrong(self) -> int:
        """Return the answers that rounding does not explain."""
        return sum(a.kl > KL or a.gap > NEAR_TIE for a in self.agreements)

    def line(self, seconds: float) -> str:
        """Return the figures in words."""
        found = self.agreements
        middle, late = (np.quantile(self.seconds, at) for at in (0.5, 0.95))
        kl = [a.kl for a in found]
        peak = f"allocator peak {self.server_peak:.0f} MB, " if self.server_peak else ""
        return (
            f"{len(found)} requests, {len(self.errors)} failed, "
            f"{self.tokens / seconds:.2f} tokens/s, p50 {middle:.1f} s, p95 {late:.1f} s\n"
            f"    {peak}{sum(a.same for a in found)} answers as alone, {self.wrong()} wrong, "
            f"KL to them: mean {np.mean(kl):.1e}, worst {max(kl):.1e}, "
            f"widest fork {max(a.gap for a in found):.2f} nats"
        )


@contextlib.contextmanager
def serving(args: argparse.Namespace, mode: str) -> Iterator[tuple[str, int, Path]]:
    """Run the server on a free port of this machine alone; yield its address, pid and log."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    scheme, _, bits = mode.partition("@")
    flags = [] if mode == "dense" else ["--kv-quant-scheme", scheme]
    flags += ["--kv-bits", bits] if bits else []
    flags += ["--top-logprobs-k", str(TOP)] if args.command == "server" else []
    start = [args.launcher] if args.launcher else ["-m", "tqcore"]
    line = [*start, args.command, "--model", args.model, *flags]
    log = Path(tempfile.mkstemp(suffix=".log")[1])
    with log.open("w") as output:
        process = subprocess.Popen(
            [sys.executable, *line, "--host", "127.0.0.1", "--port", str(port)],
            stdout=output,
            stderr=subprocess.STDOUT,
        )
        address = f"http://127.0.0.1:{port}"
        try:
            wait(address, process, log)
            yield address, process.pid, log
        finally:
            process.send_signal(signal.SIGINT)
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()


def wait(address: str, process: subprocess.Popen[bytes], log: Path) -> None:
    """Return once the server answers."""
    for _ in range(600):
        if process.poll() is not None:
            raise SystemExit(f"the server ended:\n{log.read_text()[-3000:]}")
        with contextlib.suppress(OSError):
            urllib.request.urlopen(f"{address}/health", timeout=2).close()
            return
        time.sleep(0.2)
    raise SystemExit("the server is not ready after two minutes")


def client(address: str, args: argparse.Namespace, index: int, end: float, out: Figures) -> None:
    """Ask until the time is up."""
    turn = index
    try:
        while time.monotonic() < end and not out.errors:
            question = QUESTIONS[turn % len(QUESTIONS)]
            turn += 1
            begin = time.monotonic()
            answer = ask(address, args, question)
            out.add(question, answer, time.monotonic() - begin)
    except Exception as error:
        out.errors.append(f"client {index}: {error!r}")


def ask(address: str, args: argparse.Namespace, question: str) -> Any:
    """Return the server's answer."""
    body = {
        "model": args.model,
        "messages": [{"role": "user", "content": question}],
        "max_tokens": args.tokens,
        "temperature": 0,
        **LOGPROBS,
    }
    request = urllib.request.Request(
        f"{address}/v1/chat/completions",
        data=json.dumps(body).encode(),
        headers={"Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=600) as answer:
        return json.loads(answer.read())


def memory(pid: int) -> float:
    """Return the resident memory of a process in MiB."""
    shown = subprocess.run(["ps", "-o", "rss=", "-p", str(pid)], capture_output=True, text=True)
    return int(shown.stdout.strip() or 0) / 1024


def soak(args: argparse.Namespace, mode: str) -> None:
    """Run one mode and print its line."""
    out = Figures()
    with serving(args, mode) as (address, pid, log):
        out.alone = {text: ask(address, args, text)["choices"][0] for text in QUESTIONS}
        idle, begin = memory(pid), time.monotonic()
        end = begin + 60 * args.minutes
        threads = [
            threading.Thread(target=client, args=(address, args, i, end, out))
            for i in range(args.clients)
        ]
        for thread in threads:
            thread.start()
        sizes: list[tuple[float, float]] = []
        while any(thread.is_alive() for thread in threads):
            sizes.append((time.monotonic(), memory(pid)))
            time.sleep(1)
        seconds = time.monotonic() - begin
        half = [size for at, size in sizes if at < begin + seconds / 2]
        last = [size for at, size in sizes if at >= begin + seconds / 2]
        notices = [line for line in log.read_text().splitlines() if line.startswith("tqcore:")]
    resident = f"resident MiB: {idle:.0f} before, {max(half):.0f} then {max(last):.0f} at most"
    print(f"{mode}: {out.line(seconds)}\n    {resident}")
    print("\n".join(notices + out.errors), flush=True)
    if out.errors or out.wrong():
        raise SystemExit(log.read_text()[-3000:])


def main() -> None:
    """Run every mode in turn."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--model", help="default: the small model of `tqcore demo`")
    parser.add_argument("--command", default="server", choices=("server", "lm-server"))
    parser.add_argument("--modes", nargs="+", default=["dense", "turboquant@4"], metavar="MODE")
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--clients", type=int, default=16)
    parser.add_argument("--tokens", type=int, default=32)
    parser.add_argument("--launcher", help="a Python file to run in place of `-m tqcore`")
    args = parser.parse_args()
    if args.model is None:
        from tqcore.demo.smollm2 import ensure_model

        args.model = str(ensure_model())
    for mode in args.modes:
        soak(args, mode)


if __name__ == "__main__":
    main()
