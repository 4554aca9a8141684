"""Runs programs that we did not write against a served host: what they print, and how they ended."""

import os
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import trio
from attrs import frozen

from tests.gateway.web import Web

HERE = Path(__file__).parent / "foreign"
"""Where the scripts for them stand."""


@frozen
class Ran:
    """How a program ended: its exit status, all that it printed, and all that it complained of."""

    status: int
    out: str
    err: str


def base_of(web: Web) -> str:
    host, port = web.address
    return f"http://{host}:{port}"


async def run_program(argv: Sequence[str | Path], *, seconds: float, **env: str) -> Ran:
    """Run a program to its end; one that takes longer is killed, and its test fails."""
    with trio.fail_after(seconds):
        run = partial(trio.run_process, capture_stdout=True, capture_stderr=True, check=False)
        done = await run(
            [os.fspath(one) for one in argv], env={**os.environ, "NO_PROXY": "*", "no_proxy": "*", **env}
        )
    return Ran(done.returncode, done.stdout.decode(), done.stderr.decode())
