"""Many clients on a server for minutes, dense and quantized: requests, tokens a second, memory.

    python benchmarks/server_soak.py --minutes 10 --clients 16
    python benchmarks/server_soak.py --modes dense "turboquant" "uniform@8" --command lm-server

Every client asks one question after the other, short ones and long ones in turn, and an answer
that differs from the first one to the same question is counted: batches of other shapes round
differently, so a few are expected, dense ones too. An error ends the run.
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

STORY = "The ferry left the harbour at dawn, and the fishermen waved from the pier. "
QUESTIONS = [
    "Name three colours.",
    STORY * 8 + "When did the ferry leave?",
    "Write one sentence about the sea.",
    STORY * 3 + "Who waved?",
    "What is 2+2?",
    STORY * 16 + "Repeat the first word of the story.",
]


class Figures:
    """What one mode came to."""

    def __init__(self) -> None:
        self.requests = self.tokens = self.different = 0
        self.first: dict[str, str] = {}
        self.errors: list[str] = []
        self.lock = threading.Lock()

    def add(self, question: str, answer: dict[str, Any]) -> None:
        """Count one answer."""
        text = str(answer["choices"][0]["message"]["content"])
        usage = answer["usage"]
        with self.lock:
            self.requests += 1
            self.tokens += int(usage.get("completion_tokens", usage.get("output_tokens", 0)))
            self.different += self.first.setdefault(question, text) != text


@contextlib.contextmanager
def serving(args: argparse.Namespace, mode: str) -> Iterator[tuple[str, int, Path]]:
    """Run the server on a free port of this machine alone; yield its address, pid and log."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    scheme, _, bits = mode.partition("@")
    flags = [] if mode == "dense" else ["--kv-quant-scheme", scheme]
    flags += ["--kv-bits", bits] if bits else []
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


def client(address: str, model: str, args: Any, index: int, end: float, out: Figures) -> None:
    """Ask until the time is up."""
    turn = index
    try:
        while time.monotonic() < end and not out.errors:
            question = QUESTIONS[turn % len(QUESTIONS)]
            turn += 1
            body = {
                "model": model,
                "messages": [{"role": "user", "content": question}],
                "max_tokens": args.tokens,
                "temperature": 0,
            }
            request = urllib.request.Request(
                f"{address}/v1/chat/completions",
                data=json.dumps(body).encode(),
                headers={"Content-Type": "application/json"},
            )
            with urllib.request.urlopen(request, timeout=600) as answer:
                out.add(question, json.loads(answer.read()))
    except Exception as error:
        out.errors.append(f"client {index}: {error!r}")


def memory(pid: int) -> float:
    """Return the resident memory of a process in MiB."""
    shown = subprocess.run(["ps", "-o", "rss=", "-p", str(pid)], capture_output=True, text=True)
    return int(shown.stdout.strip() or 0) / 1024


def soak(args: argparse.Namespace, mode: str) -> None:
    """Run one mode and print its line."""
    out = Figures()
    with serving(args, mode) as (address, pid, log):
        idle, begin = memory(pid), time.monotonic()
        end = begin + 60 * args.minutes
        threads = [
            threading.Thread(target=client, args=(address, args.model, args, i, end, out))
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
    print(
        f"{mode:<16} {out.requests:>5} requests {out.tokens / seconds:>7.2f} tokens/s  "
        f"{out.different:>3} answers unlike the first  "
        f"MiB: idle {idle:.0f}, peak {max(half):.0f} then {max(last):.0f}"
    )
    print("\n".join(notices + out.errors), flush=True)
    if out.errors:
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
