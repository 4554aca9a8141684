"""Whether Trio runs here. Doors ask: further in Trio's own error would come, which names neither us nor a way out."""

import trio

from agentrail.errors import NoTrioRun


def need_trio() -> None:
    """Refuse a call that is made where it could never wait.

    Raises:
        NoTrioRun: Your move: there is no Trio task here; the message names the ways to have one, and to do without.
    """
    if not trio.lowlevel.in_trio_task():
        raise NoTrioRun
