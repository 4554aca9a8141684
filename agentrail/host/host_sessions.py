"""Sessions for callers: find, create, wake and remove them, always restricted to the caller's own."""

from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext, suppress
from typing import Final, Unpack

from msgspec.structs import replace

from agentrail.abc.store import Filters
from agentrail.core.stack.loaded_stack import PluginEntry
from agentrail.errors import (
    AgentrailError,
    AlreadyExists,
    AlreadyStarted,
    AttachmentsUnsupported,
    FilesUnsupported,
    IdInvalid,
    JournalDrifted,
    OptionError,
    ProfileFailed,
    ProfileUnknown,
    SessionDown,
    SessionIsChild,
    SessionNotFound,
    SessionRested,
    SessionUnknown,
    StillNeeded,
    Unrevivable,
)
from agentrail.host.agent_profiles import (
    AgentProfile,
    AgentProfiles,
    ProfileContext,
    StartArguments,
    digest_of_profiles,
    options_of_profile,
    resolve_profile,
    takes_files,
)
from agentrail.host.identity import (
    Access,
    SessionOwner,
    decide_access,
    fault_of_session_id,
    is_temporary,
    metadata_of_session,
    owner_of_session,
    profile_of_session,
)
from agentrail.host.quotas import OpenSessions
from agentrail.host.session_list import UNREADABLE, SessionList, filters_of
from agentrail.host.temporary_sessions import TemporarySessions
from agentrail.logs import Logger
from agentrail.messages import Message, SessionId, TokenUsage
from agentrail.runtime.ended_sessions import LastWords
from agentrail.runtime.event_history import PageAsked, PageOfEvents
from agentrail.runtime.journal_events import read_in_the_end
from agentrail.runtime.persistence import OnDrift
from agentrail.runtime.session_facts import SessionFacts
from agentrail.runtime.session_handle import Session
from agentrail.runtime.session_keys import key_of
from agentrail.runtime.session_rows import ASLEEP, ENDED, glance_at, phase_of
from agentrail.runtime.supervisor import SessionSupervisor

LOGGER: Final = Logger("agentrail.host")

_TRIES: Final = 3
"""Attempts to delete a session that is woken each time."""

_OTHER_ID: Final = "omit session_id to get a generated id"


class HostSessions:
    """Finds, creates, wakes and removes the sessions of a host."""

    def __init__(
        self,
        supervisor: SessionSupervisor,
        profiles: AgentProfiles,
        *,
        has_store: bool,
        max_sessions_of_each: int,
    ) -> None:
        self.supervisor: SessionSupervisor = supervisor
        self.profiles: AgentProfiles = profiles
        self.has_store = has_store
        self.temporary: TemporarySessions = TemporarySessions(supervisor)
        self.list: SessionList = SessionList(supervisor, has_store=has_store, is_hidden=self.temporary.has)
        # Sessions that only their creator has been given so far.
        self._fresh: dict[str, Session] = {}
        supervisor.limit_sessions(max_sessions_of_each)
        if supervisor.shared_node:
            supervisor.describe_profiles(digest_of_profiles(profiles))
        self._open_sessions: OpenSessions[SessionOwner] = OpenSessions(max_sessions_of_each, self._is_open)

    def _is_open(self, owner: SessionOwner, session_id: str) -> bool:
        with suppress(SessionDown):
            session = self.supervisor.session(session_id, scope=owner.tenant_id)
            # A hibernated one may have ended on another node. The store counts all of them.
            return not (self.supervisor.shared_node and phase_of(session) == ASLEEP)
        return False

    # --- ownership

    async def facts(self, owner: SessionOwner, session_id: str) -> SessionFacts:
        """Return the facts of a caller's session."""
        facts = await self._look_up(owner, session_id, creates=False)
        assert facts is not None  # noqa: S101 - else it is unknown
        return facts

    async def facts_or_none(self, owner: SessionOwner, session_id: str) -> SessionFacts | None:
        """Return the facts of a caller's session, or None for an id under which the caller may create one."""
        return await self._look_up(owner, session_id, creates=True)

    async def _look_up(self, owner: SessionOwner, session_id: str, *, creates: bool) -> SessionFacts | None:
        try:
            facts = await self._find(owner.tenant_id, session_id)
        except UNREADABLE:
            filters = replace(filters_of(owner.tenant_id, owner), root=SessionId(session_id))
            if await self.supervisor.find(filters, limit=1):
                raise
            raise unknown(session_id, hint=_OTHER_ID if creates else None) from None
        user_data = None if facts is None else facts.user_data
        match decide_access(owner, session_id, user_data, creates=creates):
            case Access.OPEN | Access.CREATE:
                return facts
            case Access.UNKNOWN:
                # With a store, it exists until it is purged, and then must be reported as unknown.
                words = None if self.has_store else self._last_words_of(owner, session_id)
                if facts is None and words is not None:
                    raise _end_of(session_id, words)
                raise unknown(session_id)
            case Access.TAKEN:
                raise unknown(session_id, hint=_OTHER_ID)

    async def facts_to_decide(
        self, owner: SessionOwner, session_id: str, *, may_decide: bool
    ) -> SessionFacts:
        """Return the facts of a session whose pending calls a caller may decide, perhaps another user's."""
        try:
            return await self.facts(owner, session_id)
        except SessionUnknown:
            facts = await self.of_tenant(owner.tenant_id, session_id)
            agent_id = profile_of_session(facts.user_data) or ""
            if not (may_decide or self.profiles.is_approver(agent_id, owner.user_id)):
                raise
            return facts

    def ended_of(self, owner: SessionOwner, session_id: str) -> Session | None:
        """Return the handle of an ended session. One that rests, or that another node took, has not ended, and may be back."""
        words = self._last_words_of(owner, session_id)
        return None if words is None or words.how == "rested" else words.session

    async def facts_to_read(self, owner: SessionOwner, session_id: str) -> SessionFacts:
        """Return the facts of a caller's session, perhaps an ended one, to read its past."""
        ended = self.ended_of(owner, session_id)
        try:
            return await self.facts(owner, session_id)
        except AgentrailError:
            if ended is None:
                raise
            return ended.facts

    def _last_words_of(self, owner: SessionOwner, session_id: str) -> LastWords | None:
        words = self.supervisor.last_words(session_id, scope=owner.tenant_id)
        session = None if words is None else words.session
        if session is None or owner_of_session(session.facts.user_data) != owner:
            return None
        return words

    async def of_tenant(self, tenant_id: str, session_id: str) -> SessionFacts:
        """Return the facts of any session of a tenant, without waking it."""
        facts = await self._find(tenant_id, session_id)
        owner = None if facts is None else owner_of_session(facts.user_data)
        if facts is None or owner is None or owner.tenant_id != tenant_id:
            raise unknown(session_id)
        return facts

    async def _find(self, tenant_id: str, session_id: str) -> SessionFacts | None:
        fault = fault_of_session_id("session_id", session_id)
        if fault is not None:
            raise IdInvalid([fault])
        return await self.supervisor.facts_of(session_id, scope=tenant_id)

    async def conversation(
        self, facts: SessionFacts, tenant_id: str
    ) -> tuple[tuple[Message, ...], TokenUsage]:
        """Return the conversation and usage of a session, from its journal if it is not awake."""
        if facts.is_here:
            session = self.supervisor.session(facts.session_id, scope=tenant_id)
            messages = () if phase_of(session) in (ASLEEP, ENDED) else await session.messages()
            status = glance_at(session)  # same moment as the messages: there is no checkpoint in between
            if status is not None:
                return messages, status.usage
        plugins = await self.plugins_of(facts)
        past = await self.supervisor.stored_state(facts.session_id, scope=tenant_id, plugins=plugins)
        return past.messages, past.status.usage

    async def events_of(self, facts: SessionFacts, tenant_id: str, asked: PageAsked) -> PageOfEvents:
        plugins = () if facts.is_here else await self.plugins_of(facts)
        return await self.supervisor.events_page(
            facts.session_id,
            before=asked.before,
            after=asked.after,
            limit=asked.limit,
            kinds=asked.kinds,
            scope=tenant_id,
            plugins=plugins,
        )

    async def plugins_of(self, facts: SessionFacts) -> Sequence[PluginEntry]:
        """Return the code of a session's plugins. Empty if the profile no longer exists."""
        context = _context_of(facts)
        try:
            profile = await self.profile(context)
        except ProfileUnknown:
            return ()
        return (await options_of_profile(self.profiles, profile, context)).plugins

    async def window_of_profile(self, session: Session) -> int | None:
        with suppress(ProfileUnknown, ProfileFailed):
            return (await self.profile(_context_of(session.facts))).context_window
        return None

    # --- open, create, remove

    async def open(
        self, facts: SessionFacts, owner: SessionOwner, *, on_drift: OnDrift | None = None
    ) -> Session:
        """Return the handle of an existing session, woken if it is only in the store."""
        self._fresh.pop(key_of(owner.tenant_id, facts.session_id), None)
        with suppress(SessionDown):
            return self.supervisor.session(facts.session_id, scope=owner.tenant_id)
        words = self.supervisor.last_words(facts.session_id, scope=owner.tenant_id)
        # A hibernated session that another node has continued meanwhile leaves no words. The store knows where it is.
        if facts.has_ended or (facts.is_here and (words is not None or not self.has_store)):
            raise _end_of(facts.session_id, words, is_stored=facts.has_ended)
        return await self._resume(facts, owner, on_drift)

    async def _resume(self, facts: SessionFacts, owner: SessionOwner, on_drift: OnDrift | None) -> Session:
        if facts.root_id != facts.session_id:
            message = "this session is a sub-agent of another one, which is not awake: use that one"
            raise SessionIsChild(message, root_id=facts.root_id)
        context = _context_of(facts)
        # The caller's metadata from its creation is only in its journal.
        metadata = metadata_of_session(facts.user_data)
        profile = await self._profile_of(context)
        keep = not is_temporary(facts.user_data)
        options = await options_of_profile(self.profiles, profile, context, metadata=metadata, keep=keep)
        try:
            session = await self.supervisor.resume_session(facts.session_id, options, on_drift=on_drift)
        except AlreadyStarted as error:
            return _handle_of(error)
        except (Unrevivable, JournalDrifted) as error:  # callers are referred to the log
            _log_that_it_stays(error, profile.id)
            raise
        self._open_sessions.note(owner, facts.session_id)
        return session

    async def _profile_of(self, context: ProfileContext) -> AgentProfile:
        try:
            return await self.profile(context)
        except ProfileUnknown as error:
            if not context.agent_id:
                raise
            message = f"session {context.session_id!r} belongs to the profile {context.agent_id!r}, which is no longer served"
            raise ProfileUnknown(message) from error

    async def profile(self, context: ProfileContext) -> AgentProfile:
        found = await resolve_profile(self.profiles, context)
        if found is None:
            raise ProfileUnknown(self.profiles.explain_unknown())
        return found

    async def create(
        self, profile: AgentProfile, context: ProfileContext, **start: Unpack[StartArguments]
    ) -> tuple[Session, bool]:
        """Start a session of a profile, or return the one that another call of the user just started."""
        options = await options_of_profile(self.profiles, profile, context, **start)
        owner, keep = SessionOwner(context.tenant_id, context.user_id), start.get("keep", True)
        key = key_of(context.tenant_id, context.session_id)
        try:
            async with nullcontext() if keep else self.temporary.starting(owner, context.session_id):
                with self._open_sessions.starting(owner, context.session_id):
                    session = self._fresh[key] = await self.supervisor.start_session(options)
            return session, True
        except AlreadyStarted as error:
            self._fresh.pop(key, None)
            session = _handle_of(error)
            if owner_of_session(session.facts.user_data) != owner:
                raise unknown(context.session_id) from None
            return session, False
        except AlreadyExists:
            facts = await self.facts_or_none(owner, context.session_id)
            if facts is None:
                raise
            return await self.open(facts, owner), False

    async def check_takes_files(self, profile: AgentProfile | None, context: ProfileContext) -> None:
        """Refuse files unless the session certainly has its own workspace."""
        options = None if profile is None else await options_of_profile(self.profiles, profile, context)
        if profile is None or options is None or not takes_files(self.profiles, profile, options):
            message = "sessions of this profile accept no files: send the message without attachments"
            raise AttachmentsUnsupported(message)

    async def check_shows_files(self, session: Session) -> None:
        """Refuse to read a workspace unless it certainly belongs to the session's user."""
        context = _context_of(session.facts)
        try:
            await self.check_takes_files(await self.profile(context), context)
        except (AttachmentsUnsupported, ProfileUnknown):
            message = "sessions of this profile have no workspace whose files can be read"
            raise FilesUnsupported(message) from None

    def keep(self, session: Session) -> None:
        self._fresh.pop(key_of(session.scope, session.session_id), None)

    async def remove(self, session: Session) -> bool:
        """End and delete a session created in vain, unless others have received it meanwhile."""
        key = key_of(session.scope, session.session_id)
        if self._fresh.pop(key, None) is None:
            return False
        with suppress(SessionDown):
            await self.supervisor.stop_session(session.session_id, "its request failed", scope=session.scope)
        if self.has_store:
            with suppress(SessionNotFound, StillNeeded, OptionError):
                await self.supervisor.delete_session(session.session_id, scope=session.scope)
        return True

    async def delete(
        self,
        owner: SessionOwner,
        session_id: str,
        *,
        purge: bool,
        counting: Callable[[], AbstractAsyncContextManager[None]],
    ) -> None:
        """End a session, and with `purge` delete it in the block of its budgets."""
        find = self.facts_to_read if purge else self.facts
        for place in range(1, _TRIES + 1):
            try:
                facts = await find(owner, session_id)
            except UNREADABLE:
                if not purge:
                    raise
            else:
                await self._end(facts, owner, purge=purge)
            if not purge:
                return
            if not self.has_store:
                await self.supervisor.end_forgotten(owner.tenant_id, SessionId(session_id))
                return
            try:
                async with counting():
                    with suppress(SessionNotFound):
                        await self.supervisor.delete_session(session_id, scope=owner.tenant_id, purge=True)
            except StillNeeded:
                # A reader may have woken a hibernated session in between. Then it is ended here first.
                if place == _TRIES or not self._is_open(owner, session_id):
                    raise
            else:
                return

    async def _end(self, facts: SessionFacts, owner: SessionOwner, *, purge: bool) -> None:
        refuse_child(facts)
        is_stored_alone = not facts.is_here
        if not (is_stored_alone and (purge or facts.has_ended)):
            with suppress(SessionDown):  # it ended by itself meanwhile
                session = await self.open(facts, owner)
                await self.supervisor.stop_session(session.session_id, "deleted", scope=session.scope)

    async def fork(
        self,
        owner: SessionOwner,
        session_id: str,
        wanted: SessionId,
        *,
        at: int | None,
        turn: int | None = None,
    ) -> tuple[Session, int]:
        facts = await self.facts(owner, session_id)
        refuse_child(facts)
        if await self.facts_or_none(owner, wanted) is not None:
            raise already_there(wanted)
        # An ended session can be forked while its handle exists. Otherwise `open` raises the reason of its
        # end.
        session = self.ended_of(owner, session_id) or await self.open(facts, owner)
        is_kept = not is_temporary(facts.user_data)
        try:
            async with nullcontext() if is_kept else self.temporary.starting(owner, wanted):
                with self._open_sessions.starting(owner, wanted):
                    fork = await session.fork(at, turn=turn, session_id=wanted)
        except (AlreadyExists, AlreadyStarted):  # another caller was faster, possibly another user
            await self.facts_or_none(owner, wanted)
            raise
        filters = Filters(scope=owner.tenant_id, root=wanted)
        # The fork has begun, so an error would hide it.
        rows = await read_in_the_end(lambda: self.supervisor.find(filters, limit=1))
        begun = rows[0].forked_from if rows else None
        return fork, 0 if begun is None else begun[1]

    # --- start and end of the host

    async def resume_working(self) -> None:
        """Wake the sessions that had work when their process stopped. Each fails alone."""
        if not self.has_store:
            return
        filters = Filters(is_working=True, has_ended=False, only_roots=True)
        for one in await self.list.rows(filters):
            try:
                await self.resume_stored(one.scope, one.session)
            except AgentrailError as error:
                LOGGER.warning("session %s was not resumed: %s", one.session, error)

    async def resume_stored(self, scope: str, session_id: SessionId) -> None:
        """Resume a stored session that this host started, with its profile. One that hibernates here, too: another node may have left it."""
        facts = await self.supervisor.facts_of(session_id, scope=scope)
        owner = None if facts is None else owner_of_session(facts.user_data)
        if facts is not None and owner is not None and owner.tenant_id == scope:  # else no host started it
            await self._resume(facts, owner, None)

    def live_of(self, owner: SessionOwner) -> Sequence[Session]:
        sessions = self.supervisor.sessions(scope=owner.tenant_id)
        found = [one for one in reversed(sessions) if owner_of_session(one.facts.user_data) == owner]
        return [
            one
            for one in found
            if one.facts.root_id == one.session_id and not is_temporary(one.facts.user_data)
        ]


def profile_of_root(facts: SessionFacts) -> str | None:
    return profile_of_session(facts.user_data) if facts.root_id == facts.session_id else None


def _context_of(facts: SessionFacts) -> ProfileContext:
    """Return the context of a session that was given to a caller. Its profile is that of its root."""
    owner = owner_of_session(facts.user_data)
    assert owner is not None  # noqa: S101 - a host has started it
    return ProfileContext(
        tenant_id=owner.tenant_id,
        user_id=owner.user_id,
        session_id=facts.root_id,
        agent_id=profile_of_session(facts.user_data) or "",
    )


def unknown(session_id: str, *, hint: str | None = None) -> SessionUnknown:
    """Return the error for an unknown session or another user's."""
    return SessionUnknown(f"there is no session {session_id!r}", hint=hint)


def already_there(session_id: str) -> AlreadyExists:
    return AlreadyExists(f"session {session_id!r} already exists: send it a message, or omit session_id")


def refuse_child(facts: SessionFacts) -> None:
    if facts.root_id != facts.session_id:
        message = f"session {facts.session_id!r} is a sub-agent of {facts.root_id!r}: use that one"
        raise SessionIsChild(message, root_id=facts.root_id)


def _end_of(session_id: str, words: LastWords | None, *, is_stored: bool = False) -> SessionDown:
    if words is None or (words.how == "rested" and is_stored):  # on another node, to which it had moved
        return SessionDown(session_id, "it has ended")
    if words.how == "rested":  # since the facts were read, or without a store: it continues elsewhere
        return SessionRested(session_id, words.reason)
    return SessionDown(session_id, words.reason or "it has ended")


def _log_that_it_stays(error: Unrevivable | JournalDrifted, profile: str) -> None:
    """Log why a session cannot resume. Callers only learn the place of a drift."""
    if isinstance(error, JournalDrifted):
        LOGGER.warning("profile %s: %s", profile, error)
        return
    told = "session %r cannot continue: profile %r no longer has %s; restore it in the profile to continue the session"
    LOGGER.warning(told, error.session_id, profile, ", ".join(error.missing))


def _handle_of(error: AlreadyStarted) -> Session:
    handle = error.handle
    assert isinstance(handle, Session)  # noqa: S101 - the supervisor made it
    return handle


async def has_no_cycle(session: Session) -> bool:
    status = await session.status()
    return status.phase == "idle" and not status.suspended
