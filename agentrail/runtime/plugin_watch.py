"""Guard around plugin code, for the core, which has neither a clock nor a log."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from attrs import define

from agentrail.actors.mailbox import Mailbox
from agentrail.core.protocol.hooks import HookEvent
from agentrail.core.protocol.plugin_record import PluginRecord
from agentrail.core.protocol.signals import PluginLagged, SignalId
from agentrail.core.stack.loaded_stack import Member
from agentrail.core.stack.plugin import Context, Plugin
from agentrail.errors import OptionError
from agentrail.messages import SessionId
from agentrail.otp.crash_text import describe_bug
from agentrail.otp.guarded_calls import is_cancellation, leaves, what_leaves
from agentrail.outside import Outside, current
from agentrail.runtime.crashes import MAX_CRASH_MESSAGE, log_crash
from agentrail.runtime.error_scrubber import without_secrets
from agentrail.runtime.hook_times import NO_TALLY, PluginTally
from agentrail.runtime.session_clock import now_ms
from agentrail.runtime.tree_secrets import Withheld

_SLOW_SECONDS: Final = 0.05
_QUIET_SECONDS: Final = 60.0
"""Seconds before a reported plugin is reported again."""


_NONE: Final[frozenset[tuple[str, str]]] = frozenset()


class PluginCrashed(Exception):
    pass


@define(eq=False, repr=False, init=False, weakref_slot=False)
class PluginWatch:
    _stopwatch: Callable[[], float]
    _session_id: SessionId
    _user_data: Mapping[str, object]
    _withheld: Withheld
    _tally: PluginTally = NO_TALLY
    _is_rehearsing: bool = False
    _coming: dict[SignalId, Plugin] | None = None  # created for the first one: most sessions change none
    _rehearsed: frozenset[tuple[str, str]] = _NONE
    _others: Callable[[PluginRecord], Any] | None = None
    _mailbox: Mailbox[Any] | None = None
    _reported_at: dict[str, float] | None = None  # created when needed: most sessions have no slow plugin

    def __init__(
        self,
        session_id: SessionId,
        user_data: Mapping[str, object],
        outside: Outside | None = None,
        *,
        withheld: Withheld | None = None,
    ) -> None:
        # The bound method rather than the module's function: this is called twice for each hook of a plugin.
        self.__attrs_init__(
            (outside or current()).stopwatch,
            session_id,
            user_data,
            Withheld() if withheld is None else withheld,
        )

    def report_to(self, mailbox: Mailbox[Any]) -> None:
        """Set the mailbox for reports of slow plugins. The mailbox, because its method would be another object."""
        self._mailbox = mailbox

    def keep(self, change: SignalId, plugin: Plugin) -> None:
        self._coming = self._coming or {}
        self._coming[change] = plugin

    @property
    def coming(self) -> int:
        return len(self._coming or {})

    def forget(self, change: SignalId) -> None:
        if self._coming is not None:
            self._coming.pop(change, None)

    def find(self, change: SignalId, record: PluginRecord) -> Any:
        found = None if self._coming is None else self._coming.get(change)
        if found is None and self._others is not None:
            return self._others(record)
        return found

    def find_others(self, find: Callable[[PluginRecord], Any]) -> None:
        self._others = find

    @contextmanager
    def rehearsing(self) -> Iterator[None]:
        """Mark a trial step, which is repeated later: a crash in both is one crash."""
        self._is_rehearsing = True
        try:
            yield
        finally:
            self._is_rehearsing = False

    def __call__(self, member: Member, event: HookEvent, state: Any, ctx: Context) -> object:
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
        """Call a handler. Its exception propagates. Its answer is stepped, and contains no secret."""
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
        """Count calls and failures from now on: the session is live. Trial steps, and folds in a thread, come before that."""
        self._tally = tally

    def call(self, function: Callable[..., Any], *args: Any) -> Any:
        try:
            return function(*args)
        except OptionError:  # invalid arguments are reported to their caller, and do not count as a crash
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
        # The core turns caught exceptions into data, and does not know the secrets.
        if harmless != words or any(is_cancellation(leaf) for leaf in leaves(error)):
            raise PluginCrashed(said) from None

    def _is_first(self, what: str, said: str) -> bool:
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
    __slots__ = ()

    def __call__(self, member: Member, event: HookEvent, state: Any, ctx: Context) -> object:
        return self._call_handler(member, event, state, ctx)

    def _is_first(self, what: str, said: str) -> bool:
        del what, said
        return False
