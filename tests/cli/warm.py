"""An interpreter in which the command is imported already, and which forks for each run of it.

A run is a process of its own all the same, with its own descriptors, directory, environment and end: only the half second in
which a fresh interpreter imports the same modules for the hundredth time is left out. `rig.run_agentrail` talks to it.
"""

import gc
import json
import os
import runpy
import socket
import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any, Final

MAX_REQUEST_BYTES: Final = 65_536
COMMANDS: Final = ("app", "cli.commands", "cli.run", "cli.doctor", "cli.plugins", "cli.check_plugins")


def main(descriptor: int) -> None:
    """Serve one run after the other until nobody asks any more; in a forked child, be the command."""
    asked = socket.socket(fileno=descriptor)
    for name in (*(f"agentrail.{command}" for command in COMMANDS), "agentrail.testing.stacks"):
        import_module(name)
    gc.freeze()  # what is here already is nobody's garbage, and no run need look at it
    while True:
        request, descriptors, _, _ = socket.recv_fds(asked, MAX_REQUEST_BYTES, 3)
        if not request:
            return
        pid = os.fork()
        if not pid:
            asked.close()
            _become(json.loads(request), descriptors)
            return
        for one in descriptors:
            os.close(one)
        asked.send(str(pid).encode())
        _, status = os.waitpid(pid, 0)
        asked.send(str(os.waitstatus_to_exitcode(status)).encode())


def _become(request: Mapping[str, Any], descriptors: Sequence[int]) -> None:
    """Run the command, as `python -m agentrail` does; it leaves by SystemExit."""
    for number, one in enumerate(descriptors):
        os.dup2(one, number)
        os.close(one)
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["environment"])
    sys.argv[1:] = request["arguments"]
    sys.path[0] = request["cwd"]
    runpy.run_module("agentrail", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main(int(sys.argv[1]))
