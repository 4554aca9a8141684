"""Child sessions whose outcome their parent never read, because its process stopped."""

import trio

import agentrail
from agentrail.errors import AgentrailError, StoreUnavailable
from agentrail.outside import installed
from agentrail.stores.memory import MemoryStore
from agentrail.testing.clock import FakeClock
from agentrail.testing.models import FunctionModel, calls, says
from agentrail.testing.supervisors import open_nameless
from tests.runtime.rig import Inline, NoSandbox


def options(children):
    @agentrail.tool(effect_class="idempotent")
    async def ask_others(ctx: agentrail.ToolContext) -> str:
        """Run sessions, one after the other."""
        return " ".join([await ctx.run_session("CHILD") for _ in range(children)])

    def answer(request):
        if request.messages[0].content[0].text == "CHILD":
            return says("a")
        return says("done") if len(request.messages) > 1 else calls(("ask_others", {}))

    return {"model": FunctionModel(answer), "tools": [ask_others]}


class Dying:
    """What a process reaches of a store: nothing after the end of so many children."""

    is_immediate = False

    def __init__(self, inner, ends):
        self.inner, self._left = inner, ends

    def __getattr__(self, name):
        """Give what the store has, as long as the process lives."""

        def reached(*args, **options):
            if self._left <= 0:
                message = "killed"
                raise StoreUnavailable(message)
            answer = getattr(self.inner, name)(*args, **options)
            self._left -= sum(one.standing.has_ended for one in args[0]) if name == "append" else 0
            return answer

        return reached


async def die(store, given):
    try:
        async with open_nameless(lambda *_: NoSandbox(), store=store, store_patience=0.2) as supervisor:
            session = await supervisor.start_session(session_id="s-1", **given)
            with trio.move_on_after(2):
                await session.run("Go")
    except* AgentrailError:
        pass


async def live_on(store, given):
    async with open_nameless(lambda *_: NoSandbox(), store=store) as supervisor:
        session = await supervisor.resume_session("s-1", **given)
        with trio.fail_after(60):
            while (await session.status()).phase != "idle":  # noqa: ASYNC110
                await trio.sleep(0.1)
        return await session.messages()


def test_a_tool_that_runs_again_runs_its_sessions_again():
    """Under names of their own: those of the stopped process are taken, and each attempt failed at one of them."""
    inner, given = MemoryStore(lease_ms=0), options(children=5)
    with installed(Inline()):
        trio.run(die, Dying(inner, ends=4), given, clock=FakeClock())
        messages = trio.run(live_on, inner, given, clock=FakeClock())
    assert [one.text for one in messages[-2].results] == ["a a a a a"]
    assert messages[-1].text == "done"
    assert sum(one.root != one.session for one in inner.find()) == 9
