"""Whether Trio runs here. Doors ask: further in Trio's own error would come, which names neither us nor a way out."""

import trio

from agentrail.errors import NoTrioRun


def need_trio() -> None:
    """Refuse a call that is made where it could never wait."""
    if not trio.lowlevel.in_trio_task():
        raise NoTrioRun
