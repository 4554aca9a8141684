"""The shell beside the plugins, where the core that calls them has neither a clock nor a log.

It is told of the slow ones by a signal; what they raise is written to the log on its way to the core, which makes data of it.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from agentrail.actors.mailbox import Mailbox
from agentrail.core.protocol.hooks import HookEvent
from agentrail.core.protocol.plugin_record import PluginRecord
from agentrail.core.protocol.signals import PluginLagged, SignalId
from agentrail.core.stack.loading import Member
from agentrail.core.stack.plugin import Context, Plugin
from agentrail.errors import OptionError
from agentrail.messages import SessionId
from agentrail.otp.edges import is_cancellation, leaves, what_leaves
from agentrail.otp.leaving import describe_bug
from agentrail.outside import Outside, current
from agentrail.runtime.clock import now_ms
from agentrail.runtime.crashes import MAX_CRASH_MESSAGE, log_crash
from agentrail.runtime.hook_times import NO_TALLY, PluginTally
from agentrail.runtime.scrubbing import without_secrets
from agentrail.runtime.withheld import Withheld

_SLOW_SECONDS: Final = 0.05
_QUIET_SECONDS: Final = 60.0
"""How long a plugin that was reported is not reported again."""


_NONE: Final[frozenset[tuple[str, str]]] = frozenset()


class PluginCrashed(Exception):
    """What a plugin raised, said again, where it may not go on as it is.

    It says a secret, or it would not have ended in the core: a cancellation that was not asked for.
    """


class PluginWatch:
    """Calls the code of one session's plugins, looks how long each handler takes, and tells the log what they raise."""

    __slots__ = (
        "_coming",
        "_is_rehearsing",
        "_mailbox",
        "_others",
        "_rehearsed",
        "_reported_at",
        "_session_id",
        "_stopwatch",
        "_tally",
        "_user_data",
        "_withheld",
    )

    def __init__(
        self,
        session_id: SessionId,
        user_data: Mapping[str, object],
        outside: Outside | None = None,
        *,
        withheld: Withheld | None = None,
    ) -> None:
        """Begin without a session to report to."""
        # The bound method, and not the room's function: this is called twice for each hook that a plugin hears.
        self._stopwatch = (outside or current()).stopwatch
        self._session_id = session_id
        self._user_data = user_data
        self._withheld: Withheld = Withheld() if withheld is None else withheld
        self._tally = NO_TALLY
        self._is_rehearsing = False
        self._coming: dict[SignalId, Plugin] | None = (
            None  # made for the first one: most sessions change none
        )
        self._rehearsed = _NONE
        self._others: Callable[[PluginRecord], Any] | None = None
        self._mailbox: Mailbox[Any] | None = None
        self._reported_at: dict[str, float] | None = (
            None  # made when it is needed: most sessions have no slow plugin
        )

    def report_to(self, mailbox: Mailbox[Any]) -> None:
        """Say who hears of slow plugins: the session's own mailbox, and not its method, which would be one more object for each."""
        self._mailbox = mailbox

    def keep(self, change: SignalId, plugin: Plugin) -> None:
        """Keep a plugin that is to come, for the step that takes the signal which brings it."""
        self._coming = self._coming or {}
        self._coming[change] = plugin

    @property
    def coming(self) -> int:
        """How many are kept."""
        return len(self._coming or {})

    def forget(self, change: SignalId) -> None:
        """Let go of a plugin: the change that brought it is over."""
        if self._coming is not None:
            self._coming.pop(change, None)

    def find(self, change: SignalId, record: PluginRecord) -> Any:
        """Give the core the plugin that a change brings, of which it knows only what stands for it."""
        found = None if self._coming is None else self._coming.get(change)
        if found is None and self._others is not None:
            return self._others(record)
        return found

    def find_others(self, find: Callable[[PluginRecord], Any]) -> None:
        """Say where plugins come from that no caller brings: those of a session that came back, which were brought in another process."""
        self._others = find

    @contextmanager
    def rehearsing(self) -> Iterator[None]:
        """Stand around a step that is taken to see, and then again: what crashes in both is one crash."""
        self._is_rehearsing = True
        try:
            yield
        finally:
            self._is_rehearsing = False

    def __call__(self, member: Member, event: HookEvent, state: Any, ctx: Context) -> object:
        """Call a handler and measure it; see `_call_handler`."""
        stopwatch = self._stopwatch
        began = stopwatch()
        try:
            return self._call_handler(member, event, state, ctx)
        finally:
            now = stopwatch()
            took = now - began
            if self._tally is not NO_TALLY:
                self._tally.note(member.name, type(event).__name__, took)
            if took > _SLOW_SECONDS:
                self._tell(member.name, type(event).__name__, took, now)

    def _call_handler(self, member: Member, event: HookEvent, state: Any, ctx: Context) -> object:
        """Call a handler; what it raises travels on. What it answers is stepped, so no secret stands in that."""
        try:
            answer = member.plugin.handle(event, state, ctx)
            return answer if self._withheld.known is None else self._withheld.in_value(answer)
        except BaseException as error:
            self._tell_crash(member.name, type(event).__name__, error)
            raise

    def quiet(self) -> "QuietWatch":
        """Return a watch for a fold by the same session: same secrets, same plugins, no clock and no reports."""
        quiet = QuietWatch(self._session_id, self._user_data, withheld=self._withheld)
        for change, plugin in (self._coming or {}).items():
            quiet.keep(change, plugin)
        if self._others is not None:
            quiet.find_others(self._others)
        return quiet

    def count_in(self, tally: PluginTally) -> None:
        """Count calls and failures from now on: the session lives. What was rehearsed, or folded in a thread, was in front of that."""
        self._tally = tally

    def call(self, function: Callable[..., Any], *args: Any) -> Any:
        """Call other code of a plugin, such as `init`; what it raises travels on."""
        try:
            return function(*args)
        except OptionError:  # what it was given cannot be: that is told to who gave it, and is no crash
            raise
        except BaseException as error:
            self._tell_crash(None, "", error)
            raise

    def _tell_crash(self, plugin: str | None, hook: str, error: BaseException) -> None:
        if what_leaves(error) is not None:
            return

        def scrub(text: str) -> str:
            return without_secrets(self._withheld.replaced(text), self._user_data)

        words = describe_bug(error)
        harmless = scrub(words)
        said = harmless[:MAX_CRASH_MESSAGE]
        outside = "a plugin crashed outside of its handler"
        what = outside if plugin is None else f"plugin {plugin!r} crashed on {hook}"
        if plugin is not None and self._tally is not NO_TALLY:
            self._tally.note_failure(plugin, hook, said, now_ms())
        if self._is_first(what, said):
            log_crash(f"session {self._session_id}: {what}: {said}", error, scrub)
        # The core makes data of what it catches, and knows no secrets.
        if harmless != words or any(is_cancellation(leaf) for leaf in leaves(error)):
            raise PluginCrashed(said) from None

    def _is_first(self, what: str, said: str) -> bool:
        """Say whether this was not told already, when the first step was taken to see."""
        known = (what, said) in self._rehearsed
        if self._is_rehearsing:
            self._rehearsed |= {(what, said)}
        elif known:
            self._rehearsed -= {(what, said)}
        return self._is_rehearsing or not known

    def _tell(self, plugin: str, hook: str, took: float, now: float) -> None:
        if self._mailbox is None:
            return
        if self._reported_at is None:
            self._reported_at = {}
        if now - self._reported_at.get(plugin, -_QUIET_SECONDS) >= _QUIET_SECONDS:
            self._reported_at[plugin] = now
            self._mailbox.put_notice(
                PluginLagged(at_ms=now_ms(), plugin=plugin, hook=hook, milliseconds=round(took * 1000))
            )


class QuietWatch(PluginWatch):
    """Calls plugins again while a journal is folded. Nothing is measured or reported: a fold depends on its records alone.

    What plugins raise results in the same words as when they ran, without secrets. A worker thread may own it.
    """

    __slots__ = ()

    def __call__(self, member: Member, event: HookEvent, state: Any, ctx: Context) -> object:
        """Call a handler; how long it takes has no effect."""
        return self._call_handler(member, event, state, ctx)

    def _is_first(self, what: str, said: str) -> bool:
        del what, said
        return False
