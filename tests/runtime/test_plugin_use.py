"""How plugins of sessions do, over all sessions of a scope: what lived is counted once, and of others nothing is seen."""

from agentrail import open_supervisor
from agentrail.plugins import Action, BeforePrompt, Context, Continue, Plugin, SessionStarted, on
from agentrail.stores.memory import MemoryStore
from tests.runtime.rig import on_virtual_time, saying


class Careful(Plugin[int]):
    """Hears of a session's beginning, which is tried first, and stumbles over some prompts."""

    on_error = "open"

    def init(self) -> int:
        """Begin."""
        return 0

    @on(SessionStarted)
    def begin(self, event: SessionStarted, state: int, ctx: Context) -> Action[int]:
        """Hear."""
        return Continue(state)

    @on(BeforePrompt)
    def look(self, event: BeforePrompt, state: int, ctx: Context) -> Action[int]:
        """Stumble."""
        if event.text == "stumble":
            message = "the rug"
            raise ValueError(message)
        return Continue(state)


def counted(supervisor, scope="acme"):
    """Calls and failures by hook."""
    return {
        hook.hook: (hook.calls, hook.failures)
        for one in supervisor.plugin_use(scope=scope)
        for hook in one.hooks
    }


@on_virtual_time
async def test_a_step_that_is_taken_to_see_is_counted_when_it_is_taken():
    """And a session that comes back counts what it lives from then on, not what its journal tells of the time before."""
    store = MemoryStore()
    async with open_supervisor(store=store) as supervisor:
        session = await supervisor.start_session(
            model=saying("a", "b"), plugins=[Careful], session_id="s-1", scope="acme"
        )
        await session.ask("stumble")
        assert counted(supervisor) == {"SessionStarted": (1, 0), "BeforePrompt": (1, 1)}
        (use,) = supervisor.plugin_use(scope="acme")
        assert (use.name, use.sessions) == ("Careful", 1)
        assert use.last_failure is not None
        assert "the rug" in use.last_failure.words
        assert supervisor.plugin_use(scope="else") == ()
        await session.stop()
        assert supervisor.plugin_use(scope="acme")[0].sessions == 0
    async with open_supervisor(store=store) as supervisor:
        other = await supervisor.start_session(
            model=saying("a"), plugins=[Careful], session_id="s-2", scope="acme"
        )
        await other.ask("Hi")
    async with open_supervisor(store=store) as supervisor:
        back = await supervisor.resume_session("s-2", model=saying("b"), plugins=[Careful], scope="acme")
        await back.ask("Hi again")
        assert counted(supervisor) == {"SessionStarted": (1, 0), "BeforePrompt": (1, 0)}
