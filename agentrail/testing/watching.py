"""A stack that is watched: what each plugin is asked and answers, and whether it keeps the rules while it does.

The pipeline lets the caller that loads a stack say how handlers are called; here they are called twice, because a pure function
gives the same answer twice, and with an eye on what they call themselves.
"""

from collections.abc import Callable
from typing import Any

from attrs import frozen

from agentrail.core.protocol.hooks import HookEvent
from agentrail.core.protocol.plugin_record import PluginRecord
from agentrail.core.stack.loading import Member
from agentrail.core.stack.plugin import Context
from agentrail.core.values.foreign import attempt
from agentrail.testing.plugins import puppet_of
from agentrail.testing.purity import side_effects


@frozen(kw_only=True)
class AskedPlugin:
    """One question to one plugin.

    Attributes:
        member: The plugin in its place.
        event: What it was asked.
        state: What it remembered.
        ctx: What it was shown.
        answer: What it said.
    """

    member: Member
    event: HookEvent
    state: Any
    ctx: Context
    answer: Any


class StackWatch:
    """Calls handlers; give it to `load_stack(entries, ask=watch)`.

    Attributes:
        askings: What was asked since the last look.
        faults: Which rules were broken meanwhile, in words.
    """

    def __init__(self) -> None:
        """Begin with nothing seen."""
        self.askings: list[AskedPlugin] = []
        self.faults: list[str] = []

    def __call__(self, member: Member, event: HookEvent, state: Any, ctx: Context) -> object:
        """Ask a plugin, once for the session and once to compare."""
        what = f"{member.name}, on {type(event).__name__}"
        touched: list[str] = []
        try:
            with side_effects(touched):
                answer = member.plugin.handle(event, state, ctx)
        finally:
            self.faults += (f"{what}: a plugin is pure, and this one called {call}" for call in touched)
        again = ask_again(member, event, state, ctx)
        if again != answer:
            self.faults.append(
                f"{what}: the same question has another answer the second time: {answer!r}, then {again!r}"
            )
        self.askings.append(AskedPlugin(member=member, event=event, state=state, ctx=ctx, answer=answer))
        return answer

    def find(self, change: str, record: PluginRecord) -> object:
        """Give a plugin that comes while the session lives: a puppet, where its record says so."""
        del change
        return puppet_of(record)

    def take(self) -> tuple[tuple[AskedPlugin, ...], tuple[str, ...]]:
        """Give what was seen since the last time."""
        seen = (tuple(self.askings), tuple(self.faults))
        self.askings.clear()
        self.faults.clear()
        return seen


def ask_again(member: Member, event: HookEvent, state: Any, ctx: Context) -> Any:
    """Ask a plugin behind the session's back: nothing comes of it."""
    handle: Callable[..., object] = member.plugin.handle
    ctx.random.begin(member.salt)
    return attempt(handle, event, state, ctx)
