"""Readiness of a host: all checks at once, each with its own time limit. Messages of failures are only in the log."""

from collections.abc import Callable, Mapping
from typing import Final, Literal, TypeAlias

import trio
from attrs import define, field, frozen

from agentrail.errors import AgentrailError, HostDraining
from agentrail.host.host_options import ReadinessCheck
from agentrail.logs import Logger
from agentrail.otp.crash_text import describe_bug
from agentrail.runtime.crashes import raise_what_travels

LOGGER: Final = Logger("agentrail.host")

_GRACE_SECONDS: Final = 0.25
"""Grace period of a check after its time limit, in seconds."""

_CLOSED: Final = "this host is closed: it is not ready"

_CheckError: TypeAlias = Literal["failed", "timeout"]


@frozen(kw_only=True)
class CheckResult:
    """Result of one check.

    Attributes:
        name: Name of the check.
        error: `failed` or `timeout`. None if it is ready.
        duration_ms: Duration in milliseconds.
        reason: Code of the error, such as `store_unavailable` or `draining`, or of what an operator should know although it passed. Empty without one.
    """

    name: str
    error: _CheckError | None
    duration_ms: int
    reason: str = ""

    @property
    def is_ready(self) -> bool:
        """Whether it passed."""
        return self.error is None


@frozen
class Remark:
    """Returned by a check that passes, with a code for the operator."""

    reason: str


@define(eq=False)
class _CheckRun:
    """One run of all checks, shared by its callers."""

    began: float
    names: tuple[str, ...]
    missing: dict[str, None]
    results: dict[str, CheckResult] = field(factory=dict)
    ended: trio.Event = field(factory=trio.Event)

    def note(self, name: str, error: _CheckError | None, reason: str = "") -> None:
        if name in self.missing:
            del self.missing[name]
            took = int((trio.current_time() - self.began) * 1000)
            self.results[name] = CheckResult(name=name, error=error, duration_ms=took, reason=reason)
        if not self.missing:
            self.ended.set()


@define(eq=False)
class Readiness:
    """Runs the checks of a host, one run at a time."""

    _checks: Callable[[], Mapping[str, ReadinessCheck]]
    _within: float
    _nursery: trio.Nursery
    _check_run: _CheckRun | None = field(init=False, default=None)
    _stuck: set[str] = field(init=False, factory=set)
    _is_closed: bool = field(init=False, default=False)

    def close(self) -> None:
        """Stop running checks. Waiting callers get an error."""
        self._is_closed = True
        if self._check_run is not None:
            self._check_run.ended.set()

    async def look(self) -> tuple[CheckResult, ...]:
        check_run = self._check_run
        if check_run is None or check_run.ended.is_set():
            if self._is_closed:
                raise HostDraining(_CLOSED)
            checks = self._checks()
            check_run = self._check_run = _CheckRun(trio.current_time(), tuple(checks), dict.fromkeys(checks))
            self._nursery.start_soon(self._run, check_run, checks, name="readiness")
        await check_run.ended.wait()
        if check_run.missing:
            raise HostDraining(_CLOSED)
        return tuple([check_run.results[name] for name in check_run.names])

    async def _run(self, check_run: _CheckRun, checks: Mapping[str, ReadinessCheck]) -> None:
        for name, check in checks.items():
            if name in self._stuck:
                check_run.note(name, "timeout")
            else:
                self._nursery.start_soon(self._run_one, check_run, name, check, name=f"readiness of {name}")
        try:
            with trio.move_on_after(self._within + _GRACE_SECONDS):
                await check_run.ended.wait()
        except trio.Cancelled:  # however the host ends, no caller waits indefinitely
            self.close()
            raise
        if self._is_closed:
            return
        for name in tuple(check_run.missing):
            LOGGER.warning(
                "readiness check %s took longer than %g s and is still running", name, self._within
            )
            self._stuck.add(name)
            check_run.note(name, "timeout")

    async def _run_one(self, check_run: _CheckRun, name: str, check: ReadinessCheck) -> None:
        error: _CheckError | None = None
        reason = ""
        with trio.CancelScope(deadline=check_run.began + self._within) as scope:
            try:
                answer = await check()
                reason = answer.reason if isinstance(answer, Remark) else ""
            except BaseException as raised:  # noqa: ASYNC103, BLE001 - what travels is raised
                raise_what_travels(raised)
                LOGGER.warning("readiness check %s failed: %s", name, describe_bug(raised))
                error = "failed"
                reason = raised.code if isinstance(raised, AgentrailError) else ""
        if scope.cancelled_caught:
            LOGGER.warning("readiness check %s took longer than %g s", name, self._within)
            error, reason = "timeout", ""
        self._stuck.discard(name)
        check_run.note(name, error, reason)
