"""A host: it takes messages for sessions, in one order of work, whatever door they come through.

Steps 4 to 6 of a request stand here, in the task of its caller; the rest is carried in a task of the host's own (`carrying`). Knows no
HTTP: a gateway turns bodies into these calls, and what they raise into its answers.
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import partial

import trio
from attrs import evolve, frozen

from agentrail.core.journal.explaining import ExplainedStep
from agentrail.core.policy.prompt_settings import PromptSettings
from agentrail.core.session.receipts import PromptReceipt, SteerReceipt
from agentrail.core.stack.loading import PluginEntry
from agentrail.errors import (
    AgentrailError,
    HostDraining,
    RequestUnknown,
)
from agentrail.frozen import EMPTY, thawed
from agentrail.host.attachments import Attachment
from agentrail.host.carrying import HostParts, WhenBusy
from agentrail.host.closing import ClosingPlan, decide_closing
from agentrail.host.hooks import HookRunner, PluginOrder
from agentrail.host.host_options import HostOptions, ReadinessCheck
from agentrail.host.host_sessions import HostSessions, already_there, has_no_cycle, refuse_child
from agentrail.host.identity import DECIDE, owner_of_session, profile_of_session
from agentrail.host.inspected_rows import TreeFeed, plugin_rows
from agentrail.host.intake import CommandsOfHost, Intake, Sending, mint_session
from agentrail.host.limits import DayBudgets
from agentrail.host.listed_session import ListedSession
from agentrail.host.payloads import (
    ChatRequest,
    HandledResponse,
    Principal,
    RequestKind,
)
from agentrail.host.plugin_life import PluginLife
from agentrail.host.profiles import ProfileContext, check_metadata
from agentrail.host.readiness import CheckResult, Readiness
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
from agentrail.host.webhook_delivery import WebhookStatistics
from agentrail.host.workspace_files import WorkspaceEntry, WorkspaceFile, list_directory, read_workspace
from agentrail.messages import JsonObject, Message, SessionId, TokenUsage
from agentrail.runtime.arguments import Blocks
from agentrail.runtime.forgetting import ForgottenUser
from agentrail.runtime.handle import Session
from agentrail.runtime.inspecting import InspectedState, JournalPage, WantedRecords
from agentrail.runtime.keeping import OnDrift
from agentrail.runtime.past_events import PageAsked, PageOfEvents
from agentrail.runtime.supervisor import SessionSupervisor
from agentrail.wire.inspected_rows import PluginRow
from agentrail.wire.rows import RowFilter

# Forgetting a caller of a host: what its supervisor does, and what the host itself still knows of their sessions.


class UsersOfHost:
    """What a host does for its users besides their sessions; `Host.users`."""

    def __init__(self, parts: HostParts, intake: Intake, feeds: Callable[[], Iterable[SessionFeed]]) -> None:
        """Made by the host."""
        self._parts = parts
        self._intake = intake
        self._feeds = feeds

    async def forget(self, principal: Principal) -> ForgottenUser:
        """Forget a caller: end their sessions, erase what was said in them, and remove what is remembered of them. Again is fine.

        Cancellation: What is done stays done: call again.
        """
        owner, sessions = self._intake.owner_of(principal), self._parts.sessions
        told = await sessions.supervisor.forget_user(owner.user_id, tenant_id=owner.tenant_id)
        for scope, session_id in told.trees:
            sessions.list.forget(scope, session_id)
            self._parts.book.forget_session(key_of_requests(owner, session_id))
            for feed in self._feeds():
                if feed.tenant_id == scope:
                    feed.forget(session_id)
        return told


# The readiness checks of every host: its store, its supervisor and its plugins.


@frozen(eq=False)
class OwnChecks:
    """The checks of a host by name."""

    sessions: HostSessions
    life: PluginLife
    given: Mapping[str, ReadinessCheck]
    is_leaving: Callable[[], bool]

    def __call__(self) -> Mapping[str, ReadinessCheck]:
        """Return all of them; the store is among them where there is one."""
        own: dict[str, ReadinessCheck] = {
            "supervisor": self._check_supervisor,
            "plugins": self._check_plugins,
        }
        if self.sessions.has_store:
            own = {"store": self._check_store, **own}
        return {**own, **self.given}

    async def _check_store(self) -> None:
        await self.sessions.supervisor.check_store()

    async def _check_supervisor(self) -> None:
        if self.is_leaving() or self.sessions.supervisor.is_closing:
            message = "the host is being closed"
            raise HostDraining(message)
        await trio.lowlevel.checkpoint()

    async def _check_plugins(self) -> None:
        await trio.lowlevel.checkpoint()
        failed = self.life.failed_backgrounds
        if failed:
            message = f"these plugins do nothing in the background any more: {', '.join(failed)}"
            raise AgentrailError(message)


# A session as who looks after it sees it: its journal, what it was, and why it did what it did. It is neither woken nor taken. Who may
# look was decided before: a `Inspected` is made for a session of the tenant of its caller alone, see `Host.inspected`.


@frozen(kw_only=True)
class Inspected:
    """A session of any user of a tenant, for who may inspect it.

    Attributes:
        session_id: Which one.
        tenant_id: Of which tenant.
        supervisor: Who keeps it.
        plugins: Gives the code of its plugins, as its profile has it now.
    """

    session_id: SessionId
    tenant_id: str
    supervisor: SessionSupervisor
    plugins: Callable[[], Awaitable[Sequence[PluginEntry]]]

    async def find_records(self, wanted: WantedRecords) -> JournalPage:
        """Find records in its journal."""
        # Where no plugin is asked for, a profile that is gone keeps no journal from being read.
        plugins = () if wanted.plugin is None else await self.plugins()
        return await self.supervisor.find_records(
            self.session_id, wanted, scope=self.tenant_id, plugins=plugins
        )

    async def plain_state_at(self, number: int, *, since: int | None = None) -> InspectedState:
        """Say what it was behind a record as plain data, and what changed since another one."""
        return await self.supervisor.plain_state_at(
            self.session_id, number, since=since, scope=self.tenant_id, plugins=await self.plugins()
        )

    async def explain_record(self, number: int) -> ExplainedStep:
        """Say what a record came to, and why."""
        return await self.supervisor.explain_record(
            self.session_id, number, scope=self.tenant_id, plugins=await self.plugins()
        )


class Host:
    """Sessions behind a product. Every call says who is calling, and touches no session of another."""

    def __init__(
        self, options: HostOptions, parts: HostParts, life: PluginLife, nursery: trio.Nursery
    ) -> None:
        """Made by `open_host`."""
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
        """Whether its sessions are kept, so that there are journals."""
        return self._parts.sessions.has_store

    @property
    def is_draining(self) -> bool:
        """Whether it takes no new request."""
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
    ) -> HandledResponse | HostRequest:
        """Take a message, ask the plugins, open or create its session, and return when the session has accepted it.

        Args:
            request: What it says. `agent_id` may be empty: then it is the session's, else the default.
            principal: Who is calling.
            kind: How the answer is wanted; `prompt` needs a session that there is, the others create one.
            attachments: Files that came with it.
            when_busy: What becomes of it where its session is at work: it waits, goes into the cycle as a steer, or is refused.
            on_disconnect: What becomes of it when its caller leaves; None for what the host was opened with.
            via: The door that it came through; in the session's events.
            webhook: Where its end is told, and that it waits for people; None for the address of `webhooks`, where that has one. Of a
                message that is sent again the first one counts.
            content: Blocks that the session gets in place of the message, whose words are theirs: plugins judge those. Without files.
            settings: What is wanted of the model for this cycle, as of `Session.prompt`.

        Returns:
            What an interceptor answered; or the request. The same one again for a message whose `client_id` is known.

        Raises:
            IdInvalid, PrincipalMismatch: The caller's move: an id that is none, or another's name.
            SessionUnknown, SessionIsChild, ProfileUnknown, ProfileMismatch: The caller's move: there is none, or not for this.
            RequestRefused: A plugin does not let it pass.
            WebhookInvalid, WebhooksOff: The caller's move: nothing may be sent there, or this host sends none.
            QuotaReached: The caller's move: too many sessions are open, or too many webhooks are not taken.
            DayBudgetSpent: The caller's move: they, or all of their tenant, have spent what they may in a day.
            ClientIdReused, SessionBusy, PromptError, PromptQueueFull, SteeringQueueFull: The caller's move.
            PromptRefused, SessionRefused: A session plugin does not want it.
            SessionDown: Its session has ended.
            HostDraining: The host is being closed.
            ProfileFailed, StoreUnavailable: It cannot be done now.
            Exception: What a function of the operator raised.

        Cancellation: A message that plugins have let pass goes on: it is accepted all the same, and then goes the way of
            `on_disconnect`.
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
        )
        return await self._intake.submit(request, principal, sending)

    async def steer(
        self, request: ChatRequest, principal: Principal, *, via: str | None = None
    ) -> HandledResponse | SteerReceipt | HostRequest:
        """Speak into the cycle that runs in a session. In idle it is a prompt, and so a request.

        Args:
            request: What it says; `session_id` names the session.
            principal: Who is calling.
            via: As of `submit`.

        Returns:
            What an interceptor answered; the receipt of the steer; or the request that it became.

        Raises:
            Exception: As of `submit`; and as of `Session.steer`.

        Cancellation: As of `submit`.
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
            session_id: Which session.
            ref: Which question.
            response: As of `Session.respond`.
            principal: Who is calling.

        Returns:
            What an interceptor answered; None where the session has the answer.

        Raises:
            Exception: As of `session_to_decide`, and of `Session.respond`.
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

    async def session(
        self,
        session_id: str,
        principal: Principal,
        *,
        only_root: bool = False,
        on_drift: OnDrift | None = None,
    ) -> Session:
        """Give the handle of a session of a caller; one that is in the store alone is woken.

        Args:
            session_id: Which one; one that works for another belongs to whom that belongs.
            principal: Who is calling.
            only_root: Whether it has to be one that no other one started.
            on_drift: Where it has to be woken: as of `SessionSupervisor.resume_session`.

        Raises:
            IdInvalid: The caller's move: it is no id.
            SessionUnknown: There is none, as far as this caller may know.
            SessionIsChild: It works for another.
            SessionDown: It has ended.
            Exception: As of `SessionSupervisor.resume_session`, and `ProfileFailed`.
        """
        owner = self._intake.owner_of(principal)
        sessions = self._parts.sessions
        facts = await sessions.facts(owner, session_id)
        assert facts is not None  # noqa: S101 - else it is unknown
        if only_root:
            refuse_child(facts)
        return await sessions.open(facts, owner, on_drift=on_drift)

    async def session_to_decide(self, session_id: str, principal: Principal) -> Session:
        """Return the handle of a session whose pending approvals and questions a caller may decide: their own, or another user's.

        Another user's session needs the scope `decide`, or a place among the `approvers` of its profile. Use the handle to decide, and for
        nothing else: the rest of the session remains its owner's.

        Args:
            session_id: The session, or a child that asks.
            principal: The caller.

        Raises:
            SessionUnknown: No such session, or it is another user's and the caller has neither right.
            Exception: As of `session`.
        """
        owner = self._intake.owner_of(principal)
        sessions = self._parts.sessions
        facts = await sessions.facts_to_decide(owner, session_id, may_decide=DECIDE in principal.scopes)
        return await sessions.open(facts, owner_of_session(facts.user_data) or owner)

    async def session_to_read(self, session_id: str, principal: Principal) -> Session:
        """Give a session of a caller as `session` does; of one that ended within five minutes what can still be read.

        Raises:
            Exception: As of `session`.
        """
        owner = self._intake.owner_of(principal)
        ended = self._parts.sessions.ended_of(owner, session_id)
        try:
            return await self.session(session_id, principal)
        except AgentrailError:
            if ended is None:
                raise
            return ended

    async def read_events(self, session_id: str, principal: Principal, asked: PageAsked) -> PageOfEvents:
        """Read a part of what a session of a caller has published. It is not woken, and may have ended in the store.

        Raises:
            SessionUnknown, IdInvalid, SessionDown: As of `session`; one that has ended is read as long as it is known.
            Exception: As of `SessionSupervisor.events_page`.
        """
        owner, sessions = self._intake.owner_of(principal), self._parts.sessions
        return await sessions.events_of(
            await sessions.facts_to_read(owner, session_id), owner.tenant_id, asked
        )

    async def create(
        self,
        principal: Principal,
        *,
        agent_id: str = "",
        session_id: str | None = None,
        model: str | None = None,
        metadata: JsonObject = EMPTY,
    ) -> Session:
        """Create a session without a message.

        Args:
            principal: Whose it is to be.
            agent_id: Of the profile; empty for the default.
            session_id: Its id; minted when None.
            model: Instead of the profile's.
            metadata: What the caller says of it: kept with it, as `user_data["metadata"]`.

        Raises:
            SessionUnknown: Another user's has this id.
            AlreadyExists: The caller's move: one of theirs has it.
            TooLarge, OptionError: The caller's move: metadata that is too large or too deep, or no JSON.
            Exception: As of `submit`.
        """
        self._intake.check_open()
        owner = self._intake.owner_of(principal)
        check_metadata(metadata, self.options.limits)
        wanted = mint_session() if session_id is None else SessionId(session_id)
        sessions = self._parts.sessions
        if await sessions.facts(owner, wanted, creates=True) is not None:
            raise already_there(wanted)
        context = ProfileContext(
            tenant_id=owner.tenant_id,
            user_id=owner.user_id,
            session_id=wanted,
            agent_id=agent_id or sessions.profiles.default_id,
        )
        profile = await sessions.profile(context)
        session, is_new = await sessions.create(profile, context, model=model, metadata=metadata)
        if not is_new:
            raise already_there(wanted)
        sessions.keep(session)
        return session

    def sessions_of(self, principal: Principal) -> Sequence[Session]:
        """Give the sessions of a caller that are awake, the newest first."""
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
        """Give the sessions of a caller, also those that are in the store alone. None is woken.

        Args:
            principal: Who is calling.
            wanted: Which ones; its own limit is not looked at.
            sort: One of `SORTS`, with `-` in front for the greatest first.
            behind: The place of the last one that is known already; None to begin.
            limit: How many at most.
            of_tenant: Whether those of all users of the tenant are meant, for who may inspect them.

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
        """Make what follows the sessions of a tenant as rows; there are rows as long as it is run.

        Args:
            tenant_id: Whose; who may see which of them is looked at where they are shown.
        """
        feed = SessionFeed(self._parts.sessions, tenant_id)
        self._feeds = [one for one in self._feeds if not one.is_over]
        self._feeds.append(feed)
        return feed

    def tree_feed(self, tenant_id: str) -> TreeFeed:
        """Make what follows the supervision tree of a tenant as rows, for who may inspect."""
        return TreeFeed(self.supervisor, tenant_id)

    def plugin_rows(self, tenant_id: str) -> Mapping[str, PluginRow]:
        """Give the plugins of the host, in their order, and those of the sessions of a tenant, by key; for who may inspect."""
        return plugin_rows(self.plugins, self.hooks, self.supervisor.plugin_use(scope=tenant_id))

    async def delete_session(self, session_id: str, principal: Principal, *, purge: bool = False) -> None:
        """End a session of a caller; one that has ended stays so.

        Args:
            session_id: Which one; of a root.
            principal: Who is calling.
            purge: Whether the store forgets it too, with all that works for it.

        Raises:
            StillNeeded: The store cannot forget it: it has forks, or another node owns it.
            Exception: As of `session`.

        Cancellation: The session ends all the same; whether the store forgets it is not known.
        """
        owner = self._intake.owner_of(principal)
        await self._parts.sessions.delete(owner, session_id, purge=purge)
        if purge:
            self._parts.book.forget_session(key_of_requests(owner, session_id))
            for feed in self._feeds:
                if feed.tenant_id == owner.tenant_id:
                    feed.forget(session_id)

    async def fork_session(
        self,
        session_id: str,
        principal: Principal,
        *,
        at: int | None = None,
        turn: int | None = None,
        wanted: str | None = None,
    ) -> tuple[Session, int]:
        """Begin a session that goes on from a record of another one of the same caller.

        Args:
            session_id: Which one is forked; of a root.
            principal: Who is calling.
            at: Behind which record; None for the last one.
            turn: Behind which turn, in place of a record.
            wanted: The id of the fork; minted when None.

        Returns:
            The fork, and behind which record it begins.

        Raises:
            AlreadyExists: The caller's move: one of theirs has this id.
            Exception: As of `session`, and of `Session.fork`.

        Cancellation: As of `Session.fork`.
        """
        self._intake.check_open()
        owner = self._intake.owner_of(principal)
        fork_id = mint_session() if wanted is None else SessionId(wanted)
        return await self._parts.sessions.fork(owner, session_id, fork_id, at=at, turn=turn)

    async def list_files(
        self, session_id: str, principal: Principal, path: str = ""
    ) -> tuple[WorkspaceEntry, ...]:
        """List a directory of the workspace of a session.

        Raises:
            FileUnknown, FilesUnsupported: As of `workspace_files.list_directory`.
            Exception: As of `session`.
        """
        session = await self.session(session_id, principal)
        await self._parts.sessions.check_shows_files(session)
        return await list_directory(session, path)

    async def read_file(self, session_id: str, principal: Principal, path: str) -> WorkspaceFile:
        """Read a file of the workspace of a session.

        Raises:
            FileUnknown, FilesUnsupported, TooLarge: As of `workspace_files.read_workspace`.
            Exception: As of `session`.
        """
        session = await self.session(session_id, principal)
        await self._parts.sessions.check_shows_files(session)
        return await read_workspace(session, path)

    # --- for who may inspect: that was looked at before

    async def inspected(self, session_id: str, principal: Principal) -> Inspected:
        """Give the past of a session of any user of the tenant. It is not woken, and may have ended.

        Args:
            session_id: Which one.
            principal: Who is calling; may inspect.

        Raises:
            SessionUnknown: The tenant has none of this id.
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
        """Read a part of what a session of any user of the tenant has published. It is not woken, and may have ended.

        Raises:
            SessionUnknown: The tenant has none of this id.
            Exception: As of `SessionSupervisor.events_page`.
        """
        tenant_id = self._intake.owner_of(principal).tenant_id
        facts = await self._parts.sessions.of_tenant(tenant_id, session_id)
        return await self._parts.sessions.events_of(facts, tenant_id, asked)

    async def inspect_messages(
        self, session_id: str, principal: Principal
    ) -> tuple[tuple[Message, ...], TokenUsage]:
        """Give the conversation of a session of any user of the tenant, and what all of it has used.

        It is not woken, and may have ended in the store.

        Args:
            session_id: Which one.
            principal: Who is calling; may inspect.

        Raises:
            SessionUnknown: The tenant has none of this id.
            Exception: As of `Session.messages`, and `SessionSupervisor.stored_state`.
        """
        tenant_id = self._intake.owner_of(principal).tenant_id
        facts = await self._parts.sessions.of_tenant(tenant_id, session_id)
        return await self._parts.sessions.conversation(facts, tenant_id)

    # --- requests as resources

    async def request(self, session_id: str, request_id: str, principal: Principal) -> RequestRecord:
        """Say how a request stands.

        Raises:
            SessionUnknown: There is no such session, as far as this caller may know.
            RequestUnknown: The session has none of this id, or it is forgotten.
        """
        return (await self._track(session_id, request_id, principal)).record

    async def wait_for_request(
        self, session_id: str, request_id: str, principal: Principal, *, within: float
    ) -> RequestRecord:
        """Say how a request stands, at its end or when the time is over.

        Raises:
            Exception: As of `request`.
        """
        track = await self._track(session_id, request_id, principal)
        with trio.move_on_after(within):
            await track.wait_changed(lambda _: False)
        return track.record

    async def cancel_request(
        self, session_id: str, request_id: str, principal: Principal, reason: str | None = None
    ) -> None:
        """Abort the cycle of a request, or take its prompt out of the queue.

        Raises:
            RequestOver: The caller's move: it has ended.
            Exception: As of `request`.
        """
        track = await self._track(session_id, request_id, principal)
        session = await self.session(session_id, principal)
        receipt = PromptReceipt(ref=track.standing.ref, queued=False, seq=track.record.seq)
        request = HostRequest(session, receipt, track, kind="prompt", on_disconnect="continue")
        await request.cancel(reason)

    # --- how it stands

    async def ready(self) -> tuple[CheckResult, ...]:
        """Run all checks at once: those of store, supervisor and plugins, and the operator's own. Who asks meanwhile gets the same answer.

        Returns:
            One for each. It is not ready where any has an error.

        Raises:
            HostDraining: It was closed.

        Cancellation: Nothing is lost by it; others still get their answer.
        """
        return await self._readiness.look()

    @property
    def plugins(self) -> PluginOrder:
        """Its plugins, in their order."""
        return self._parts.order

    @property
    def budgets(self) -> DayBudgets:
        """What may be spent in a day, and what is; for who may inspect."""
        return self._parts.budgets

    @property
    def hooks(self) -> HookRunner:
        """What calls their hooks: how often each failed, and which do not come back."""
        return self._parts.runner

    @property
    def webhooks(self) -> WebhookStatistics | None:
        """What became of webhooks so far; None where it sends none."""
        return None if self._parts.delivery is None else self._parts.delivery.statistics()

    async def follow_awaited(self) -> None:
        """Follow the requests of earlier processes that webhooks are still to tell of. For `open_host`."""
        await self._intake.follow_awaited()

    async def quiet(self) -> None:
        """Wait until no request is open, hooks included.

        Cancellation: Nothing is lost by it.
        """
        await self._intake.quiet()

    def fail_readiness(self) -> None:
        """Say by `ready` that it is about to close, and go on with everything: for balancers, which are to notice first."""
        self._is_leaving = True

    def close_door(self) -> None:
        """Take no new request; those that are open go on."""
        self._is_leaving = True
        self._intake.close()

    def begin_closing(self) -> ClosingPlan:
        """Let the time run that a close has, `shutdown_timeout` for all of it; called again, say how it is shared out."""
        if self._plan is None:
            has_store = self._parts.sessions.has_store
            now = trio.current_time()
            self._plan = decide_closing(now, self.options.shutdown_timeout, has_store=has_store)
        return self._plan

    async def drain(self, within: float | None = None) -> None:
        """Take no new request, and wait for those that are worked on; not for those that wait for people.

        Called again it waits no longer than the first time.

        Args:
            within: How many seconds; None for `drain_timeout`, as far as `shutdown_timeout` leaves it.

        Cancellation: It goes on taking none, and no later call waits.
        """
        self.close_door()
        if self._drains_by is None:
            now = trio.current_time()
            usual = min(now + self.options.drain_timeout, self.begin_closing().cycles_by)
            self._drains_by = usual if within is None else now + within
        try:
            with trio.CancelScope(deadline=self._drains_by):
                for run in self._intake.runs:
                    await run.decided.wait()
                    if run.request is not None:
                        await run.request.settled()
        except trio.Cancelled:
            self.skip_drain()
            raise

    def skip_drain(self) -> None:
        """Wait for no cycle any more: a person does not want to."""
        self._drains_by = trio.current_time()

    async def end_requests(self) -> None:
        """End all requests that are open as `shutdown`, and wait until what they owe to plugins is done. For `open_host`."""
        self.close_door()
        for run in self._intake.runs:
            run.shut_down()
        await self._intake.quiet()

    def close(self) -> None:
        """Answer no more whether it is ready. For `open_host`."""
        self._readiness.close()

    def cut_hooks(self) -> None:
        """Cut what requests still owe to plugins: there is no more time. For `open_host`."""
        for run in self._intake.runs:
            run.cut()

    # --- small things

    async def _track(self, session_id: str, request_id: str, principal: Principal) -> RequestTrack:
        owner = self._intake.owner_of(principal)
        ended = self._parts.sessions.ended_of(owner, session_id)
        facts = None if ended is not None else await self._parts.sessions.facts(owner, session_id)
        key = key_of_requests(owner, session_id)
        track = self._parts.book.find(key, request_id)
        if track is None and facts is not None and not facts.has_ended:
            session = await self._parts.sessions.open(facts, owner)
            track = await self._intake.recall(key, session, request_id)
        if track is None:
            message = f"session {session_id!r} has no request of this id, or not any more"
            raise RequestUnknown(message)
        return track
