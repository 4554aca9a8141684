"""This end of the server of its own process: it is started, told what to do, and ended for sure."""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final

from benchmarks.explain import Explanation, Place
from benchmarks.idle import ROOT

_LAST_SECONDS: Final = 5.0


class BenchProcess:
    """A server that runs.

    Attributes:
        address: Where.
    """

    def __init__(self, process: "subprocess.Popen[str]", port: int) -> None:
        """It has said its port."""
        self.address = ("127.0.0.1", port)
        self._process = process
        self._number = 0
        self._told: dict[int, dict[str, Any]] = {}

    @property
    def pid(self) -> int:
        """Which process it is."""
        return self._process.pid

    def tell(self, do: str, **said: Any) -> int:
        """Tell it to do something, and do not wait for it; gives what `answer` is asked with."""
        self._number += 1
        assert self._process.stdin is not None  # noqa: S101 - it is a pipe
        self._process.stdin.write(json.dumps({"do": do, "number": self._number, **said}) + "\n")
        self._process.stdin.flush()
        return self._number

    def answer(self, number: int) -> dict[str, Any]:
        """Wait for what became of it.

        Raises:
            RuntimeError: Ours: the server is gone; why stands on standard error.
        """
        assert self._process.stdout is not None  # noqa: S101 - it is a pipe
        while number not in self._told:
            line = self._process.stdout.readline()
            if not line:
                message = "the server of the benchmark ended before it answered: see above"
                raise RuntimeError(message)
            told = json.loads(line)
            self._told[told["number"]] = told
        return self._told.pop(number)

    def ask(self, do: str, **said: Any) -> dict[str, Any]:
        """Tell it to do something, and wait."""
        return self.answer(self.tell(do, **said))

    def looked(self) -> Explanation:
        """Give where the time went since it was told to `look`."""
        found = self.ask("looked")
        return Explanation(places=[Place(**place) for place in found["places"]], collector=found["collector"])

    def wait(self) -> None:
        """Wait until it has ended by itself."""
        self._process.wait(_LAST_SECONDS)


@contextmanager
def serve_bench(*arguments: str) -> Iterator[BenchProcess]:
    """Run the server in a process; it is gone behind the block, however that is left."""
    command = [sys.executable, "-m", "benchmarks.gateway.server", *arguments]
    with subprocess.Popen(  # noqa: S603 - ourselves
        command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None  # noqa: S101 - it is a pipe
            yield BenchProcess(process, int(process.stdout.readline()))
        finally:
            assert process.stdin is not None  # noqa: S101 - as well
            with suppress(OSError):  # it may be gone
                process.stdin.close()
            try:
                process.wait(_LAST_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
