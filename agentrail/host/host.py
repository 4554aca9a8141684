"""A host: accepts messages for sessions, in the same steps for every entry point. Independent of HTTP."""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Final

import trio
from attrs import evolve, frozen

from agentrail.core.journal.step_explanation import ExplainedStep
from agentrail.core.policy.prompt_settings import PromptSettings
from agentrail.core.session.receipts import PromptReceipt, SteerReceipt
from agentrail.core.session.views import Snapshot
from agentrail.core.stack.loaded_stack import PluginEntry
from agentrail.errors import (
    AgentrailError,
    HostDraining,
    RequestUnknown,
)
from agentrail.frozen import EMPTY, thawed
from agentrail.host.admission import CommandsOfHost, Intake, mint_session
from agentrail.host.agent_profiles import (
    AgentProfile,
    ProfileContext,
    calling_profile,
    check_given_history,
    check_metadata,
)
from agentrail.host.attachments import Attachment
from agentrail.host.hook_payloads import (
    ChatRequest,
    HandledResponse,
    Principal,
    RequestKind,
)
from agentrail.host.host_options import HostOptions, ReadinessCheck
from agentrail.host.host_sessions import HostSessions, already_there, has_no_cycle, refuse_child
from agentrail.host.identity import DECIDE, SessionOwner, owner_of_session, profile_of_session, session_id_for
from agentrail.host.listed_session import ListedSession
from agentrail.host.plugin_chain import HookRunner, PluginOrder
from agentrail.host.plugin_life import PluginLife
from agentrail.host.quotas import DayBudgets
from agentrail.host.readiness import CheckResult, Readiness, Remark
from agentrail.host.request_run import HostParts, Sending, WhenBusy
from agentrail.host.requests import (
    HostRequest,
    OnDisconnect,
    RequestRecord,
    RequestTrack,
    key_of_requests,
)
from agentrail.host.session_feed import SessionFeed
from agentrail.host.session_list import ALIVE
from agentrail.host.session_order import USUAL_SORT, ListPlace
from agentrail.host.shutdown import ClosingPlan, decide_closing
from agentrail.host.tenant_rows import TreeFeed, plugin_rows
from agentrail.host.webhook_delivery import WebhookStatistics
from agentrail.host.workspace_files import WorkspaceEntry, WorkspaceFile, list_directory, read_workspace
from agentrail.messages import JsonObject, Message, SessionId, TokenUsage, TraceContext
from agentrail.runtime.arguments import Blocks
from agentrail.runtime.erasure_report import ForgottenUser
from agentrail.runtime.event_history import PageAsked, PageOfEvents
from agentrail.runtime.journal_inspection import InspectedState, JournalPage, WantedRecords
from agentrail.runtime.persistence import OnDrift
from agentrail.runtime.session_clock import now_ms
from agentrail.runtime.session_handle import Session
from agentrail.runtime.session_nodes import SessionPlace
from agentrail.runtime.session_rows import ASLEEP, phase_of
from agentrail.runtime.supervisor import SessionSupervisor
from agentrail.wire.inspection_rows import PluginRow
from agentrail.wire.rows import RowFilter

# Forgetting a user of a host: the supervisor's part, and the host's own records of their sessions.


class UsersOfHost:
    """User operations of a host other than sessions. See `Host.users`."""

    def __init__(self, parts: HostParts, intake: Intake, feeds: Callable[[], Iterable[SessionFeed]]) -> None:
        self._parts = parts
        self._intake = intake
        self._feeds = feeds

    async def forget(self, principal: Principal) -> ForgottenUser:
        """End a user's sessions, and erase conversations and memories. Idempotent: call again if cancelled."""
        owner, sessions = self._intake.owner_of(principal), self._parts.sessions
        spent = await self._parts.budgets.spendings_of(owner)
        told = await sessions.supervisor.forget_user(owner.user_id, tenant_id=owner.tenant_id)
        erased = [one for one in spent if (one.scope, one.root_id) in told.trees]
        if erased:
            await self._parts.budgets.keep_erased(owner, erased)
        for scope, session_id in told.trees:
            sessions.list.forget(scope, session_id)
            self.forget_session(owner, session_id)
        return told

    def forget_session(self, owner: SessionOwner, session_id: str) -> None:
        """Forget what the host itself knows of a session that was deleted with its records."""
        self._parts.book.forget_session(key_of_requests(owner, session_id))
        for feed in self._feeds():
            if feed.tenant_id == owner.tenant_id:
                feed.forget(session_id)


# The readiness checks of every host: its store, its supervisor and its plugins.


_BOUNDARY_SHARE: Final = 0.8
"""Share of the drain time to wait for turn boundaries. The rest is for the store."""


@frozen(eq=False)
class OwnChecks:
    """The checks of a host by name."""

    sessions: HostSessions
    life: PluginLife
    given: Mapping[str, ReadinessCheck]
    is_leaving: Callable[[], bool]

    def __call__(self) -> Mapping[str, ReadinessCheck]:
        own: dict[str, ReadinessCheck] = {
            "supervisor": self._check_supervisor,
            "plugins": self._check_plugins,
        }
        if self.sessions.has_store:
            own = {"store": self._check_store, **own}
        return {**own, **self.given}

    async def _check_store(self) -> Remark | None:
        supervisor = self.sessions.supervisor
        await supervisor.check_store()
        # Still ready: a balancer that left it out during an update would leave out all nodes of the old version.
        return Remark("sessions_need_newer") if (await supervisor.cluster_facts()).needs_newer else None

    async def _check_supervisor(self) -> None:
        if self.is_leaving() or self.sessions.supervisor.is_closing:
            message = "the host is being closed"
            raise HostDraining(message)
        await trio.lowlevel.checkpoint()

    async def _check_plugins(self) -> None:
        await trio.lowlevel.checkpoint()
        failed = self.life.failed_backgrounds
        if failed:
            message = f"the background tasks of these plugins have ended: {', '.join(failed)}"
            raise AgentrailError(message)


# A session as operators see it: its journal, past states, and explanations. It is neither woken nor taken
# over. Access is checked before: an `Inspected` is only created for a session of the caller's tenant, see
# `Host.inspected`.


@frozen(kw_only=True)
class Inspected:
    """Any session of a tenant, for operators who may inspect it."""

    session_id: SessionId
    tenant_id: str
    supervisor: SessionSupervisor
    plugins: Callable[[], Awaitable[Sequence[PluginEntry]]]

    async def find_records(self, wanted: WantedRecords) -> JournalPage:
        # Without a plugin filter, a missing profile does not prevent reading the journal.
        plugins = () if wanted.plugin is None else await self.plugins()
        return await self.supervisor.find_records(
            self.session_id, wanted, scope=self.tenant_id, plugins=plugins
        )

    async def plain_state_at(self, number: int, *, since: int | None = None) -> InspectedState:
        return await self.supervisor.plain_state_at(
            self.session_id, number, since=since, scope=self.tenant_id, plugins=await self.plugins()
        )

    async def explain_record(self, number: int) -> ExplainedStep:
        return await self.supervisor.explain_record(
            self.session_id, number, scope=self.tenant_id, plugins=await self.plugins()
        )


class Host:
    """Sessions for a product. Every call names its caller, and accesses no other user's session."""

    def __init__(
        self, options: HostOptions, parts: HostParts, life: PluginLife, nursery: trio.Nursery
    ) -> None:
        """Created by `open_host`."""
        self.options: HostOptions = options
        self._parts = parts
        self._life = life
        self.commands: CommandsOfHost = CommandsOfHost(options.commands, parts)
        self._intake = Intake(parts, options.limits, nursery, self.commands)
        checks = OwnChecks(parts.sessions, life, options.readiness_checks, lambda: self._is_leaving)
        self._readiness = Readiness(checks, options.check_timeout, nursery)
        self._feeds: list[SessionFeed] = []
        self.users: UsersOfHost = UsersOfHost(parts, self._intake, lambda: self._feeds)
        self._is_leaving = False
        self._plan: ClosingPlan | None = None
        self._drains_by: float | None = None

    @property
    def supervisor(self) -> SessionSupervisor:
        """The supervisor of its sessions."""
        return self._parts.sessions.supervisor

    @property
    def has_store(self) -> bool:
        """Whether its sessions are stored, so that there are journals."""
        return self._parts.sessions.has_store

    @property
    def is_draining(self) -> bool:
        """Whether new requests are refused."""
        return self._intake.is_closed

    # --- messages

    async def submit(  # noqa: PLR0913 - all that a caller may say of a message, by keyword
        self,
        request: ChatRequest,
        principal: Principal,
        *,
        kind: RequestKind = "chat",
        attachments: Sequence[Attachment] = (),
        when_busy: WhenBusy = "queue",
        on_disconnect: OnDisconnect | None = None,
        via: str | None = None,
        webhook: str | None = None,
        content: Blocks | None = None,
        settings: PromptSettings | None = None,
        history: Sequence[Message] = (),
        keep: bool = True,
        trace: TraceContext | Mapping[str, Any] | None = None,
        goes_on: bool = False,
    ) -> HandledResponse | HostRequest:
        """Accept a message, call the plugins, open or create its session, and return when the session has accepted it.

        Args:
            request: The message. If `agent_id` is empty, the session's profile or the default is used.
            principal: The caller.
            kind: How the answer is returned. `prompt` needs an existing session, the others create one.
            attachments: Files sent with the message.
            when_busy: Handling if its session is busy: queue the message, steer the cycle, or refuse it.
            on_disconnect: Handling if its caller disconnects. None: the host's option.
            via: Entry point of the message, recorded in the session's events.
            webhook: URL notified of its end and of approvals. None: the address of `webhooks`. The first sending counts.
            content: Blocks for the session. The message holds their words, which plugins judge. Not with files.
            settings: Model settings for this cycle, as in `Session.prompt`.
            history: Earlier conversation for a new session. See `create`. `HostRequest.repairs` lists its repairs.
            keep: Whether a session that this creates is kept. See `create`. An existing session stays as it is.
            trace: Trace of the caller, as in `Session.prompt`. Not for a message that steers.
            goes_on: Whether the model answers the conversation, as in `Session.go_on`. Only plugins get the message.

        Returns:
            An interceptor's answer, or the request. A message with a known `client_id` returns the same request.

        Raises:
            IdInvalid, PrincipalMismatch: The caller's move: an invalid id, or another user's name.
            SessionUnknown, SessionIsChild, ProfileUnknown, ProfileMismatch: The caller's move: unknown, or not usable here.
            AlreadyExists: The caller's move: a history for a session that exists already.
            TooLarge: The caller's move: the message, its files, metadata or history exceed a limit.
            WebhookInvalid, WebhooksOff: The caller's move: the address is not allowed, or this host sends no webhooks.
            QuotaReached, DayBudgetSpent: The caller's move: open sessions, webhooks or the day's budget are at their limit.
            ClientIdReused, SessionBusy, PromptError, PromptQueueFull, SteeringQueueFull: The caller's move.
            RequestRefused, PromptRefused, SessionRefused: A plugin of the host or of the session refused it.
            SessionDown, HostDraining: Its session has ended, or the host is closing.
            ProfileFailed, StoreUnavailable: It is temporarily impossible.
            Exception: Raised by a function of the operator.

        Cancellation: A message that plugins have let pass is still accepted. `on_disconnect` decides the rest.
        """
        sending = Sending(
            message_kind=kind,
            kind=kind,
            attachments=tuple(attachments),
            when_busy=when_busy,
            on_disconnect=on_disconnect or self.options.on_disconnect,
            via=via,
            webhook=webhook,
            content=content,
            settings=settings,
            history=check_given_history(history) if history != () else (),
            keep=keep,
            trace=trace,
            goes_on=goes_on,
        )
        return await self._intake.submit(request, principal, sending)

    async def steer(
        self, request: ChatRequest, principal: Principal, *, via: str | None = None
    ) -> HandledResponse | SteerReceipt | HostRequest:
        """Steer the running cycle of a session. In an idle session it is a prompt, and so a request.

        Args:
            request: The message. `session_id` names the session.
            principal: The caller.
            via: See `submit`.

        Returns:
            An interceptor's answer, the receipt of the steer, or the resulting request.

        Raises:
            Exception: See `submit` and `Session.steer`.

        Cancellation: See `submit`.
        """
        self._intake.check_open()
        owner = self._intake.check_sender(request, principal)
        sending = Sending(
            message_kind="steer", kind="prompt", on_disconnect=self.options.on_disconnect, via=via
        )
        self._intake.check_size(request, sending)
        facts = await self._intake.facts_for(owner, request, creates=False)
        session = await self._parts.sessions.open(facts, owner) if facts is not None else None
        if session is None or await has_no_cycle(session):
            return await self._intake.submit(request, principal, sending)
        agent_id = profile_of_session(session.facts.user_data) or ""
        handled = await self._intake.intercept("steer", evolve(request, agent_id=agent_id), principal)
        if handled is not None:
            return handled
        return await session.steer(request.message, client_id=request.client_id, via=via)

    async def respond(
        self, session_id: str, ref: str, response: str | int | JsonObject, principal: Principal
    ) -> HandledResponse | None:
        """Answer a question of a session, or of one that works for it.

        Args:
            session_id: Id of the session.
            ref: Id of the question.
            response: The answer, as in `Session.respond`.
            principal: The caller.

        Returns:
            An interceptor's answer. None if the session has the response.

        Raises:
            Exception: See `session_to_decide` and `Session.respond`.
        """
        session = await self.session_to_decide(session_id, principal)
        said = ChatRequest(
            message=response if isinstance(response, str) else "",
            tenant_id=principal.tenant_id,
            user_id=principal.user_id,
            agent_id=profile_of_session(session.facts.user_data) or "",
            session_id=session.session_id,
            metadata={"ref": ref}
            if isinstance(response, str)
            else {"ref": ref, "response": thawed(response)},
        )
        handled = await self._intake.intercept("respond", said, principal)
        if handled is None:
            await session.respond(ref, response, user=principal.user_id)
        return handled

    # --- sessions

    async def owner_of(
        self, session_id: str, scope: str, *, is_fresh: bool = False, is_read: bool = False
    ) -> SessionPlace:
        """Return the node that owns a session of a tenant. See `SessionNodes.owner_of`."""
        nodes = self.supervisor.nodes
        return await nodes.owner_of(session_id, scope=scope, is_fresh=is_fresh, is_read=is_read)

    async def profile_for(self, principal: Principal, agent_id: str) -> AgentProfile:
        """Return a profile for a new session of a caller.

        Raises:
            ProfileUnknown: The caller's move: there is no such profile.
            Exception: See `submit`.
        """
        owner = self._intake.owner_of(principal)
        context = ProfileContext(
            tenant_id=owner.tenant_id, user_id=owner.user_id, session_id=mint_session(), agent_id=agent_id
        )
        return await self._parts.sessions.profile(context)

    async def session(
        self,
        session_id: str,
        principal: Principal,
        *,
        only_root: bool = False,
        on_drift: OnDrift | None = None,
    ) -> Session:
        """Return the handle of a caller's session. A session that is only in the store is woken.

        Args:
            session_id: Id of the session. One that works for another belongs to that one's owner.
            principal: The caller.
            only_root: Whether it must be a root session.
            on_drift: Handling of drift if it must be woken. See `SessionSupervisor.resume_session`.

        Raises:
            IdInvalid: The caller's move: an invalid id.
            SessionUnknown: It does not exist, or belongs to another user.
            SessionIsChild: It works for another session.
            SessionDown: It has ended.
            Exception: See `SessionSupervisor.resume_session`, and `ProfileFailed`.
        """
        owner = self._intake.owner_of(principal)
        sessions = self._parts.sessions
        facts = await sessions.facts(owner, session_id)
        if only_root:
            refuse_child(facts)
        return await sessions.open(facts, owner, on_drift=on_drift)

    async def session_to_decide(self, session_id: str, principal: Principal) -> Session:
        """Return the handle of a session whose pending approvals and questions a caller may decide.

        Another user's session needs the scope `decide`, or a place among the `approvers` of its profile. Use
        the handle for nothing else: the rest of the session remains its owner's.

        Args:
            session_id: The session, or a child that asks.
            principal: The caller.

        Raises:
            SessionUnknown: No such session, or it is another user's and the caller has neither right.
            Exception: See `session`.
        """
        owner = self._intake.owner_of(principal)
        sessions = self._parts.sessions
        facts = await sessions.facts_to_decide(owner, session_id, may_decide=DECIDE in principal.scopes)
        return await sessions.open(facts, owner_of_session(facts.user_data) or owner)

    async def break_on(self, session_id: str, principal: Principal, tool: str = "*") -> None:
        """Set a breakpoint in a session whose pending approvals the caller may decide. See `Session.break_on`."""
        await (await self.session_to_decide(session_id, principal)).break_on(tool)

    async def unbreak(self, session_id: str, principal: Principal, tool: str = "*") -> None:
        """End a breakpoint. See `break_on` and `Session.unbreak`."""
        await (await self.session_to_decide(session_id, principal)).unbreak(tool)

    async def session_to_read(self, session_id: str, principal: Principal) -> Session:
        """Return a caller's session like `session`, or the readable remains of one that ended within five minutes.

        Raises:
            Exception: See `session`.
        """
        owner = self._intake.owner_of(principal)
        ended = self._parts.sessions.ended_of(owner, session_id)
        try:
            return await self.session(session_id, principal)
        except AgentrailError:
            if ended is None:
                raise
            return ended

    async def stored_snapshot(self, session: Session) -> Snapshot | None:
        """Return the snapshot of a hibernated session from its journal, without waking it. None if it is awake."""
        if phase_of(session) != ASLEEP:
            return None
        plugins = await self._parts.sessions.plugins_of(session.facts)
        past = await self.supervisor.stored_state(session.session_id, scope=session.scope, plugins=plugins)
        slept_ms = max(now_ms() - past.at_ms, 0)
        status = evolve(past.status, uptime_ms=past.status.uptime_ms + slept_ms)
        return evolve(past.snapshot, status=status, first_seq=1)

    async def read_events(self, session_id: str, principal: Principal, asked: PageAsked) -> PageOfEvents:
        """Read a page of the events of a caller's session. It is not woken, and may have ended in the store.

        Raises:
            SessionUnknown, IdInvalid, SessionDown: See `session`. An ended session can be read while it is known.
            Exception: See `SessionSupervisor.events_page`.
        """
        owner, sessions = self._intake.owner_of(principal), self._parts.sessions
        return await sessions.events_of(
            await sessions.facts_to_read(owner, session_id), owner.tenant_id, asked
        )

    async def create(  # noqa: PLR0913 - all that a caller may say of a session, by keyword
        self,
        principal: Principal,
        *,
        agent_id: str = "",
        session_id: str | None = None,
        model: str | None = None,
        metadata: JsonObject = EMPTY,
        history: Sequence[Message] = (),
        keep: bool = True,
        tool_call: tuple[str, JsonObject] | None = None,
        client_id: str | None = None,
    ) -> Session:
        """Create a session without a message.

        Args:
            principal: Owner of the session.
            agent_id: Id of the profile. Empty: the default.
            session_id: Id of the session. None: minted.
            model: Replaces the profile's model.
            metadata: The caller's metadata, stored in `user_data["metadata"]`.
            history: Earlier conversation, as in `SessionOptions.messages`: at most 1,000 messages, of 4 MB as JSON. It is
                repaired, and cannot approve a call. `import_messages` lists the repairs beforehand.
            keep: False for a temporary session: it is in no list, and deleted from the store when it ends, at the latest
                ten minutes after its last cycle, also by the next process. Its forks are temporary too.
            tool_call: Name and arguments of a tool. The first message makes this call, in place of a model.
            client_id: Name of the caller, from which the id is derived, as in `submit`. In place of `session_id`.

        Raises:
            SessionUnknown: Another user's session has this id.
            AlreadyExists: The caller's move: one of their own sessions has it.
            TooLarge, OptionError: The caller's move: metadata that is too large, too deep, or not JSON, or a history that
                is too large, or not a sequence of messages.
            Exception: See `submit`.
        """
        self._intake.check_open()
        owner = self._intake.owner_of(principal)
        check_metadata(metadata, self.options.limits)
        messages = check_given_history(history)
        wanted = mint_session() if session_id is None else SessionId(session_id)
        sessions = self._parts.sessions
        if client_id is not None:
            wanted = session_id_for(owner, client_id)
        elif await sessions.facts_or_none(owner, wanted) is not None:
            raise already_there(wanted)
        context = ProfileContext(
            tenant_id=owner.tenant_id,
            user_id=owner.user_id,
            session_id=wanted,
            agent_id=agent_id or sessions.profiles.default_id,
        )
        profile = await sessions.profile(context)
        if tool_call is not None:
            profile = calling_profile(profile, *tool_call)
        session, is_new = await sessions.create(
            profile, context, model=model, metadata=metadata, history=messages, keep=keep
        )
        if not is_new:
            raise already_there(wanted)
        sessions.keep(session)
        return session

    def sessions_of(self, principal: Principal) -> Sequence[Session]:
        """Return the caller's sessions that are awake, newest first."""
        return self._parts.sessions.live_of(self._intake.owner_of(principal))

    async def list_sessions(  # noqa: PLR0913 - what is said of a list, by keyword
        self,
        principal: Principal,
        *,
        wanted: RowFilter = ALIVE,
        sort: str = USUAL_SORT,
        behind: ListPlace | None = None,
        limit: int = 50,
        of_tenant: bool = False,
    ) -> tuple[ListedSession, ...]:
        """List the caller's sessions, including those that are only in the store. None is woken.

        Args:
            principal: The caller.
            wanted: Filter. Its own limit is ignored.
            sort: One of `SORTS`, with a leading `-` for descending order.
            behind: Place of the last known session. None to start at the beginning.
            limit: Maximum number of sessions.
            of_tenant: Whether to list the sessions of all users of the tenant, for operators.

        Raises:
            StoreUnavailable: The store cannot be read now.
        """
        owner = self._intake.owner_of(principal)
        user_id = None if of_tenant else owner.user_id
        listing = self._parts.sessions.list
        return await listing.page(
            owner.tenant_id, user_id, wanted=wanted, sort=sort, behind=behind, limit=limit
        )

    def session_feed(self, tenant_id: str) -> SessionFeed:
        """Create a feed of a tenant's sessions as rows. It has rows while it runs.

        Args:
            tenant_id: Id of the tenant. Access is checked where rows are shown.
        """
        feed = SessionFeed(self._parts.sessions, tenant_id)
        self._feeds = [one for one in self._feeds if not one.is_over]
        self._feeds.append(feed)
        return feed

    def tree_feed(self, tenant_id: str) -> TreeFeed:
        """Create a feed of a tenant's supervision tree as rows, for operators."""
        return TreeFeed(self.supervisor, tenant_id)

    def plugin_rows(self, tenant_id: str) -> Mapping[str, PluginRow]:
        """Return the host's plugins, in order, and those of a tenant's sessions, by key. For operators."""
        return plugin_rows(self.plugins, self.hooks, self.supervisor.plugin_use(scope=tenant_id))

    async def delete_session(self, session_id: str, principal: Principal, *, purge: bool = False) -> None:
        """End a caller's session. A session that has already ended stays ended.

        Args:
            session_id: Id of a root session.
            principal: The caller.
            purge: Whether nothing of it is kept: the store deletes it, with all sessions that work for it.

        Raises:
            StillNeeded: The store cannot delete it: it has forks, or another node owns it.
            Exception: See `session`.

        Cancellation: The session still ends. It is unknown whether the store deletes it.
        """
        owner = self._intake.owner_of(principal)
        counting = partial(self._parts.budgets.counting, owner, session_id)
        await self._parts.sessions.delete(owner, session_id, purge=purge, counting=counting)
        self._parts.sessions.list.forget(owner.tenant_id, session_id)
        if purge:
            self.users.forget_session(owner, session_id)

    async def fork_session(
        self,
        session_id: str,
        principal: Principal,
        *,
        at: int | None = None,
        turn: int | None = None,
        wanted: str | None = None,
    ) -> tuple[Session, int]:
        """Fork a caller's session from a record.

        Args:
            session_id: Id of a root session to fork.
            principal: The caller.
            at: Fork after this record. None: after the last one.
            turn: Fork after this turn, instead of a record.
            wanted: Id of the fork. None: minted.

        Returns:
            The fork, and the number of the record after which it starts.

        Raises:
            AlreadyExists: The caller's move: one of their own sessions has this id.
            Exception: See `session` and `Session.fork`.

        Cancellation: See `Session.fork`.
        """
        self._intake.check_open()
        owner = self._intake.owner_of(principal)
        fork_id = mint_session() if wanted is None else SessionId(wanted)
        return await self._parts.sessions.fork(owner, session_id, fork_id, at=at, turn=turn)

    async def list_files(
        self, session_id: str, principal: Principal, path: str = ""
    ) -> tuple[WorkspaceEntry, ...]:
        """List a directory of a session's workspace.

        Raises:
            FileUnknown, FilesUnsupported: See `workspace_files.list_directory`.
            Exception: See `session`.
        """
        session = await self.session(session_id, principal)
        await self._parts.sessions.check_shows_files(session)
        return await list_directory(session, path)

    async def read_file(self, session_id: str, principal: Principal, path: str) -> WorkspaceFile:
        """Read a file of a session's workspace.

        Raises:
            FileUnknown, FilesUnsupported, TooLarge: See `workspace_files.read_workspace`.
            Exception: See `session`.
        """
        session = await self.session(session_id, principal)
        await self._parts.sessions.check_shows_files(session)
        return await read_workspace(session, path)

    # --- for operators: access was checked before

    async def inspected(self, session_id: str, principal: Principal) -> Inspected:
        """Return the past of any session of the tenant. It is not woken, and may have ended.

        Args:
            session_id: Id of the session.
            principal: The caller, with the right to inspect.

        Raises:
            SessionUnknown: The tenant has no session with this id.
        """
        tenant_id, sessions = self._intake.owner_of(principal).tenant_id, self._parts.sessions
        facts = await sessions.of_tenant(tenant_id, session_id)
        return Inspected(
            session_id=facts.session_id,
            tenant_id=tenant_id,
            supervisor=self.supervisor,
            plugins=partial(sessions.plugins_of, facts),
        )

    async def inspect_events(self, session_id: str, principal: Principal, asked: PageAsked) -> PageOfEvents:
        """Read a page of the events of any session of the tenant. It is not woken, and may have ended.

        Raises:
            SessionUnknown: The tenant has no session with this id.
            Exception: See `SessionSupervisor.events_page`.
        """
        tenant_id = self._intake.owner_of(principal).tenant_id
        facts = await self._parts.sessions.of_tenant(tenant_id, session_id)
        return await self._parts.sessions.events_of(facts, tenant_id, asked)

    async def inspect_messages(
        self, session_id: str, principal: Principal
    ) -> tuple[tuple[Message, ...], TokenUsage]:
        """Return the conversation of any session of the tenant, and its total usage.

        It is not woken, and may have ended in the store.

        Args:
            session_id: Id of the session.
            principal: The caller, with the right to inspect.

        Raises:
            SessionUnknown: The tenant has no session with this id.
            Exception: See `Session.messages` and `SessionSupervisor.stored_state`.
        """
        tenant_id = self._intake.owner_of(principal).tenant_id
        facts = await self._parts.sessions.of_tenant(tenant_id, session_id)
        return await self._parts.sessions.conversation(facts, tenant_id)

    # --- requests as resources

    async def request(self, session_id: str, request_id: str, principal: Principal) -> RequestRecord:
        """Return the record of a request.

        Raises:
            SessionUnknown: The session does not exist, or belongs to another user.
            RequestUnknown: The session has no request with this id, or it was forgotten.
        """
        return (await self._track(session_id, request_id, principal)).record

    async def wait_for_request(
        self, session_id: str, request_id: str, principal: Principal, *, within: float
    ) -> RequestRecord:
        """Wait until a request ends, at most `within` seconds, and return its record.

        Raises:
            Exception: See `request`.
        """
        track = await self._track(session_id, request_id, principal)
        with trio.move_on_after(within):
            await track.wait_changed(lambda _: False)
        return track.record

    async def cancel_request(
        self, session_id: str, request_id: str, principal: Principal, reason: str | None = None
    ) -> None:
        """Abort the cycle of a request, or remove its prompt from the queue.

        Raises:
            RequestOver: The caller's move: it has ended.
            Exception: See `request`.
        """
        await (await self.request_again(session_id, request_id, principal)).cancel(reason)

    async def request_again(self, session_id: str, request_id: str, principal: Principal) -> HostRequest:
        """Return the handle of an earlier request, which continues without its caller. Raises as `request` does."""
        track = await self._track(session_id, request_id, principal)
        session = await self.session(session_id, principal)
        receipt = PromptReceipt(ref=track.standing.ref, queued=False, seq=track.record.seq)
        return HostRequest(session, receipt, track, kind="prompt", on_disconnect="continue")

    # --- status

    async def ready(self) -> tuple[CheckResult, ...]:
        """Run all readiness checks at once: store, supervisor, plugins and the operator's own.

        Concurrent callers share one result.

        Returns:
            One result per check. The host is not ready if any has an error.

        Raises:
            HostDraining: It was closed.

        Cancellation: Safe, other callers still get the result.
        """
        return await self._readiness.look()

    @property
    def plugins(self) -> PluginOrder:
        """Its plugins, in order."""
        return self._parts.order

    @property
    def budgets(self) -> DayBudgets:
        """Daily budgets and spending, for operators."""
        return self._parts.budgets

    @property
    def hooks(self) -> HookRunner:
        """The hook runner, with failure counts and stuck hooks."""
        return self._parts.runner

    @property
    def webhooks(self) -> WebhookStatistics | None:
        """Webhook statistics. None if the host sends none."""
        return None if self._parts.delivery is None else self._parts.delivery.statistics()

    async def follow_awaited(self) -> None:
        """Follow requests of earlier processes with outstanding webhooks. For `open_host`."""
        await self._intake.follow_awaited()

    async def quiet(self) -> None:
        """Wait until no request is open, including hooks.

        Cancellation: Safe, nothing is lost.
        """
        await self._intake.quiet()

    def fail_readiness(self) -> None:
        """Make `ready` fail while everything else continues, so that load balancers notice first."""
        self._is_leaving = True

    def close_door(self) -> None:
        """Refuse new requests. Open requests continue."""
        self._is_leaving = True
        self._intake.close()

    def begin_closing(self) -> ClosingPlan:
        """Start the closing time, `shutdown_timeout` in total, and return its plan. Later calls return the same plan."""
        if self._plan is None:
            has_store = self._parts.sessions.has_store
            now = trio.current_time()
            self._plan = decide_closing(now, self.options.shutdown_timeout, has_store=has_store)
        return self._plan

    async def drain(self, within: float | None = None) -> None:
        """Refuse new requests, and wait for running ones. Does not wait for pending approvals.

        A second call waits no longer than the first.

        Args:
            within: Time limit in seconds. None: `drain_timeout`, limited by `shutdown_timeout`.

        Cancellation: New requests stay refused, and later calls do not wait.
        """
        self.close_door()
        if self._drains_by is None:
            now = trio.current_time()
            usual = min(now + self.options.drain_timeout, self.begin_closing().cycles_by)
            self._drains_by = usual if within is None else now + within
        try:
            with trio.CancelScope(deadline=self._drains_by):
                if self.supervisor.nodes.node is not None:  # other nodes continue the cycles
                    left = self._drains_by - trio.current_time()
                    await self.supervisor.drain(max(left * _BOUNDARY_SHARE, 0.0))
                for run in self._intake.runs:
                    await run.decided.wait()
                    if run.request is not None:
                        await run.request.settled()
        except trio.Cancelled:
            self.skip_drain()
            raise

    def skip_drain(self) -> None:
        """Stop waiting for cycles, at the user's request."""
        self._drains_by = trio.current_time()

    async def end_requests(self) -> None:
        """End all open requests as `shutdown`, and wait for their remaining hooks. For `open_host`."""
        self.close_door()
        for run in self._intake.runs:
            run.shut_down()
        await self._intake.quiet()

    def close(self) -> None:
        """Close the readiness checks. For `open_host`."""
        self._readiness.close()

    def cut_hooks(self) -> None:
        """Cancel the remaining hooks of requests because no time is left. For `open_host`."""
        for run in self._intake.runs:
            run.cut()

    # --- helpers

    async def _track(self, session_id: str, request_id: str, principal: Principal) -> RequestTrack:
        owner = self._intake.owner_of(principal)
        ended = self._parts.sessions.ended_of(owner, session_id)
        facts = None if ended is not None else await self._parts.sessions.facts(owner, session_id)
        key = key_of_requests(owner, session_id)
        track = self._parts.book.find(key, request_id)
        if track is not None and track.record.has_moved:
            # Reported once at most: the session may return to this node, or be without an owner.
            self._parts.book.forget_lost(key, request_id)
            track = None if facts is not None and facts.is_here else track
        if track is None and facts is not None and not facts.has_ended:
            session = await self._parts.sessions.open(facts, owner)
            track = await self._intake.recall(key, session, request_id)
        if track is None:
            message = f"session {session_id!r} has no request with this id, or no longer keeps it"
            raise RequestUnknown(message)
        return track
