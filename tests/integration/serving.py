"""A real server as a process of its own, asked over its socket and stopped by its own group."""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

# one thread for numpy's products: on a busy machine two of them wait for each other
ENVIRONMENT = {"HF_HUB_OFFLINE": "1", "OPENBLAS_NUM_THREADS": "1"}
PROGRAM = Path(__file__).with_name("fast_tqcore.py")


class Server:
    """``tqcore COMMAND`` on a free port of this machine alone.

    Args:
        command: ``server`` or ``lm-server``.
        model: its directory.
        log: where its output goes.
        arguments: further flags.
        environment: further variables.
        launcher: a command line that runs the server's, on several ranks.
    """

    def __init__(
        self,
        command: str,
        model: Path,
        log: Path,
        *arguments: str,
        environment: dict[str, str] | None = None,
        launcher: Sequence[str] = (),
    ) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.model, self.log = str(model), log
        line = ["--model", self.model, "--host", "127.0.0.1", "--port", str(self.port)]
        self._output = log.open("w")
        self._process = subprocess.Popen(
            [*launcher, sys.executable, str(PROGRAM), command, *line, *arguments],
            stdin=subprocess.PIPE,
            stdout=self._output,
            stderr=subprocess.STDOUT,
            env={**os.environ, **ENVIRONMENT, **(environment or {})},
            start_new_session=True,  # so that one signal reaches every rank
        )

    def __enter__(self) -> Server:
        try:
            self._wait()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGINT)
            try:
                self._process.wait(20)
            except subprocess.TimeoutExpired:
                os.killpg(self._process.pid, signal.SIGKILL)
                self._process.wait(20)
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._output.close()

    def _wait(self) -> None:
        end = time.monotonic() + 120
        while time.monotonic() < end:
            if self._process.poll() is not None:
                raise RuntimeError(f"the server ended: {self.text()[-3000:]}")
            try:
                self.ask("/health", timeout=2)
                return
            except (OSError, http.client.HTTPException):
                time.sleep(0.2)
        raise RuntimeError(f"the server is not ready: {self.text()[-3000:]}")

    def text(self) -> str:
        """Return what the server printed so far."""
        return self.log.read_text()

    def notices(self) -> list[str]:
        """Return our lines of it."""
        return [line for line in self.text().splitlines() if line.startswith("tqcore:")]

    def rss(self) -> int:
        """Return the resident memory of the server's process in bytes."""
        fields = Path(f"/proc/{self._process.pid}/statm").read_text().split()
        return int(fields[1]) * os.sysconf("SC_PAGE_SIZE")

    def ask(
        self, path: str, body: Any = None, method: str | None = None, timeout: int = 120
    ) -> Any:
        """Send a request and return the answer's JSON."""
        with self._open(path, body, method, timeout) as answer:
            return json.loads(answer.read())

    def chat(self, text: Any, tokens: int = 6, **settings: Any) -> Any:
        """Return the choice that answers one user message, greedily."""
        return self.ask("/v1/chat/completions", self._body(text, tokens, settings))["choices"][0]

    def say(self, text: Any, tokens: int = 6, **settings: Any) -> str:
        """Return the text of ``chat``."""
        return str(self.chat(text, tokens, **settings)["message"]["content"])

    def stream(self, text: str, tokens: int = 6) -> list[str]:
        """Return the pieces of a streamed answer."""
        body = self._body(text, tokens, {"stream": True})
        with self._open("/v1/chat/completions", body, None, 120) as answer:
            return list(_pieces(answer))

    def at_once(
        self, clients: Sequence[Sequence[str]], tokens: int = 6, **settings: Any
    ) -> list[list[Any]]:
        """Return the choices that answer each client's messages, all clients at the same time."""
        answers: list[list[Any]] = [[] for _ in clients]
        errors: list[BaseException] = []

        def one(index: int) -> None:
            try:
                answers[index] += [self.chat(text, tokens, **settings) for text in clients[index]]
            except BaseException as error:
                errors.append(error)

        threads = [threading.Thread(target=one, args=(i,)) for i in range(len(clients))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if errors:
            raise errors[0]
        return answers

    def _body(self, text: Any, tokens: int, settings: dict[str, Any]) -> dict[str, Any]:
        messages = [{"role": "user", "content": text}]
        return {
            "model": self.model,
            "messages": messages,
            "max_tokens": tokens,
            "temperature": 0,
            **settings,
        }

    def _open(self, path: str, body: Any, method: str | None, timeout: int) -> Any:
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.port}{path}",
            data=None if body is None else json.dumps(body).encode(),
            headers={"Content-Type": "application/json"},
            method=method,
        )
        return urllib.request.urlopen(request, timeout=timeout)


def _pieces(answer: Any) -> Iterator[str]:
    for raw in answer:
        line = raw.decode().strip()
        if line.startswith("data:") and "[DONE]" not in line:
            choices = json.loads(line[5:]).get("choices") or [{}]
            piece = choices[0].get("delta", {}).get("content")
            if piece:
                yield piece
