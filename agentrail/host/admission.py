"""Intake of messages in the caller's task: ownership of the session, plugins, and repetition, in this order."""

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any, Final

import trio
from attrs import define, evolve, field

from agentrail.abc.living_nodes import LOOK_AT_NODES_SECONDS
from agentrail.commands import (
    CommandAnswer,
    CommandDesk,
    CommandFacts,
    CommandRegistry,
    CommandRow,
    read_typed,
)
from agentrail.core.session.receipts import PromptReceipt
from agentrail.errors import (
    AgentrailError,
    CommandError,
    HeldBy,
    HostDraining,
    IdInvalid,
    PrincipalMismatch,
    ProfileMismatch,
    PromptError,
    SessionNotFound,
    SessionRested,
    SessionUnknown,
    StoreUnavailable,
    TooLarge,
    WebhooksOff,
)
from agentrail.host.agent_profiles import check_metadata
from agentrail.host.attachments import check_attachments, digest_with_files
from agentrail.host.hook_payloads import (
    ChatRequest,
    ChatRequestContext,
    HandledResponse,
    MessageKind,
    Principal,
)
from agentrail.host.host_sessions import refuse_child
from agentrail.host.identity import (
    SessionOwner,
    fault_of_name,
    faults_of_principal,
    owner_of_session,
    profile_of_session,
    session_id_for,
)
from agentrail.host.plugin_chain import Intercepting
from agentrail.host.quotas import Limits
from agentrail.host.request_run import HostParts, IncomingMessage, RequestRun, Sending
from agentrail.host.requests import (
    HostRequest,
    RequestRecord,
    RequestTrack,
    end_track,
    ended_by_host,
    find_standing,
    follow,
    key_of_requests,
    kind_of_request,
    mint_request_id,
    subscribe_to_requests,
    without_session,
)
from agentrail.host.webhook_delivery import WebhookDelivery
from agentrail.host.webhook_message import WebhookWatch
from agentrail.logs import Logger
from agentrail.messages import Message, PromptRef, SessionId
from agentrail.outside import current
from agentrail.runtime.journal_events import subscribed_in_the_end
from agentrail.runtime.session_clock import now_ms
from agentrail.runtime.session_facts import SessionFacts
from agentrail.runtime.session_handle import Session
from agentrail.runtime.session_keys import key_of
from agentrail.runtime.session_rows import names_for_commands
from agentrail.wire.plain import encode_plain

# Slash commands of a host, sent as a message or called by name. The host determines ownership of the session.


class OwnedSession:
    """A caller's session for commands. Its forks belong to the caller too, and count as theirs."""

    def __init__(self, session: Session, parts: HostParts, owner: SessionOwner) -> None:
        self._session, self._parts, self._owner = session, parts, owner

    def __getattr__(self, name: str) -> Any:
        return getattr(self._session, name)

    async def fork(self, *, turn: int | None = None) -> "OwnedSession":
        """Fork the session. See `Host.fork_session`."""
        fork_id = SessionId(f"s-{current().ids(9)}")
        sessions = self._parts.sessions
        fork, _ = await sessions.fork(self._owner, self._session.session_id, fork_id, at=None, turn=turn)
        return OwnedSession(fork, self._parts, self._owner)


class CommandsOfHost:
    """The commands of a host."""

    def __init__(self, given: CommandRegistry | None, parts: HostParts) -> None:
        self.registry: CommandRegistry = given or CommandRegistry()
        self.are_read: bool = given is not None
        self._parts = parts

    async def take(
        self, request: ChatRequest, owner: SessionOwner, facts: SessionFacts | None
    ) -> ChatRequest | HandledResponse:
        """Run a message that is a command. Return other messages, or a command's prompt, to be sent."""
        typed = read_typed(request.message) if self.are_read else None
        if typed is None:
            return request
        registry = await self.registry_for(typed.name, owner, facts)
        command = registry.find(typed.name)  # before a session is woken for it
        # A first message has no session yet, but its agent is known.
        desk = CommandDesk(agent=request.agent_id or None) if facts is None else await self.desk(owner, facts)
        answer = await registry.run(command.name, typed.text, desk)
        if answer.prompt is None:
            return HandledResponse({"command": command.name, "lines": list(answer.lines)})
        if answer.model is not None and desk.session is not None:
            await desk.session.switch_model(answer.model)
        return evolve(request, message=answer.prompt)

    async def run(
        self, name: str, text: str, owner: SessionOwner, facts: SessionFacts | None
    ) -> CommandAnswer:
        registry = await self.registry_for(name, owner, facts)
        return await registry.run(name, text, await self.desk(owner, facts))

    async def rows(self, owner: SessionOwner, facts: SessionFacts | None) -> tuple[CommandRow, ...]:
        registry = await self.registry_for("help", owner, facts)
        return registry.rows(await self.desk(owner, facts))

    async def registry_for(
        self, name: str, owner: SessionOwner, facts: SessionFacts | None
    ) -> CommandRegistry:
        """Return the commands, with the prompts of a session's servers if the name may be one, or lists all."""
        source = self.registry.source_in(name) if self.are_read else None
        sources = self._parts.sessions.supervisor.sources
        if source is not None and facts is not None:
            session = await self._parts.sessions.open(facts, owner)
            return self.registry.with_prompts(await sources.prompts_of(session, source))
        if source in sources.running:
            message = f"/{name} cannot be run here: needs a session, which starts with a first message"
            raise CommandError(message)
        return self.registry

    async def desk(self, owner: SessionOwner, facts: SessionFacts | None) -> CommandDesk:
        if facts is None:
            return CommandDesk()
        session = await self._parts.sessions.open(facts, owner)
        tools, agents, sections = names_for_commands(session)
        agent = (await session.status()).agent or profile_of_session(facts.user_data)
        return CommandDesk(
            session=OwnedSession(session, self._parts, owner),
            facts=CommandFacts(tools=tools, agents=agents, sections=sections),
            agent=agent,
        )


LOGGER: Final = Logger("agentrail.host")

RETRY_FOLLOWING_SECONDS: Final = 300.0
"""Pause before another attempt to follow a watched request of another node, after an error, in seconds."""


@define(eq=False, repr=False)
class Intake:
    """Accepts messages and starts host tasks for them."""

    _parts: HostParts
    _limits: Limits
    _nursery: trio.Nursery
    _commands: CommandsOfHost
    _runs: dict[RequestRun, None] = field(init=False, factory=dict)
    _turns: dict[tuple[str, str], trio.Event] = field(init=False, factory=dict)
    _run_ended: trio.lowlevel.ParkingLot = field(init=False, factory=trio.lowlevel.ParkingLot)
    _is_closed: bool = field(init=False, default=False)

    @property
    def is_closed(self) -> bool:
        return self._is_closed

    @property
    def runs(self) -> tuple[RequestRun, ...]:
        return tuple(self._runs)

    def close(self) -> None:
        self._is_closed = True

    async def quiet(self) -> None:
        while self._runs:
            await self._run_ended.park()

    async def submit(
        self, request: ChatRequest, principal: Principal, sending: Sending
    ) -> HandledResponse | HostRequest:
        """Accept a message. See `Host.submit`."""
        self.check_open()
        owner = self.check_sender(request, principal)
        self.check_size(request, sending)
        if sending.webhook is not None:
            if self._parts.delivery is None:
                message = "this server sends no webhooks: omit webhook"
                raise WebhooksOff(message)
            self._parts.delivery.check(sending.webhook)
        facts = await self.facts_for(owner, request, creates=sending.kind != "prompt")
        agent_id = request.agent_id or self._agent_of(facts)
        request = evolve(request, agent_id=agent_id)
        handled = await self.intercept(sending.message_kind, request, principal, sending.history)
        if handled is not None:
            return handled
        if sending.content is None:
            taken = await self._commands.take(request, owner, facts)
            if isinstance(taken, HandledResponse):
                return taken
            request = taken
            self.check_size(request, sending)
        self.check_open()
        said = request.message if sending.content is None else encode_plain(sending.content).decode()
        incoming = IncomingMessage(
            request=request,
            owner=owner,
            sending=sending,
            session_id=self._session_for(owner, request),
            facts=facts,
            agent_id=agent_id,
            request_id=mint_request_id(sending.kind),
            digest=await digest_with_files(said, sending.attachments, request.mode),
            started_at_ms=now_ms(),
        )
        if request.client_id is None:
            await self._parts.budgets.check(owner)
            return await self._wait_for(self._begin(incoming, None))
        return await self._submit_named(incoming, request.client_id)

    async def _submit_named(self, incoming: IncomingMessage, client_id: str) -> HostRequest:
        """Submit a named message. Messages with one name are handled one at a time."""
        name = (key_of(incoming.owner.tenant_id, incoming.session_id), client_id)
        while name in self._turns:
            await self._turns[name].wait()
        self.check_open()
        self._turns[name] = trio.Event()
        run: RequestRun | None = None
        try:
            if incoming.facts is None:
                scope = incoming.owner.tenant_id
                facts = await self._parts.sessions.supervisor.facts_of(incoming.session_id, scope=scope)
                incoming = evolve(incoming, facts=facts)
            known = await self._find_known(incoming, client_id)
            if known is not None:
                return known  # an accepted message is not refused because of later spending
            await self._parts.budgets.check(incoming.owner)
            run = self._begin(incoming, name)
        finally:
            if run is None:
                self._end_turn(name)
        return await self._wait_for(run)

    async def _find_known(self, incoming: IncomingMessage, client_id: str) -> HostRequest | None:
        if incoming.facts is None:
            return None
        try:
            session = await self._parts.sessions.open(incoming.facts, incoming.owner)
        except SessionNotFound:  # deleted meanwhile, with its messages: opening it reports that
            return None
        receipt = await session.receipt_of(client_id)
        if receipt is None:
            return None
        if isinstance(receipt, PromptReceipt):
            await session.receipt_of(client_id, digest=incoming.digest)
        key = key_of_requests(incoming.owner, incoming.session_id)
        request_id = receipt.request_id or receipt.ref
        window = await self._parts.sessions.window_of_profile(session)
        track = self._parts.book.find(key, request_id)
        if track is not None and track.record.has_moved:  # and the session has returned
            self._parts.book.forget_lost(key, request_id)
            track = None
        if track is None:
            record = RequestRecord(
                request_id=request_id,
                session_id=incoming.session_id,
                agent_id=incoming.agent_id,
                kind=kind_of_request(request_id) or incoming.sending.kind,
                seq=receipt.seq,
                context_window=window,
            )
            track = self._parts.track(record, PromptRef(receipt.ref), incoming.owner)
            self._start_following(key, session, track, max(receipt.seq - 1, 0))
        return HostRequest(
            session,
            receipt,
            track,
            kind=incoming.sending.kind,
            on_disconnect=incoming.sending.on_disconnect,
            is_repeat=True,
            has_history=bool(incoming.sending.history),
        )

    async def recall(self, key: str, session: Session, request_id: str) -> RequestTrack | None:
        found = await find_standing(session, request_id)
        known = self._parts.book.find(key, request_id)  # another caller may have found it meanwhile
        if found is None or known is not None:
            return known
        standing, seq = found
        record = RequestRecord(
            request_id=request_id,
            session_id=session.session_id,
            agent_id=profile_of_session(session.facts.user_data) or "",
            kind=kind_of_request(request_id),
            seq=seq,
        )
        track = self._parts.track(record, standing.ref, owner_of_session(session.facts.user_data))
        track.stand(standing)
        if standing.has_ended:
            await end_track(session, track)
            self._parts.book.close(key, track)
            return track
        self._start_following(key, session, track, standing.seq)
        return track

    def _start_following(self, key: str, session: Session, track: RequestTrack, after: int) -> None:
        self.check_open()  # with no checkpoint between this and the task
        self._parts.book.open(key, track)
        self._nursery.start_soon(self._follow_known, key, session, track, after, name="follow a request")

    async def follow_awaited(self) -> None:
        """Follow the watched requests of earlier processes, and on a shared store those of other nodes as they die, until cancelled."""
        delivery = self._parts.delivery
        assert delivery is not None  # noqa: S101 - otherwise nothing is watched
        failed: dict[str, float] = {}
        while True:
            for watch in delivery.awaited:
                if failed.get(watch.request_id, float("-inf")) <= trio.current_time():
                    await self._try_to_follow(watch, delivery, failed)
            if not (delivery.is_shared or failed):
                return
            await trio.sleep(LOOK_AT_NODES_SECONDS)
            try:
                await delivery.load()
            except StoreUnavailable as error:
                LOGGER.warning("cannot look for webhooks of other nodes: %s", error)

    async def _try_to_follow(
        self, watch: WebhookWatch, delivery: WebhookDelivery, failed: dict[str, float]
    ) -> None:
        try:
            try:
                await self._follow_watched(watch)
            except HeldBy as error:
                await delivery.hand_over(watch, error.node)
        except AgentrailError as error:
            LOGGER.warning(
                "this process cannot report the outcome of request %s: %s", watch.request_id, error
            )
            # Its session went to another node meanwhile, or nothing can be taken for now.
            is_soon = isinstance(error, SessionRested | StoreUnavailable)
            pause = LOOK_AT_NODES_SECONDS if is_soon else RETRY_FOLLOWING_SECONDS
            failed[watch.request_id] = trio.current_time() + pause
        else:
            failed.pop(watch.request_id, None)

    async def _follow_watched(self, watch: WebhookWatch) -> None:
        delivery, owner = self._parts.delivery, SessionOwner(watch.tenant_id, watch.user_id)
        assert delivery is not None  # noqa: S101 - it has the watch
        session_id, request_id = SessionId(watch.session_id), watch.request_id
        key = key_of_requests(owner, session_id)
        self._parts.book.forget_lost(key, request_id)
        known = self._parts.book.find(key, request_id)
        if known is not None:
            if known.record.has_ended:  # and was notified: this row was read before that
                delivery.forget(watch.key)
            return
        try:
            facts = await self._parts.sessions.facts_or_none(owner, session_id)
        except SessionUnknown:  # it is another user's now, so theirs was deleted
            facts = None
        if facts is None:
            delivery.forget(watch.key)
        elif facts.has_ended:  # its process died between the session's end and the notification
            record = RequestRecord(
                request_id=request_id,
                session_id=session_id,
                agent_id=watch.agent_id,
                kind=kind_of_request(request_id),
            )
            track = RequestTrack(record, on_change=partial(delivery.hear, key=watch.key, is_certain=True))
            track.stand(without_session(track.standing, "it has ended"))
            track.end("")
        else:
            session = await self._parts.sessions.open(facts, owner)
            if await self.recall(key, session, request_id) is None:  # the session never had it
                delivery.forget(watch.key)

    async def _follow_known(self, key: str, session: Session, track: RequestTrack, after: int) -> None:
        """Follow a request of an earlier process. Its hooks no longer run."""
        try:
            async with subscribed_in_the_end(partial(subscribe_to_requests, session, after=after)) as events:
                await follow(session, track, events)
        except AgentrailError as error:
            LOGGER.warning("request %s cannot be followed: %s", track.record.request_id, error)
            track.stand(without_session(track.standing, str(error)))
        finally:  # also if the host closes: other tasks wait for it
            track.stand(ended_by_host(track.standing, "shutdown", "the host was closed"))
            await end_track(session, track)  # noqa: ASYNC102 - shielded and bounded
            self._parts.book.close(key, track)

    def _begin(self, incoming: IncomingMessage, name: tuple[str, str] | None) -> RequestRun:
        self.check_open()  # with no checkpoint between this and the task
        on_decided = (lambda: None) if name is None else partial(self._end_turn, name)
        run = RequestRun(self._parts, incoming, on_decided)
        self._runs[run] = None
        budgets = self._parts.budgets
        end_cycle = budgets.count_cycle(incoming.owner) if budgets.has_budgets else None
        self._nursery.start_soon(self._carry, run, end_cycle, name=f"request {incoming.request_id}")
        return run

    async def _carry(self, run: RequestRun, end_cycle: Callable[[], None] | None) -> None:
        try:
            await run.run()
        finally:
            if end_cycle is not None:
                end_cycle()
            del self._runs[run]
            self._run_ended.unpark_all()

    async def _wait_for(self, run: RequestRun) -> HostRequest:
        try:
            await run.decided.wait()
        except trio.Cancelled:
            request = run.abandon()
            if request is not None:
                self._nursery.start_soon(_leave, request, name="a caller disconnected")
            raise
        if run.request is None:
            assert run.error is not None  # noqa: S101 - one of both is there
            errors, run.error = [run.error], None  # frames of its traceback refer to the run
            raise errors.pop()
        return run.request

    def _end_turn(self, name: tuple[str, str]) -> None:
        self._turns.pop(name).set()

    def check_size(self, request: ChatRequest, sending: Sending) -> None:
        check_attachments(sending.attachments, self._limits)
        check_metadata(request.metadata, self._limits)
        size, most = len(request.message.encode("utf-8", "surrogatepass")), self._limits.max_message_bytes
        if size > most:
            message = f"the message has {size:,} bytes, at most {most:,} are allowed: send it as a file"
            raise TooLarge(message)
        if not (request.message or sending.attachments or sending.content):
            message = "the message is empty: give a text, or attach a file"
            raise PromptError(message)

    async def intercept(
        self,
        kind: MessageKind,
        request: ChatRequest,
        principal: Principal,
        history: tuple[Message, ...] = (),
    ) -> HandledResponse | None:
        context = ChatRequestContext(
            kind=kind, request=request, agent_id=request.agent_id, principal=principal, history=history
        )
        chain = Intercepting(self._parts.order, context)
        await self._parts.runner.run(chain)
        if chain.refusal is not None:
            raise chain.refusal
        return chain.response

    async def facts_for(
        self, owner: SessionOwner, request: ChatRequest, *, creates: bool
    ) -> SessionFacts | None:
        if request.session_id is None:
            if not creates:
                message = "no session is named, and this request cannot create one: give session_id"
                raise SessionUnknown(message, hint="a chat or a stream creates one")
            return None
        sessions = self._parts.sessions
        find = sessions.facts_or_none if creates else sessions.facts
        facts = await find(owner, request.session_id)
        if facts is None:
            return None
        refuse_child(facts)
        agent_id = profile_of_session(facts.user_data)
        if request.agent_id and agent_id is not None and request.agent_id != agent_id:
            message = f"session {request.session_id!r} belongs to the profile {agent_id!r}: omit agent_id"
            raise ProfileMismatch(message, agent_id=agent_id)
        return facts

    # --- access

    def check_open(self) -> None:
        """Raise if the host is closed."""
        if self._is_closed:
            message = "this host is being closed: send it again in a moment"
            raise HostDraining(message)

    def owner_of(self, principal: Principal) -> SessionOwner:
        faults = faults_of_principal(principal)
        if faults:
            raise IdInvalid(faults)
        return SessionOwner.of(principal)

    def check_sender(self, request: ChatRequest, principal: Principal) -> SessionOwner:
        owner = self.owner_of(principal)
        if (request.tenant_id, request.user_id) != (owner.tenant_id, owner.user_id):
            message = "the message names another tenant or user than its sender; omit both"
            raise PrincipalMismatch(message)
        names = (("agent_id", request.agent_id or None), ("client_id", request.client_id))
        faults = [
            fault for name, value in names if value is not None and (fault := fault_of_name(name, value))
        ]
        if faults:
            raise IdInvalid(faults)
        return owner

    def _agent_of(self, facts: SessionFacts | None) -> str:
        own = None if facts is None else profile_of_session(facts.user_data)
        return own or self._parts.sessions.profiles.default_id

    def _session_for(self, owner: SessionOwner, request: ChatRequest) -> SessionId:
        if request.session_id is not None:
            return request.session_id
        if request.client_id is not None:
            return session_id_for(owner, request.client_id)
        return mint_session()


async def _leave(request: HostRequest) -> None:
    with suppress(AgentrailError):  # it has ended meanwhile
        await request.caller_left()


def mint_session() -> SessionId:
    return SessionId(f"s-{current().ids(9)}")
