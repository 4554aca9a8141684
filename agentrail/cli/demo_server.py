"""What `agentrail serve --demo` serves: three profiles on the demo model, and sessions that are at work when the first page opens.

It plays people who write messages, in the order of `SCRIPT`, the same in each run; answers, approvals and aborts are left to who looks at
it. What the profiles do stands in `demo_profiles`, what the model says in `agentrail.providers.demo`.
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
"""How soon what runs behind a session falls over for the first time: who looks at the tree at once is to see it."""

FALL_SECONDS: Final = 45.0
"""How long it stays up later on: a restart is shown for a minute."""

DAY_BUDGET_USD: Final = 20.0
"""What all that the demo does may cost in a day: a price that is only pretended, so that there is a budget to see."""

MAX_REPEATS: Final = 100
"""How often a message is sent again: a demo that is left alone for a night comes to rest."""


@frozen(kw_only=True)
class ScriptLine:
    """A message that a person would write.

    Attributes:
        again_seconds: How long after its end it is sent again; None for once.
        abort_seconds: How long after it the session is aborted; None for never.
        feed: The name of something that runs behind the session from then on, and falls over at times; None for nothing.
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
"""What is written, in order; all of it is out after a second."""


@contextmanager
def demo_directory() -> Iterator[Path]:
    """Give a directory for the sessions of a demo, which is gone behind the block. Blocks."""
    with TemporaryDirectory(prefix="agentrail-demo-") as name:
        yield Path(name)


def make_demo_application(directory: Path) -> "Starlette":
    """Make the application, whose sessions are kept in a directory.

    Its lifespan sends the messages of `SCRIPT`; they end with it.
    """
    from agentrail.gateway.app import ServedHost, create_app

    app = create_app(
        profiles=demo_profiles(),
        plugins=[Audit(), Bookkeeper()],
        store=f"sqlite:{directory / 'demo.db'}",
        data_dir=directory,
        idle_after=None,  # files in memory would be gone when a session comes back
        limits=Limits(tenant_cost_per_day_usd=DAY_BUDGET_USD),
        drain_timeout=1.0,  # who stops a demo does not want to wait for its reports
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
    """Send the messages of a script, until all that are sent again were sent often enough.

    Cancellation: No more are sent; what was sent goes on.
    """
    async with trio.open_nursery() as nursery:
        for line in script:
            await trio.sleep(line.after_seconds)
            nursery.start_soon(_play_line, host, line)


async def _play_line(host: Host, line: ScriptLine) -> None:
    """Send one message, and again. A host that takes no more, or a session that is gone, ends it: people may delete what they see."""
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
    """Start what runs behind a session, as a connection of its own would: its supervisor starts it again, and the tree shows it."""
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
    assert isinstance(sent, HostRequest)  # noqa: S101 - no plugin of the demo answers in place of a session
    return sent
