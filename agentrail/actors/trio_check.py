"""Check that Trio is running. Entry points call it, because Trio's own later error would name neither us nor a solution."""

import trio

from agentrail.errors import NoTrioRun
from agentrail.outside import current_run


def need_trio(own: trio.lowlevel.TrioToken | None = None) -> None:
    if not trio.lowlevel.in_trio_task():
        raise NoTrioRun
    if own is not None and current_run() is not own:
        message = "this object belongs to another Trio run: call it there, or share it between threads with agentrail.blocking"
        raise NoTrioRun(message)
