"""Check that Trio is running. Entry points call it, because Trio's own later error would name neither us nor a solution."""

import trio

from agentrail.errors import NoTrioRun


def need_trio() -> None:
    if not trio.lowlevel.in_trio_task():
        raise NoTrioRun
