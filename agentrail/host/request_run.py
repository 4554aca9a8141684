"""One request, from its first hook to its last. It belongs to the host, not to its caller."""

from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any, Final, Literal, TypeAlias

import trio
from attrs import define, frozen

from agentrail.actors.deferred_error import Kept
from agentrail.core.policy.prompt_settings import PromptSettings, with_cost_limit
from agentrail.errors import (
    AgentrailError,
    HostDraining,
    ProfileUnknown,
    PromptRefused,
    SessionBusy,
    SessionDown,
    SessionNotFound,
    SessionRefused,
    SessionUnknown,
    YourMove,
)
from agentrail.events import AgentAbort, AgentEnd, AgentError
from agentrail.host.agent_profiles import AgentProfile, ProfileContext
from agentrail.host.attachments import Attachment, Uploads, message_of_files
from agentrail.host.hook_payloads import ChatRequest, MessageKind, RequestContext, RequestKind, RequestOutcome
from agentrail.host.host_sessions import HostSessions, already_there, has_no_cycle
from agentrail.host.identity import SessionOwner
from agentrail.host.plugin_chain import Attaching, Hearing, HookRunner, PluginOrder
from agentrail.host.quotas import DayBudgets
from agentrail.host.requests import (
    HostRequest,
    MessageReceipt,
    OnDisconnect,
    RequestBook,
    RequestRecord,
    RequestTrack,
    SessionReading,
    end_track,
    ended_by_host,
    follow,
    follow_nowait,
    key_of_requests,
    subscribe_to_requests,
)
from agentrail.host.webhook_delivery import WebhookDelivery
from agentrail.host.webhook_message import WebhookWatch
from agentrail.logs import Logger
from agentrail.messages import Message, PromptRef, SessionId, TraceContext
from agentrail.otp.crash_text import describe_bug
from agentrail.runtime.arguments import Blocks, decide_settings
from agentrail.runtime.crashes import what_travels
from agentrail.runtime.session_facts import SessionFacts
from agentrail.runtime.session_handle import Session

LOGGER: Final = Logger("agentrail.host")

WhenBusy: TypeAlias = Literal["queue", "steer", "refuse"]
"""Handling of a message to a busy session: queue it, steer the running cycle, or refuse it."""

_CLOSING: Final = "this host is being closed: send it again in a moment"
_NOT_STEERED: Final = "it does not let this session be steered"


@frozen(kw_only=True)
class Sending:
    """How a message was sent.

    Attributes:
        webhook: Address notified of its end. None: the host's own address, if any.
    """

    message_kind: MessageKind
    kind: RequestKind
    attachments: tuple[Attachment, ...] = ()
    when_busy: WhenBusy = "queue"
    on_disconnect: OnDisconnect
    via: str | None = None
    webhook: str | None = None
    content: Blocks | None = None
    settings: PromptSettings | None = None
    history: tuple[Message, ...] = ()
    keep: bool = True
    trace: TraceContext | Mapping[str, Any] | None = None
    goes_on: bool = False


@frozen(kw_only=True)
class IncomingMessage:
    """A message that becomes a request.

    Attributes:
        facts: Known facts of that session. None if it must be created.
    """

    request: ChatRequest
    owner: SessionOwner
    sending: Sending
    session_id: SessionId
    facts: SessionFacts | None
    agent_id: str
    request_id: str
    digest: str
    started_at_ms: int


@define(eq=False)
class HostParts:
    """The shared parts that carry out all requests of a host.

    Attributes:
        delivery: Webhook delivery. None without webhooks.
    """

    sessions: HostSessions
    order: PluginOrder
    runner: HookRunner
    book: RequestBook
    uploads: Uploads
    budgets: DayBudgets
    delivery: WebhookDelivery | None = None

    def track(self, record: RequestRecord, ref: PromptRef, owner: SessionOwner | None) -> RequestTrack:
        """Return the track of a request, of which webhooks hear. None: the session has no owner."""
        if self.delivery is None or owner is None:
            return RequestTrack(record, ref)
        key = (owner.tenant_id, owner.user_id, record.session_id, record.request_id)
        return RequestTrack(record, ref, on_change=partial(self.delivery.hear, key=key))


def outcome_of_refusal(error: BaseException) -> RequestOutcome:
    if isinstance(error, ProfileUnknown | SessionUnknown):
        return "not_found"
    if isinstance(error, YourMove | PromptRefused | SessionRefused | SessionDown):
        return "refused"
    return "failed"


class RequestRun:
    """Task of one request."""

    def __init__(self, parts: HostParts, incoming: IncomingMessage, on_decided: Callable[[], None]) -> None:
        self.incoming = incoming
        self.decided: trio.Event = trio.Event()
        self.request: HostRequest | None = None
        self.error: BaseException | None = None
        self.is_abandoned: bool = False
        self._parts = parts
        self._on_decided = on_decided
        self._scope = trio.CancelScope()
        self._owed = trio.CancelScope(shield=True)
        self._track: RequestTrack | None = None
        self._session: Session | None = None
        self._profile: AgentProfile | None = None
        self._watch_made: WebhookWatch | None = None
        self._is_new = False
        self._is_committed = False
        self._is_shutdown = False

    @property
    def key(self) -> str:
        return key_of_requests(self.incoming.owner, self.incoming.session_id)

    def shut_down(self) -> None:
        """End the request because the host closes. Due hooks still run."""
        self._is_shutdown = True
        self._scope.cancel(reason="the host is being closed")

    def cut(self) -> None:
        """Cancel the remaining hooks because the host is out of time."""
        self._owed.cancel(reason="the host has no time left")

    def abandon(self) -> HostRequest | None:
        """Note that the caller left. Returns the request if it was already accepted."""
        self.is_abandoned = True
        return self.request

    async def run(self) -> None:
        """Carry out the request, from the first hook to the last. Due hooks run even if cancelled."""
        failure = Kept()
        with failure, self._scope:
            await self._hear("on_request_start", None)
            await self._work()
        outcome = await self._settle(failure.error)
        having = self._parts.order.having
        if having["on_turn_persisted"] or having["on_request_end"]:
            with self._owed:
                if self._is_committed:
                    await self._hear("on_turn_persisted", outcome)
                await self._hear("on_request_end", outcome)
        if failure.error is not None and what_travels(failure.error) is not None:
            failure.release()
        failure.error = None  # its traceback refers to this frame

    # --- steps 8 to 11

    async def _work(self) -> None:
        session = self._session = await self._open()
        text = await self._with_files(session)
        async with subscribe_to_requests(session) as events:
            await self._watch(session)
            receipt = await self._send(session, text)
            track = self._track = self._track_of(session, receipt)
            follow_nowait(track, events)
            # A plugin refused at once, so the caller gets the refusal.
            if track.standing.status == "refused":
                raise PromptRefused(track.standing.reason or "it gave no reason")
            request = self._decide(session, receipt, track)
            if self.is_abandoned:
                with suppress(AgentrailError):
                    await request.caller_left()
            last = await follow(session, track, events)
            self._is_committed = track.standing.is_kept and isinstance(
                last, AgentEnd | AgentAbort | AgentError
            )

    async def _open(self) -> Session:
        incoming, sessions, context = self.incoming, self._parts.sessions, self._context()
        if incoming.facts is None:
            self._profile = await sessions.profile(context)
            return await self._create(self._profile, context)
        if incoming.sending.history:
            raise already_there(incoming.session_id)
        # A session that is awake keeps its profile, even if the profile was removed.
        with suppress(ProfileUnknown):
            self._profile = await sessions.profile(context)
        try:
            return await sessions.open(incoming.facts, incoming.owner)
        except SessionNotFound:
            # Deleted since the lookup: a caller that may create it gets a new session, as for any unknown id.
            if self._profile is None or incoming.sending.kind == "prompt":
                raise
            return await self._create(self._profile, context)

    async def _create(self, profile: AgentProfile, context: ProfileContext) -> Session:
        metadata, sending = self.incoming.request.metadata, self.incoming.sending
        session, self._is_new = await self._parts.sessions.create(
            profile, context, metadata=metadata, history=sending.history, keep=sending.keep
        )
        if sending.history and not self._is_new:
            raise already_there(context.session_id)
        return session

    def _context(self) -> ProfileContext:
        incoming = self.incoming
        return ProfileContext(
            tenant_id=incoming.owner.tenant_id,
            user_id=incoming.owner.user_id,
            session_id=incoming.session_id,
            agent_id=incoming.agent_id,
            mode=incoming.request.mode,
        )

    async def _with_files(self, session: Session) -> str:
        incoming, parts = self.incoming, self._parts
        said = incoming.request.message
        if not incoming.sending.attachments:
            return said
        await parts.sessions.check_takes_files(self._profile, self._context())
        files = await parts.uploads.write(session, incoming.sending.attachments)
        chain = Attaching(parts.order, files)
        await parts.runner.run(chain)
        return message_of_files(chain.message(said), files)

    async def _send(self, session: Session, text: str) -> MessageReceipt:
        incoming = self.incoming
        settings, most_usd = incoming.sending.settings, self._parts.budgets.cost_per_cycle_usd
        if most_usd is not None:
            settings = with_cost_limit(decide_settings(settings), most_usd)
        is_steer = "steer" in (incoming.sending.message_kind, incoming.sending.when_busy)
        if is_steer and most_usd is not None:  # a steer that starts a cycle would bring it no limit
            is_steer = not await has_no_cycle(session)
        if is_steer:
            steered = await session.steer(
                text,
                client_id=incoming.request.client_id,
                via=incoming.sending.via,
                request_id=incoming.request_id,
            )
            if steered.status == "rejected_by_plugin":
                raise PromptRefused(_NOT_STEERED)
            return steered
        if incoming.sending.when_busy == "refuse" and (await session.status()).phase != "idle":
            raise busy(incoming.session_id)
        if incoming.sending.goes_on:
            return await session.go_on(
                client_id=incoming.request.client_id,
                via=incoming.sending.via,
                request_id=incoming.request_id,
                digest=incoming.digest,
                settings=settings,
            )
        receipt = await session.prompt(
            text if incoming.sending.content is None else incoming.sending.content,
            client_id=incoming.request.client_id,
            via=incoming.sending.via,
            request_id=incoming.request_id,
            digest=incoming.digest,
            settings=settings,
            trace=incoming.sending.trace,
        )
        if incoming.sending.when_busy == "refuse" and receipt.queued:  # another message was faster
            await session.abort("the session is busy", ref=receipt.ref, wait=False)
            raise busy(incoming.session_id)
        return receipt

    async def _watch(self, session: Session) -> None:
        """Register the webhook before the session has the message, so that a crash loses nothing."""
        if self._parts.delivery is None:
            return
        self._watch_made = WebhookWatch(
            tenant_id=self.incoming.owner.tenant_id,
            user_id=self.incoming.owner.user_id,
            session_id=session.session_id,
            request_id=self.incoming.request_id,
            agent_id=self._agent_id,
            url=self.incoming.sending.webhook or "",
        )
        await self._parts.delivery.watch(self._watch_made)

    @property
    def _agent_id(self) -> str:
        return self.incoming.agent_id if self._profile is None else self._profile.id

    def _track_of(self, session: Session, receipt: MessageReceipt) -> RequestTrack:
        record = RequestRecord(
            request_id=self.incoming.request_id,
            session_id=session.session_id,
            agent_id=self._agent_id,
            kind=self.incoming.sending.kind,
            seq=receipt.seq,
            context_window=None if self._profile is None else self._profile.context_window,
        )
        return self._parts.track(record, PromptRef(receipt.ref), self.incoming.owner)

    def _decide(self, session: Session, receipt: MessageReceipt, track: RequestTrack) -> HostRequest:
        self._parts.book.open(self.key, track)
        self._parts.sessions.keep(session)
        self.request = HostRequest(
            session,
            receipt,
            track,
            kind=self.incoming.sending.kind,
            on_disconnect=self.incoming.sending.on_disconnect,
            has_history=bool(self.incoming.sending.history),
        )
        self.decided.set()
        self._on_decided()
        return self.request

    # --- step 14

    async def _settle(self, error: BaseException | None) -> RequestOutcome:
        """Publish the outcome to all waiters, even if cancelled. A session created in vain is removed first."""
        track = self._track
        outcome: RequestOutcome = "shutdown"
        is_shutdown = self._is_shutdown or (error is not None and what_travels(error) is not None)
        if self.request is not None and track is not None:
            if is_shutdown:
                track.stand(ended_by_host(track.standing, "shutdown", "the host was closed"))
            elif error is not None:
                track.stand(ended_by_host(track.standing, "failed", "the host could not follow it"))
                self._report(error)
            await end_track(self._session, track)
            self._parts.book.close(self.key, track)
            assert track.record.outcome is not None  # noqa: S101 - it has ended
            return track.record.outcome
        if self._parts.delivery is not None and self._watch_made is not None:
            self._parts.delivery.forget(self._watch_made.key)
        if self._is_new and self._session is not None:
            await self._remove(self._session)
        if error is None or is_shutdown:
            self.error = HostDraining(_CLOSING)
        else:
            self.error, outcome = error, outcome_of_refusal(error)
            self._report(error)
        self.decided.set()
        self._on_decided()
        return outcome

    async def _remove(self, session: Session) -> None:
        try:
            with trio.CancelScope(shield=True):
                if await self._parts.sessions.remove(session):
                    self._session = None
        except AgentrailError as error:
            LOGGER.warning("session %s of a request that failed was not removed: %s", session, error)

    def _report(self, error: BaseException) -> None:
        if what_travels(error) is not None or outcome_of_refusal(error) != "failed":
            return
        cause = error.__cause__
        LOGGER.error(
            "request %s failed: %s", self.incoming.request_id, describe_bug(error if cause is None else cause)
        )

    async def _hear(self, hook: str, outcome: RequestOutcome | None) -> None:
        if not self._parts.order.having[hook]:
            return
        incoming = self.incoming
        context = RequestContext(
            kind=incoming.sending.kind,
            tenant_id=incoming.owner.tenant_id,
            user_id=incoming.owner.user_id,
            session_id=incoming.session_id,
            agent_id=self._agent_id,
            request_id=incoming.request_id,
            started_at_ms=incoming.started_at_ms,
            outcome=outcome,
            reader=None if outcome is None or self._session is None else SessionReading(self._session),
        )
        await self._parts.runner.run(Hearing(hook, self._parts.order, context))


def busy(session_id: str) -> SessionBusy:
    return SessionBusy(
        f"session {session_id!r} is running: wait until it ends, or send with when_busy='queue'"
    )
