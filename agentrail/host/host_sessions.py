"""Sessions for callers: found, created, woken and removed, and never one that belongs to another user.

Who may do what with an id is decided in `identity`; what a session is started with, in `profiles`. Here both meet the supervisor. No
request and no hook enters this file.
"""

from collections.abc import Sequence
from contextlib import suppress
from typing import Final

from agentrail.abc.store import Filters
from agentrail.core.stack.loading import PluginEntry
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
    SessionUnknown,
    StillNeeded,
    Unrevivable,
)
from agentrail.frozen import EMPTY
from agentrail.host.identity import (
    Access,
    SessionOwner,
    decide_access,
    fault_of_session_id,
    metadata_of_session,
    owner_of_session,
    profile_of_session,
)
from agentrail.host.limits import OpenSessions
from agentrail.host.profiles import (
    AgentProfile,
    AgentProfiles,
    ProfileContext,
    options_of_profile,
    resolve_profile,
    takes_files,
)
from agentrail.host.session_list import SessionList
from agentrail.logs import Logger
from agentrail.messages import JsonObject, Message, SessionId, TokenUsage
from agentrail.runtime.glancing import ASLEEP, ENDED, glance_at, phase_of
from agentrail.runtime.handle import Session
from agentrail.runtime.keeping import OnDrift
from agentrail.runtime.last_words import LastWords
from agentrail.runtime.past_events import PageAsked, PageOfEvents
from agentrail.runtime.scopes import key_of
from agentrail.runtime.session_facts import SessionFacts
from agentrail.runtime.supervisor import SessionSupervisor

LOGGER: Final = Logger("agentrail.host")

_PAGE: Final = 100

_TRIES: Final = 3
"""How often a session is looked at that is to be deleted, and wakes each time."""


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
        """Begin."""
        self.supervisor: SessionSupervisor = supervisor
        self.profiles: AgentProfiles = profiles
        self.has_store = has_store
        self.list: SessionList = SessionList(supervisor, has_store=has_store)
        # Sessions that no caller but the one who created them has been given yet.
        self._fresh: dict[str, Session] = {}
        self._open_sessions: OpenSessions[SessionOwner] = OpenSessions(max_sessions_of_each, self._is_open)

    def _is_open(self, owner: SessionOwner, session_id: str) -> bool:
        try:
            self.supervisor.session(session_id, scope=owner.tenant_id)
        except SessionDown:
            return False
        return True

    # --- whose it is

    async def facts(
        self, owner: SessionOwner, session_id: str, *, creates: bool = False
    ) -> SessionFacts | None:
        """Say what is known of a session that a caller named.

        Cancellation: Always a checkpoint.
        """
        fault = fault_of_session_id("session_id", session_id)
        if fault is not None:
            raise IdInvalid([fault])
        facts = await self.supervisor.facts_of(session_id, scope=owner.tenant_id)
        user_data = None if facts is None else facts.user_data
        match decide_access(owner, session_id, user_data, creates=creates):
            case Access.OPEN | Access.CREATE:
                return facts
            case Access.UNKNOWN:
                # With a store it is there as long as it was not purged, and then it is to be unknown.
                words = None if self.has_store else self._last_words_of(owner, session_id)
                if facts is None and words is not None:
                    raise SessionDown(session_id, words.reason or "it has ended")
                raise unknown(session_id)
            case Access.TAKEN:
                hint = "leave session_id out: then the session gets an id of its own"
                raise unknown(session_id, hint=hint)

    async def facts_to_decide(
        self, owner: SessionOwner, session_id: str, *, may_decide: bool
    ) -> SessionFacts:
        """Return the facts of a session whose pending calls a caller may decide: their own, or another user's of their tenant."""
        try:
            facts = await self.facts(owner, session_id)
        except SessionUnknown:
            facts = await self.of_tenant(owner.tenant_id, session_id)
            agent_id = profile_of_session(facts.user_data) or ""
            if not (may_decide or self.profiles.is_approver(agent_id, owner.user_id)):
                raise
        assert facts is not None  # noqa: S101 - else it is unknown
        return facts

    def ended_of(self, owner: SessionOwner, session_id: str) -> Session | None:
        """Give the handle of a session of this caller that ended not long ago: what it published can still be read."""
        words = self._last_words_of(owner, session_id)
        return None if words is None else words.session

    async def facts_to_read(self, owner: SessionOwner, session_id: str) -> SessionFacts:
        """Say what is known of a session of a caller whose past is to be read: it may have ended, also in the store."""
        ended = self.ended_of(owner, session_id)
        try:
            facts = await self.facts(owner, session_id)
        except AgentrailError:
            if ended is None:
                raise
            return ended.facts
        assert facts is not None  # noqa: S101 - else it is unknown
        return facts

    def _last_words_of(self, owner: SessionOwner, session_id: str) -> LastWords | None:
        """Give how a session of this caller ended, as long as its handle is there: that knows whose it was."""
        words = self.supervisor.last_words(session_id, scope=owner.tenant_id)
        session = None if words is None else words.session
        if session is None or owner_of_session(session.facts.user_data) != owner:
            return None
        return words

    async def of_tenant(self, tenant_id: str, session_id: str) -> SessionFacts:
        """Say what is known of a session of any user of a tenant, for who may inspect them. It is not woken."""
        fault = fault_of_session_id("session_id", session_id)
        if fault is not None:
            raise IdInvalid([fault])
        facts = await self.supervisor.facts_of(session_id, scope=tenant_id)
        owner = None if facts is None else owner_of_session(facts.user_data)
        if facts is None or owner is None or owner.tenant_id != tenant_id:
            raise unknown(session_id)
        return facts

    async def conversation(
        self, facts: SessionFacts, tenant_id: str
    ) -> tuple[tuple[Message, ...], TokenUsage]:
        """Give the conversation of a session and what it has used: of one that is awake what it says, of any other what its journal comes to.

        Cancellation: At once.
        """
        if facts.is_here:
            session = self.supervisor.session(facts.session_id, scope=tenant_id)
            messages = () if phase_of(session) in (ASLEEP, ENDED) else await session.messages()
            status = glance_at(session)  # of the same moment: there is no checkpoint in between
            if status is not None:
                return messages, status.usage
        plugins = await self.plugins_of(facts)
        past = await self.supervisor.stored_state(facts.session_id, scope=tenant_id, plugins=plugins)
        return past.messages, past.status.usage

    async def events_of(self, facts: SessionFacts, tenant_id: str, asked: PageAsked) -> PageOfEvents:
        """Give a part of what a session has published; of one that is not here as its journal comes to.

        Cancellation: At once.
        """
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
        """Give the code of the plugins of a session, as its profile has it; none where that is not there any more."""
        owner = owner_of_session(facts.user_data)
        assert owner is not None  # noqa: S101 - a host has started it
        context = ProfileContext(
            tenant_id=owner.tenant_id,
            user_id=owner.user_id,
            session_id=facts.root_id,
            agent_id=profile_of_session(facts.user_data) or "",
        )
        try:
            profile = await self.profile(context)
        except ProfileUnknown:
            return ()
        return (await options_of_profile(self.profiles, profile, context)).plugins

    async def window_of_profile(self, session: Session) -> int | None:
        """Say how much the model of a session reads at most as its profile says; None where it does not, or is not there any more."""
        owner = owner_of_session(session.facts.user_data)
        assert owner is not None  # noqa: S101 - else it was given to no caller
        context = ProfileContext(
            tenant_id=owner.tenant_id,
            user_id=owner.user_id,
            session_id=session.facts.root_id,
            agent_id=profile_of_session(session.facts.user_data) or "",
        )
        with suppress(ProfileUnknown, ProfileFailed):
            return (await self.profile(context)).context_window
        return None

    # --- open, create, remove

    async def open(
        self, facts: SessionFacts, owner: SessionOwner, *, on_drift: OnDrift | None = None
    ) -> Session:
        """Give the handle of a session that there is; one that is in the store alone is woken.

        Cancellation: As of `SessionSupervisor.resume_session`.
        """
        self._fresh.pop(key_of(owner.tenant_id, facts.session_id), None)
        with suppress(SessionDown):
            return self.supervisor.session(facts.session_id, scope=owner.tenant_id)
        if facts.is_here or facts.has_ended:
            raise SessionDown(facts.session_id, self._how_it_ended(facts, owner))
        if facts.root_id != facts.session_id:
            message = "this session works for another one, which is not awake: ask that one"
            raise SessionIsChild(message, root_id=facts.root_id)
        context = ProfileContext(
            tenant_id=owner.tenant_id,
            user_id=owner.user_id,
            session_id=facts.session_id,
            agent_id=profile_of_session(facts.user_data) or "",
        )
        # What the caller said when it was created stands in its journal alone.
        metadata = metadata_of_session(facts.user_data)
        profile = await self._profile_of(context)
        options = await options_of_profile(self.profiles, profile, context, metadata=metadata)
        try:
            session = await self.supervisor.resume_session(facts.session_id, options, on_drift=on_drift)
        except AlreadyStarted as error:
            return _handle_of(error)
        except (Unrevivable, JournalDrifted) as error:  # callers hear that the log says why
            _log_that_it_stays(error, profile.id)
            raise
        self._open_sessions.note(owner, facts.session_id)
        return session

    def _how_it_ended(self, facts: SessionFacts, owner: SessionOwner) -> str:
        """Give the reason that its own handle gives, as long as that is known."""
        words = self.supervisor.last_words(facts.session_id, scope=owner.tenant_id)
        return words.reason if words is not None and words.reason else "it has ended"

    async def _profile_of(self, context: ProfileContext) -> AgentProfile:
        """Find the profile of a session that there is; its caller may have named none."""
        try:
            return await self.profile(context)
        except ProfileUnknown as error:
            if not context.agent_id:
                raise
            message = f"session {context.session_id!r} is one of the profile {context.agent_id!r}, which is not served any more"
            raise ProfileUnknown(message) from error

    async def profile(self, context: ProfileContext) -> AgentProfile:
        """Find a profile."""
        found = await resolve_profile(self.profiles, context)
        if found is None:
            known = self.profiles.named()
            there = f": there are {known}" if known else ""
            message = f"there is no profile of this id{there}"
            raise ProfileUnknown(message)
        return found

    async def create(
        self,
        profile: AgentProfile,
        context: ProfileContext,
        *,
        model: str | None = None,
        metadata: JsonObject = EMPTY,
    ) -> tuple[Session, bool]:
        """Start a session of a profile; where another caller of the same user was faster, theirs is it.

        Cancellation: As of `SessionSupervisor.start_session`.
        """
        owner = SessionOwner(context.tenant_id, context.user_id)
        options = await options_of_profile(self.profiles, profile, context, model=model, metadata=metadata)
        key = key_of(context.tenant_id, context.session_id)
        try:
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
            facts = await self.facts(owner, context.session_id, creates=True)
            if facts is None:
                raise
            return await self.open(facts, owner), False

    async def check_takes_files(self, profile: AgentProfile | None, context: ProfileContext) -> None:
        """Refuse files for a session of which it is not known that they would get into a workspace of its own."""
        options = None if profile is None else await options_of_profile(self.profiles, profile, context)
        if profile is None or options is None or not takes_files(self.profiles, profile, options):
            message = "sessions of this profile take no files: send the message without attachments"
            raise AttachmentsUnsupported(message)

    async def check_shows_files(self, session: Session) -> None:
        """Refuse to read in the workspace of a session of which it is not known that it is its user's own."""
        user_data = session.facts.user_data
        owner = owner_of_session(user_data)
        assert owner is not None  # noqa: S101 - else it was given to no caller
        context = ProfileContext(
            tenant_id=owner.tenant_id,
            user_id=owner.user_id,
            session_id=session.facts.root_id,
            agent_id=profile_of_session(user_data) or "",
        )
        try:
            await self.check_takes_files(await self.profile(context), context)
        except (AttachmentsUnsupported, ProfileUnknown):
            message = "sessions of this profile have no workspace whose files can be read"
            raise FilesUnsupported(message) from None

    def keep(self, session: Session) -> None:
        """Say that a session that was created is one to stay."""
        self._fresh.pop(key_of(session.scope, session.session_id), None)

    async def remove(self, session: Session) -> bool:
        """End a session that was created in vain, and delete what a store has of it; not one that others were given meanwhile."""
        key = key_of(session.scope, session.session_id)
        if self._fresh.pop(key, None) is None:
            return False
        with suppress(SessionDown):
            await self.supervisor.stop_session(session.session_id, "its request failed", scope=session.scope)
        if self.has_store:
            with suppress(SessionNotFound, StillNeeded, OptionError):
                await self.supervisor.delete_session(session.session_id, scope=session.scope)
        return True

    async def delete(self, owner: SessionOwner, session_id: str, *, purge: bool) -> None:
        """End a session; one that has ended stays so.

        Cancellation: The session ends all the same; whether the store forgets it is not known.
        """
        for place in range(1, _TRIES + 1):
            facts = await self.facts(owner, session_id)
            assert facts is not None  # noqa: S101 - else it is unknown
            refuse_child(facts)
            is_stored_alone = not facts.is_here
            if not (is_stored_alone and (purge or facts.has_ended)):
                with suppress(SessionDown):  # it ended by itself meanwhile
                    session = await self.open(facts, owner)
                    await self.supervisor.stop_session(session.session_id, "deleted", scope=session.scope)
            if not purge or not self.has_store:
                return
            try:
                with suppress(SessionNotFound):
                    await self.supervisor.delete_session(session_id, scope=owner.tenant_id, purge=True)
            except StillNeeded:
                # One that slept may have been woken in between, by who reads it: it is ended here first then.
                if place == _TRIES or not self._is_open(owner, session_id):
                    raise
            else:
                return

    async def fork(
        self,
        owner: SessionOwner,
        session_id: str,
        wanted: SessionId,
        *,
        at: int | None,
        turn: int | None = None,
    ) -> tuple[Session, int]:
        """Begin a session that goes on from a record of another one of the same user.

        Cancellation: As of `Session.fork`.
        """
        facts = await self.facts(owner, session_id)
        assert facts is not None  # noqa: S101 - else it is unknown
        refuse_child(facts)
        if await self.facts(owner, wanted, creates=True) is not None:
            raise already_there(wanted)
        # One that has ended can be forked as long as its handle is there; `open` says else how it ended.
        session = self.ended_of(owner, session_id) or await self.open(facts, owner)
        try:
            with self._open_sessions.starting(owner, wanted):
                fork = await session.fork(at, turn=turn, session_id=wanted)
        except (AlreadyExists, AlreadyStarted):  # another caller was faster, and may be another user
            await self.facts(owner, wanted, creates=True)
            raise
        rows = await self.supervisor.find(Filters(scope=owner.tenant_id, root=wanted), limit=1)
        begun = rows[0].forked_from if rows else None
        return fork, 0 if begun is None else begun[1]

    # --- when the host begins, and when it ends

    async def resume_working(self) -> None:
        """Wake the sessions that had work when their process stopped. One that cannot come back keeps no other from it."""
        if not self.has_store:
            return
        filters = Filters(is_working=True, has_ended=False, only_roots=True)
        after: tuple[str, str] | None = None
        while page := await self.supervisor.find(filters, after=after, limit=_PAGE):
            after = (page[-1].scope, page[-1].session)
            for one in page:
                try:
                    await self._resume(one.session, one.scope)
                except AgentrailError as error:
                    LOGGER.warning("session %s was not resumed: %s", one.session, error)

    async def _resume(self, session_id: SessionId, scope: str) -> None:
        facts = await self.supervisor.facts_of(session_id, scope=scope)
        owner = None if facts is None else owner_of_session(facts.user_data)
        if facts is not None and owner is not None and owner.tenant_id == scope:  # else no host started it
            await self.open(facts, owner)

    def live_of(self, owner: SessionOwner) -> Sequence[Session]:
        """Give the sessions of a user that are awake, the newest first; not those that work for others."""
        sessions = self.supervisor.sessions(scope=owner.tenant_id)
        found = [one for one in reversed(sessions) if owner_of_session(one.facts.user_data) == owner]
        return [one for one in found if one.facts.root_id == one.session_id]


def profile_of_root(facts: SessionFacts) -> str | None:
    """Give the profile that a session was started with; None of one that works for another, which has no profile of its own."""
    return profile_of_session(facts.user_data) if facts.root_id == facts.session_id else None


def unknown(session_id: str, *, hint: str | None = None) -> SessionUnknown:
    """Say that there is no session of an id; of another's the same."""
    return SessionUnknown(f"there is no session {session_id!r}", hint=hint)


def already_there(session_id: str) -> AlreadyExists:
    """Say that a caller has a session of this id."""
    return AlreadyExists(
        f"session {session_id!r} is there already: send it a message, or leave session_id out"
    )


def refuse_child(facts: SessionFacts) -> None:
    """Refuse a session that works for another, where only a root will do."""
    if facts.root_id != facts.session_id:
        message = f"session {facts.session_id!r} works for {facts.root_id!r}: ask that one"
        raise SessionIsChild(message, root_id=facts.root_id)


def _log_that_it_stays(error: Unrevivable | JournalDrifted, profile: str) -> None:
    """Tell the operator why a session cannot go on, and what to do. Callers are told of a drift only where it is."""
    if isinstance(error, JournalDrifted):
        LOGGER.warning("profile %s: %s", profile, error)
        return
    missing = ", ".join(error.missing)
    advice = "give it to the profile again, and the session goes on as it was"
    LOGGER.warning(
        "session %r cannot go on: profile %r has no %s any more; %s",
        error.session_id,
        profile,
        missing,
        advice,
    )


def _handle_of(error: AlreadyStarted) -> Session:
    handle = error.handle
    assert isinstance(handle, Session)  # noqa: S101 - the supervisor made it
    return handle


async def has_no_cycle(session: Session) -> bool:
    """Say whether no cycle runs in a session, or waits for people there."""
    status = await session.status()
    return status.phase == "idle" and not status.suspended
