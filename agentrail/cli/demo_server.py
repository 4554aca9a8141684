"""The application of `agentrail serve --demo`: three profiles on the demo model, and sessions that run from the start.

It plays users who send messages in the order of `SCRIPT`, the same in each run. Answers, approvals and aborts are left
to the viewer. `demo_profiles` defines the profiles, and `agentrail.providers.demo` the model's replies.
"""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Final

import trio
from attrs import frozen

from agentrail.actors import ChildSpec, worker
from agentrail.cli.demo_profiles import Audit, Bookkeeper, demo_profiles
from agentrail.errors import AgentrailError
from agentrail.gateway.access import ANYONE_HERE
from agentrail.host.host import Host
from agentrail.host.limits import Limits
from agentrail.host.payloads import ChatRequest
from agentrail.host.requests import HostRequest
from agentrail.messages import SessionId

if TYPE_CHECKING:
    from starlette.applications import Starlette

FIRST_FALL_SECONDS: Final = 5.0
"""Time until the background worker of a session first fails, in seconds, so that a viewer of the tree sees it soon."""

FALL_SECONDS: Final = 45.0
"""Time between later failures, in seconds. The tree shows a restart for a minute."""

DAY_BUDGET_USD: Final = 20.0
"""Daily cost limit of the demo, at pretended prices, so that the pages show a budget."""

MAX_REPEATS: Final = 100
"""How often a message is repeated, so that a demo left running overnight becomes idle."""


@frozen(kw_only=True)
class ScriptLine:
    """A scripted message of a user.

    Attributes:
        again_seconds: Delay between its end and the next repetition, or None to send it once.
        abort_seconds: Delay before its session is aborted, or None not to abort.
        feed: Name of a background worker that its session then runs and that fails at times, or None.
    """

    session_id: str
    agent_id: str
    message: str
    after_seconds: float = 0.0
    again_seconds: float | None = None
    abort_seconds: float | None = None
    feed: str | None = None


SCRIPT: Final[tuple[ScriptLine, ...]] = (
    ScriptLine(session_id="order-17", agent_id="support", message="Where is order 17?", feed="carrier-feed"),
    ScriptLine(session_id="order-23", agent_id="support", message="Where is order 23?"),
    ScriptLine(
        session_id="weekly-report", agent_id="reader", message="Write the weekly report.", again_seconds=5
    ),
    ScriptLine(
        session_id="nightly-checks", agent_id="coder", message="Run the nightly checks.", again_seconds=4
    ),
    ScriptLine(session_id="refund-4411", agent_id="support", message="Refund order 4411, it arrived broken."),
    ScriptLine(
        session_id="import-q3", agent_id="support", message="Import the addresses of the third quarter."
    ),
    ScriptLine(
        session_id="rounding", agent_id="coder", message="Totals are off by a cent: mend the rounding."
    ),
    ScriptLine(session_id="clean-build", agent_id="coder", message="Make a clean build.", after_seconds=1),
    ScriptLine(session_id="export", agent_id="support", message="Export all orders.", abort_seconds=2),
    ScriptLine(
        session_id="compare",
        agent_id="reader",
        message="Compare the ways in which sessions are kept.",
        again_seconds=20,
    ),
    ScriptLine(session_id="archive", agent_id="reader", message="What does the archive say?"),
)
"""The messages in order. All are sent within a second."""


@contextmanager
def demo_directory() -> Iterator[Path]:
    """Provide a directory for the sessions of a demo, deleted on exit. Blocks."""
    with TemporaryDirectory(prefix="agentrail-demo-") as name:
        yield Path(name)


def make_demo_application(directory: Path) -> "Starlette":
    """Return the application, with its sessions stored in a directory.

    Its lifespan sends the messages of `SCRIPT` until shutdown.
    """
    from agentrail.gateway.app import ServedHost, create_app

    app = create_app(
        profiles=demo_profiles(),
        plugins=[Audit(), Bookkeeper()],
        store=f"sqlite:{directory / 'demo.db'}",
        data_dir=directory,
        idle_after=None,  # hibernation would lose the files in memory
        limits=Limits(tenant_cost_per_day_usd=DAY_BUDGET_USD),
        drain_timeout=1.0,  # a short drain, because nobody waits for the demo's reports
    )
    served: ServedHost = app.state.host
    served.gateway.is_demo = True

    @asynccontextmanager
    async def lifespan(_: object) -> AsyncIterator[None]:
        async with served.open() as host, trio.open_nursery() as nursery:
            nursery.start_soon(play_script, host)
            yield
            nursery.cancel_scope.cancel(reason="the demo ends")

    app.router.lifespan_context = lifespan
    return app


async def play_script(host: Host, script: tuple[ScriptLine, ...] = SCRIPT) -> None:
    """Send the messages of a script, until all repetitions have been sent.

    Cancellation: No more are sent. Sent messages continue.
    """
    async with trio.open_nursery() as nursery:
        for line in script:
            await trio.sleep(line.after_seconds)
            nursery.start_soon(_play_line, host, line)


async def _play_line(host: Host, line: ScriptLine) -> None:
    """Send one message and its repetitions. A host that refuses or a deleted session ends it: viewers may delete sessions."""
    try:
        for _ in range(1 if line.again_seconds is None else MAX_REPEATS):
            sent = await _send(host, line)
            if line.feed is not None:
                await _start_feed(host, line.session_id, line.feed)
            if line.abort_seconds is not None:
                await trio.sleep(line.abort_seconds)
                await sent.session.abort()
            await sent.outcome()
            await trio.sleep(line.again_seconds or 0.0)
    except AgentrailError:
        return


async def _start_feed(host: Host, session_id: str, name: str) -> None:
    """Start a background worker of a session, such as a connection. Its supervisor restarts it, and the tree shows it."""
    falls = iter(range(MAX_REPEATS))

    async def feed() -> None:
        number = next(falls, None)
        if number is None:
            await trio.sleep_forever()
        await trio.sleep(FALL_SECONDS if number else FIRST_FALL_SECONDS)
        message = "the carrier closed the connection"
        raise ConnectionResetError(message)

    spec = ChildSpec(name, worker(feed))
    await host.supervisor.start_behind(session_id, spec, scope=ANYONE_HERE.tenant_id)


async def _send(host: Host, line: ScriptLine) -> HostRequest:
    request = ChatRequest(
        message=line.message,
        tenant_id=ANYONE_HERE.tenant_id,
        user_id=ANYONE_HERE.user_id,
        agent_id=line.agent_id,
        session_id=SessionId(line.session_id),
    )
    sent = await host.submit(request, ANYONE_HERE)
    assert isinstance(sent, HostRequest)  # noqa: S101 - no plugin of the demo replaces the session's answer
    return sent
