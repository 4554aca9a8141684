"""Whether a host can do its work: all checks at once, each in its own time and under its own name.

A caller is told that a check failed, and not with what: that is in the log.
"""

from collections.abc import Mapping
from typing import Final, Literal

import trio
from attrs import frozen

from agentrail.host.options import ReadinessCheck
from agentrail.logs import Logger
from agentrail.otp.leaving import describe_bug
from agentrail.runtime.crashes import raise_what_travels

LOGGER: Final = Logger("agentrail.host")


@frozen(kw_only=True)
class CheckResult:
    """What came of one check.

    Attributes:
        name: Which one.
        error: `failed` or `timeout`; None where it is ready.
        duration_ms: How long it took.
    """

    name: str
    error: Literal["failed", "timeout"] | None
    duration_ms: int

    @property
    def is_ready(self) -> bool:
        """Whether it passed."""
        return self.error is None


async def run_checks(checks: Mapping[str, ReadinessCheck], within: float) -> tuple[CheckResult, ...]:
    """Run checks side by side.

    Args:
        checks: By name.
        within: How many seconds each may take.

    Returns:
        One for each, in their order. What a check raises fails that one alone.

    Cancellation: Cancels the checks.
    """
    results: dict[str, CheckResult] = {}

    async def run_one(name: str, check: ReadinessCheck) -> None:
        began = trio.current_time()
        error: Literal["failed", "timeout"] | None = None
        with trio.CancelScope(deadline=began + within) as scope:
            try:
                await check()
            except BaseException as raised:  # noqa: ASYNC103, BLE001 - what travels is raised
                raise_what_travels(raised)
                LOGGER.warning("readiness check %s failed: %s", name, describe_bug(raised))
                error = "failed"
        if scope.cancelled_caught:
            LOGGER.warning("readiness check %s took longer than %g s", name, within)
            error = "timeout"
        results[name] = CheckResult(
            name=name, error=error, duration_ms=int((trio.current_time() - began) * 1000)
        )

    async with trio.open_nursery() as nursery:
        for name, check in checks.items():
            nursery.start_soon(run_one, name, check)
    return tuple(results[name] for name in checks)
