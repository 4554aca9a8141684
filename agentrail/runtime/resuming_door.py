"""The calls of a supervisor about sessions in its store: find them, and bring them back."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Final, Literal, TypeAlias, Unpack

import trio
from attrs import frozen

from agentrail.abc import Provider
from agentrail.abc.store import Cause, Filters
from agentrail.errors import AgentrailError, JournalDrifted, OptionError, StoreUnavailable
from agentrail.logs import Logger
from agentrail.messages import SessionId
from agentrail.runtime.arguments import fault_of_choice, fault_of_flag, fault_of_text, refuse
from agentrail.runtime.handle import Session
from agentrail.runtime.keeping import OnDrift
from agentrail.runtime.keywords import SessionKeywords
from agentrail.runtime.resuming import WantedSession
from agentrail.runtime.reviving import StoredOpening
from agentrail.runtime.scopes import NO_SCOPE, fault_of_scope
from agentrail.runtime.session_options import SessionOptions
from agentrail.runtime.shared import Shared

LOGGER = Logger("agentrail.runtime")

Revive: TypeAlias = Callable[[StoredOpening], SessionOptions | Mapping[str, Any] | None]
"""Gives what a stored session needs of its code: all options, or some by name; None for a session that needs none."""

Resume: TypeAlias = Literal["none", "working", "all"]
"""Which stored sessions come back when a supervisor is opened: none, those that had work, or all that have not ended."""

_AT_ONCE: Final = 100

_ROOTS: Final = Filters(only_roots=True, has_ended=False)

RESUMED_AT_ONCE: Final = 8
"""How many sessions are brought back side by side when a supervisor is opened."""

TIMERS_EVERY_SECONDS: Final = 60.0

SOON_MS: Final = 600_000
"""How long before its timer is due a session is brought back: far longer than the pause between two looks, so that none is late."""


@frozen(kw_only=True)
class NotResumed:
    """A stored session that did not come back by itself, and is as it was.

    Attributes:
        session_id: Which one.
        scope: Of which scope.
        error: Why.
    """

    session_id: SessionId
    scope: str
    error: AgentrailError


class ResumingDoor(ABC):
    """The calls of a supervisor about stored sessions."""

    _shared: Shared

    _revive: Revive | None
    _stuck: set[tuple[str, str]]

    async def resume_session(
        self,
        session_id: str,
        options: SessionOptions | None = None,
        /,
        *,
        force: bool = False,
        on_drift: OnDrift | None = None,
        model: str | Provider | None = None,
        **given: Unpack[SessionKeywords],
    ) -> Session:
        """Bring a stored session back, with the sessions that work for it, and return its handle.

        What it knows comes from its journal. Its code does not: tools, plugins, and a model that is an object are given here, else by the
        `revive` of `open_supervisor`; a model string is looked up again, and a plugin is found where its class was defined. What was at
        work when its process stopped is decided by the core, effect for effect, and told by `SessionRecovered`.

        Args:
            session_id: Its id; of a root.
            options: All options in one value; what the journal knows, it knows better.
            force: Whether it is taken from an owner that is alive, as far as the store knows; that one ends it then.
            on_drift: What happens where the code here folds it to other operations than it began: `park` leaves it as it is and raises
                `JournalDrifted`; `go_on` continues it with the state of the code here. Then each `once` or `reconcilable` call that
                had begun and whose end that state does not know is answered as unknown, and so is an equal call until the next
                prompt begins; `pure` and `idempotent` ones run again. None for what the supervisor was opened with.
            model: As of `start_session`; None for the model string that it was started with.
            **given: Other options of `start_session`, such as `tools`; and `scope`, the one that it was started in.

        Raises:
            OptionError: Your move: there is no store, a child is meant, or options that cannot be.
            SessionNotFound: Your move: the store has none of this id; `nearest` are like it.
            AlreadyStarted: It is alive here; `handle` is its handle.
            HeldBy: Another node owns it.
            SessionDown: It has ended, or the supervisor is closing.
            Unrevivable: Your move: each tool, plugin, agent or model that it had and that was not given. It is untouched.
            JournalDrifted: Your move: the code here folds it to other operations, and `on_drift` is `park`. It is untouched.
            JournalCorrupt: A record is damaged.
            StoreUnavailable: The store takes nothing for now.

        Cancellation: Until it is taken over nothing was done; then it is given back, and has no owner.
        """
        chosen: dict[str, Any] = dict(given)
        scope = chosen.pop("scope", NO_SCOPE if options is None else options.scope)
        refuse(
            fault_of_text("session_id", session_id),
            fault_of_scope("scope", scope),
            fault_of_flag("force", force),
            None if on_drift is None else fault_of_choice("on_drift", on_drift, ("park", "go_on")),
        )
        if model is not None:
            chosen["model"] = model
        if options is not None and chosen:
            raise OptionError(["options came in one value and as keywords: give them in one way"])
        wanted = WantedSession(session_id=SessionId(session_id), scope=scope, force=force, on_drift=on_drift)
        return await self._bring_back(wanted, partial(self._give, options, chosen))

    async def resume_all(self, which: Resume) -> tuple[NotResumed, ...]:
        """Bring stored sessions back that have no owner any more. One that cannot come back keeps no other from it.

        Args:
            which: Those that had work, or all that have not ended.

        Returns:
            What did not come back, and why.

        Raises:
            OptionError: Your move: there is no store, or `which` is none of the three.
            StoreUnavailable: It cannot be read now.

        Cancellation: Those that are back stay.
        """
        if which not in ("none", "working", "all"):
            raise OptionError([f"resume is {which!r:.80}: expected 'none', 'working' or 'all'"])
        keeping = self._shared.store_of("resume")
        look = keeping.store.orphans if which == "working" else partial(keeping.store.find, _ROOTS)
        failed: list[NotResumed] = []
        after: tuple[str, str] | None = None
        while which != "none":
            page = await keeping.read(partial(look, after=after, limit=_AT_ONCE))
            if not page:
                break
            after = (page[-1].scope, page[-1].session)
            failed += await self._resume_each(
                [(one.scope, one.session, "gone" if one.node else "start") for one in page]
            )
        _log_drifts(failed)
        return tuple(failed)

    async def _resume_each(
        self, wanted: Iterable[tuple[str, SessionId, Cause]], *, is_asked: bool = False
    ) -> list[NotResumed]:
        """Bring some sessions back, a few at a time."""
        failed: list[NotResumed] = []
        limiter = trio.CapacityLimiter(RESUMED_AT_ONCE)

        async def resume(scope: str, session_id: SessionId, cause: Cause) -> None:
            async with limiter:
                error = await self._resume_unasked(scope, session_id, cause, is_asked=is_asked)
            if error is not None:
                failed.append(NotResumed(session_id=session_id, scope=scope, error=error))

        try:
            async with trio.open_nursery() as nursery:
                for one in wanted:
                    nursery.start_soon(resume, *one, name="resume")
        except BaseExceptionGroup as group:  # a bug of `revive`, say: as it was raised, and not in a group
            raise _first_of(group) from None
        return failed

    async def _resume_unasked(
        self, scope: str, session_id: SessionId, cause: Cause, *, is_asked: bool = False
    ) -> AgentrailError | None:
        """Bring a session back that no caller asks for, and return why that cannot be."""
        wanted = WantedSession(session_id=session_id, scope=scope, cause=cause, is_asked=is_asked)
        try:
            await self._bring_back(wanted, partial(self._give, None, {}))
        except JournalDrifted as error:
            self._note_parked(scope, session_id, str(error))
            return error
        except AgentrailError as error:
            LOGGER.warning("session %s was not resumed: %s", session_id, error)
            return error
        return None

    # --- timers that ran out while no process ran

    async def _resume_due(self) -> None:
        """Bring back the sessions without an owner whose timer is due, or soon will be: the time of an approval, a question, or a sleep.

        Raises:
            StoreUnavailable: It cannot be read now.
        """
        keeping = self._shared.store_of("resume")
        while True:
            limit = len(self._stuck) + _AT_ONCE
            found = await keeping.read(partial(keeping.store.due, SOON_MS, limit))
            fresh = [
                key
                for one in found
                if (key := (one.scope, one.root)) not in self._stuck and self._is_away(*key)
            ]
            # The timer asks for it. It counts as no attempt at a cycle that takes its process along.
            roots: list[tuple[str, SessionId, Cause]] = [(*key, "start") for key in dict.fromkeys(fresh)]
            failed = await self._resume_each(roots, is_asked=True)
            self._stuck.update(
                (one.scope, one.session_id) for one in failed if not isinstance(one.error, StoreUnavailable)
            )
            if not fresh or len(found) < limit:
                return

    async def _begin_to_resume_due(self) -> None:
        """Look for timers that are due, now and as long as this supervisor is open; for the keeper, as it opens.

        Raises:
            StoreUnavailable: The store cannot be read now.
        """
        await self._resume_due()
        self._shared.nursery.start_soon(self._keep_resuming_due, name="timers of stored sessions")

    async def _keep_resuming_due(self) -> None:
        """Look again and again, so that each timer finds its session awake.

        Cancellation: At once.
        """
        while True:
            await trio.sleep(TIMERS_EVERY_SECONDS)
            try:
                await self._resume_due()
            except StoreUnavailable as error:
                LOGGER.warning("timers of stored sessions cannot be looked for now: %s", error)

    @abstractmethod
    def _note_parked(self, scope: str, session_id: SessionId, reason: str) -> None: ...

    @abstractmethod
    def _is_away(self, scope: str, session_id: str) -> bool: ...

    def _give(
        self, options: SessionOptions | None, given: Mapping[str, Any], opening: StoredOpening
    ) -> SessionOptions | Mapping[str, Any]:
        if options is not None:
            return options
        revived = None if self._revive is None else self._revive(opening)
        if isinstance(revived, SessionOptions):
            return revived
        return {**(revived or {}), **given}

    @abstractmethod
    async def _bring_back(self, wanted: WantedSession, give: Callable[[StoredOpening], Any]) -> Session: ...


def _first_of(group: BaseExceptionGroup[BaseException]) -> BaseException:
    first = group.exceptions[0]
    return _first_of(first) if isinstance(first, BaseExceptionGroup) else first


def _log_drifts(failed: Sequence[NotResumed]) -> None:
    """Log the sessions that are parked because the code has changed: one line for each plugin."""
    by_plugin: dict[str, list[JournalDrifted]] = {}
    for one in failed:
        if isinstance(one.error, JournalDrifted):
            by_plugin.setdefault(one.error.plugin, []).append(one.error)
    for plugin, errors in by_plugin.items():
        cause = f"plugin {plugin!r}" if plugin else "agentrail"
        first = errors[0]
        LOGGER.warning(
            "%d sessions are parked because of %s; the first is %s: record %d, %s. Restore the versions that they had, or continue "
            "each with on_drift='go_on'",
            len(errors),
            cause,
            first.session_id,
            first.seq,
            first.operation,
        )
