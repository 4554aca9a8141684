"""Whether commands can be confined here, determined by a trial."""

import errno
import os
import re
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Final, Literal

import trio
from attrs import evolve, field, frozen

from agentrail.sandboxes.bubblewrap import (
    BIND_OPENED,
    CALL_FILTER,
    OPTIONAL,
    Confining,
    decide_basis,
    find_filter,
)
from agentrail.sandboxes.command_process import NotBegun, Program, try_program
from agentrail.sandboxes.fallback import ShellFallback

PROBE_SECONDS: Final = 10.0
MAX_TRIALS: Final = 3
_FIRST_PAUSE_SECONDS: Final = 0.05

_MISSING: Final = frozenset({errno.ENOENT, errno.ENOTDIR})
_FORBIDDEN: Final = frozenset({errno.EACCES, errno.EPERM, errno.ENOEXEC})
# Messages of bubblewrap and the C library, in English: bubblewrap is started without any variable.
_SAYS_FORBIDDEN: Final = re.compile(
    "No permissions|Operation not permitted|Permission denied|does not support user namespaces"
    "|Function not implemented|Invalid argument|Read-only file system|setuid"
)
_SAYS_UNKNOWN_OPTION: Final = re.compile(r"Unknown option (--[a-z-]+)")
_SAYS_NO_FILTER: Final = re.compile("seccomp", re.IGNORECASE)
_SAYS_NO_LIMIT: Final = re.compile(
    "max_user_namespaces|unshare user ns|user namespaces was not disabled|--disable-userns"
)
_MAX_NAMESPACES: Final = Path("/proc/sys/user/max_user_namespaces")
_SAYS_TOO_MANY_NAMESPACES: Final = "ENOSPC"


@frozen(kw_only=True)
class Confinement:
    """How commands run.

    Attributes:
        why: Why bubblewrap is not used. Empty if it is.
    """

    mode: Literal["bubblewrap", "unconfined", "refused", "failed"]
    why: str = ""
    lacks: frozenset[str] = field(default=frozenset())


@frozen(kw_only=True)
class Trial:
    """The outcome of a trial of bubblewrap.

    Attributes:
        why: Why it does not work. None if it does.
    """

    why: str | None
    is_for_good: bool = True
    lacks: frozenset[str] = field(default=frozenset())


async def probe(fallback: ShellFallback, program: str | None) -> Confinement:
    """Determine how commands can run here, by a trial: many systems have bubblewrap and forbid the features it needs.

    The fallback applies only if bubblewrap is missing or forbidden. A temporary shortage of resources must not make all later
    commands run unconfined: the trial is repeated, and then results in an error.

    Cancellation: The trial is killed.
    """
    tried = await _try_bubblewrap(program)
    pause = _FIRST_PAUSE_SECONDS
    for _ in range(MAX_TRIALS - 1):
        if tried.why is None or tried.is_for_good:
            break
        await trio.sleep(pause)
        pause *= 2
        tried = await _try_bubblewrap(program)
    if tried.why is None:
        return Confinement(mode="bubblewrap", lacks=tried.lacks)
    if tried.is_for_good:
        return fall_back(fallback, tried.why)
    return Confinement(mode="failed", why=tried.why)


def fall_back(fallback: ShellFallback, why: str) -> Confinement:
    """Decide how commands run without bubblewrap."""
    return Confinement(mode="unconfined" if fallback == "unconfined" else "refused", why=why)


async def _try_bubblewrap(program: str | None) -> Trial:
    """Try bubblewrap with all its options. Then drop unsupported ones, one after the other."""
    if sys.platform != "linux":
        return Trial(why=f"it does not exist for {sys.platform}")
    if program is None:
        return Trial(why="it is not installed")
    lacks = frozenset() if find_filter("none", frozenset()) else frozenset({CALL_FILTER})
    while True:
        tried = await _try_with(program, lacks)
        missing = _find_missing(tried.why or "") & frozenset(OPTIONAL) - lacks
        if tried.why is None or not missing:
            return evolve(tried, lacks=lacks)
        lacks |= missing


async def _try_with(program: str, lacks: frozenset[str]) -> Trial:
    options = decide_basis("none", lacks, shared_memory_bytes=1 << 20)
    descriptors: tuple[int, ...] = ()
    with ExitStack() as opened:
        if BIND_OPENED not in lacks:
            try:
                descriptors = (os.open("/dev", os.O_PATH | os.O_CLOEXEC),)
            except OSError as error:
                return Trial(why=f"it cannot be started: {error.strerror}", is_for_good=False)
            opened.callback(os.close, *descriptors)
            options += (BIND_OPENED, str(*descriptors), "/dev/shm")  # noqa: S108 - any existing directory
        call_filter = find_filter("none", lacks)
        return await _try_confining(
            Confining(program=program, options=options, call_filter=call_filter, descriptors=descriptors)
        )


async def _try_confining(confining: Confining) -> Trial:
    tried = Program(
        argv=("/bin/sh", "-c", ":"),
        confine=confining,
        directory="/",
        environment={},
        prepare_seconds=PROBE_SECONDS,
    )
    try:
        with trio.move_on_after(PROBE_SECONDS):
            return decide_trial(*await try_program(tried))
    except NotBegun as why:
        if why.code is not None:
            return decide_trial(why.code, why.said)
    except OSError as error:
        known = _MISSING | _FORBIDDEN
        return Trial(why=f"it cannot be started: {error.strerror}", is_for_good=error.errno in known)
    return Trial(why=f"it did not start within {PROBE_SECONDS:g} s", is_for_good=False)


def decide_trial(code: int, said: str) -> Trial:
    """Judge by the outcome of a trial whether it would always end so."""
    if code == 0:
        return Trial(why=None)
    why = (said.strip().splitlines() or [f"it exits with {code}"])[-1]
    is_for_good = code > 0 and _SAYS_FORBIDDEN.search(said) is not None
    # No namespaces at all, or no more at the moment.
    if _SAYS_TOO_MANY_NAMESPACES in said:
        is_for_good = _may_make_none()
    return Trial(why=why, is_for_good=is_for_good)


def _may_make_none() -> bool:
    try:
        return int(_MAX_NAMESPACES.read_text()) == 0
    except (OSError, ValueError):
        return False


def _find_missing(said: str) -> frozenset[str]:
    unknown = _SAYS_UNKNOWN_OPTION.search(said)
    if unknown is not None:
        return frozenset({unknown[1]})
    if _SAYS_NO_FILTER.search(said):
        return frozenset({CALL_FILTER})
    return frozenset({"--disable-userns"}) if _SAYS_NO_LIMIT.search(said) else frozenset()
