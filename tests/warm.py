"""An interpreter that has imported what some tests need in a process of their own, and forks for each of them.

A run is a process of its own all the same, with its own descriptors, directory, environment and end: only the half second in
which a fresh interpreter imports the same modules for the hundredth time is left out. `forked.run_forked` talks to it.
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


def main(descriptor: int, *, imports: Sequence[str], frozen: bool) -> None:
    """Serve one run after the other until nobody asks any more; in a forked child, be the module that was asked for."""
    asked = socket.socket(fileno=descriptor)
    for name in imports:
        import_module(name)
    if frozen:  # what is here already is nobody's garbage, and no run need look at it
        gc.freeze()
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
    """Run the module, as `python -m` does."""
    for number, one in enumerate(descriptors):
        os.dup2(one, number)
        os.close(one)
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["environment"])
    sys.argv[1:] = request["arguments"]
    sys.path[0] = request["cwd"]
    runpy.run_module(request["module"], run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main(int(sys.argv[1]), frozen=sys.argv[2] == "frozen", imports=sys.argv[3:])
