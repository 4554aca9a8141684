"""The handle that one holds to a session. Its methods send one message and wait for the reply."""

from collections.abc import Iterable, Mapping
from typing import Any, Literal, cast

import msgspec
import trio
from attrs import evolve

from agentrail.abc import Provider, Tool, ToolListing
from agentrail.core.protocol.signals import (
    AbortCycle,
    AbortTool,
    Approve,
    Asked,
    ChangeModel,
    ChangePlugins,
    ChangeTools,
    Compact,
    KillMode,
    MessagesQuery,
    Prompt,
    Reject,
    ReplyQuery,
    Respond,
    SnapshotQuery,
    StatusQuery,
    Steer,
    StopSession,
    UpdatePluginOpts,
)
from agentrail.core.session.projection import Snapshot, Status, model_of
from agentrail.core.session.receipts import PromptReceipt, SteerReceipt, ToolsReceipt
from agentrail.core.stack.loading import PluginEntry
from agentrail.core.values.toolbox import Toolbox, ToolSpec
from agentrail.errors import OptionError, ReplyTimeout
from agentrail.events import AbortReceipt, Event
from agentrail.messages import (
    ApprovalId,
    CallId,
    Content,
    JsonObject,
    Message,
    PromptRef,
    QuestionRef,
    SessionId,
    SteerRef,
)
from agentrail.otp.edges import call_guarded
from agentrail.runtime.arguments import (
    fault_of_edit,
    fault_of_flag,
    fault_of_model,
    fault_of_provider_opts,
    fault_of_reason,
    fault_of_response,
    fault_of_text,
    fault_of_wait,
    faults_of_names,
    faults_of_tools,
    refuse,
)
from agentrail.runtime.clock import now_ms
from agentrail.runtime.content import Blocks, decide_blocks, decide_client_id, decide_text
from agentrail.runtime.models import decide_switch, facts_of
from agentrail.runtime.monitoring import SessionMonitor
from agentrail.runtime.session import SessionCell
from agentrail.runtime.subscription import Subscription, decide_terms, fault_of_cursor


class Session:
    """A session, from outside. It stays good when the session crashes and comes back."""

    __slots__ = ("_cell",)

    def __init__(self, cell: SessionCell) -> None:
        """Made by the supervisor; use `start_session` or `supervisor.session(id)`."""
        self._cell = cell

    @property
    def session_id(self) -> SessionId:
        """Which session this is."""
        return self._cell.ports.session_id

    def __repr__(self) -> str:
        """Show id and phase."""
        phase = "ended" if self._cell.state.ended else self._cell.state.phase.value
        return f"<Session {self.session_id} {phase}>"

    async def prompt(self, content: Content, *, client_id: str | None = None) -> PromptReceipt:
        """Put a prompt at the end of the session's queue; in idle it starts at once.

        Args:
            content: Text, or content blocks; 1 byte to 1 MB of UTF-8 in all.
            client_id: Your own name of this message. Sent again with the same content, after an answer was lost, it gives
                the first receipt again; a session remembers the last 256 of them.

        Returns:
            `ref`, which `AgentStart` carries too; `queued`; `position` in the queue, 0 is next; `seq`, the number of the
            event that says so.

        Raises:
            PromptError: Your move: empty, too long, or a block of unknown type. The message names the limit.
            PromptQueueFull: Your move: `max_prompt_queue` wait already. Try again after the next end of a cycle.
            ClientIdReused: Your move: the name was used for other content.
            MailboxFull: Your move: the session has not caught up with what was sent. Try again later.
            SessionDown: The session has ended; `reason` says how.

        Cancellation: Always a checkpoint. Once the message is on its way, only the receipt is lost.
        """
        blocks, name = decide_blocks(content), decide_client_id(client_id)
        return cast("PromptReceipt", await self._ask(self._prompt(blocks, reply="receipt", client_id=name)))

    async def ask(self, content: Content, *, timeout_seconds: float | None = None) -> str:
        """Prompt, wait for the cycle of this very prompt, and return all that the model said aloud in it.

        Args:
            content: As of `prompt`.
            timeout_seconds: How long to wait; None for as long as it takes.

        Returns:
            The text of all responses of the cycle, joined.

        Raises:
            CycleAborted: The cycle was aborted.
            CycleFailed: The cycle failed; `error` says why.
            ReplyTimeout: The time was up. The cycle goes on.
            OptionError: Your move: a time that cannot be.
            CallingSelf: Your move: a tool of this session asked it.
            PromptError, PromptQueueFull, MailboxFull, SessionDown: As of `prompt`.

        Cancellation: Only the reply is lost; the cycle goes on.
        """
        refuse(fault_of_wait(timeout_seconds))
        self._cell.pending_calls.refuse_self("ask")
        signal = self._prompt(decide_blocks(content), reply="text")
        return cast("str", await self._ask_within(signal, timeout_seconds))

    async def collect_reply(self, *, timeout_seconds: float | None = None) -> str:
        """Wait for the running cycle, and return all that the model said aloud in it.

        In idle the answer is that of the last cycle, at once; the empty text when there was none yet.

        Args:
            timeout_seconds: How long to wait; None for as long as it takes.

        Raises:
            CycleAborted: The cycle was aborted.
            CycleFailed: The cycle failed; `error` says why.
            ReplyTimeout: The time was up. The cycle goes on.
            OptionError: Your move: a time that cannot be.
            CallingSelf: Your move: a tool of this session asked it.
            SessionDown: The session has ended.

        Cancellation: Only the reply is lost; the cycle goes on.
        """
        refuse(fault_of_wait(timeout_seconds))
        self._cell.pending_calls.refuse_self("collect_reply")
        signal = ReplyQuery(at_ms=now_ms(), signal_id=self._cell.pending_calls.mint())
        return cast("str", await self._ask_within(signal, timeout_seconds))

    async def abort(
        self,
        reason: str | None = None,
        *,
        kill_tools: KillMode = "killable",
        clear_queue: bool = False,
        wait: bool = True,
    ) -> AbortReceipt:
        """Stop the cycle, now, in every phase. Idempotent; in idle it finds nothing to stop and says so.

        Args:
            reason: For people; it is in `AgentAbort` and in the results of the calls that were stopped.
            kill_tools: `killable` stops all but immune tools, `all` every one, `none` no one.
            clear_queue: Whether the prompts that wait are thrown away, or go on by themselves.
            wait: Whether to wait until what was stopped is gone, at most five seconds.

        Returns:
            What was stopped, what would not stop, what runs on. `settled` is false when `wait` was.

        Raises:
            OptionError: Your move: `kill_tools` is none of the three, or an argument is of a wrong type.
            SessionDown: The session has ended.

        Cancellation: Only the receipt is lost; the abort goes on.
        """
        is_known = kill_tools in ("killable", "all", "none")
        refuse(
            fault_of_reason(reason),
            None if is_known else f"kill_tools is {kill_tools!r}: expected 'killable', 'all' or 'none'",
            fault_of_flag("clear_queue", clear_queue),
            fault_of_flag("wait", wait),
        )
        signal = AbortCycle(
            at_ms=now_ms(),
            signal_id=self._cell.pending_calls.mint(),
            reason=reason,
            kill_tools=kill_tools,
            clear_queue=clear_queue,
            wait=wait,
        )
        return cast("AbortReceipt", await self._ask(signal))

    async def status(self) -> Status:
        """Say how the session stands, and those that work for its calls: what waits there for people is in `children`.

        Raises:
            SessionDown: The session has ended.
        """
        query = StatusQuery(at_ms=now_ms(), signal_id=self._cell.pending_calls.mint())
        status = cast("Status", await self._ask(query))
        status = self._cell.with_children(status)
        return evolve(status, unconfined_commands=self._cell.ports.is_unconfined())

    async def messages(self) -> tuple[Message, ...]:
        """Give the conversation so far.

        Raises:
            SessionDown: The session has ended.
        """
        signal = MessagesQuery(at_ms=now_ms(), signal_id=self._cell.pending_calls.mint())
        return cast("tuple[Message, ...]", await self._ask(signal))

    def subscribe(
        self,
        *,
        after: int | None = None,
        kinds: Iterable[type[Event]] | None = None,
        deltas: bool = True,
        buffer: int = 1024,
    ) -> Subscription:
        """Subscribe to what the session publishes, from the moment the block is entered.

        Args:
            after: The number of a committed event; what was committed after it comes first, then what is live, without
                gap or duplicate. Where not all of it is kept, the first event is `EventsLost`, and `snapshot` is what to
                go on from. None for live events only; 0 for all since the start.
            kinds: Only events of these classes; None for all.
            deltas: Whether ephemeral events come too.
            buffer: How many events may wait for the reader. When it is full deltas go first; then the subscriber is
                cut off with `SubscriberTooSlow`. The session never waits.

        Returns:
            An async context manager to iterate over; iteration ends when the session ends. On one that has ended a number
            in `after` still gives the rest; without, entering raises `SessionDown`.

        Raises:
            OptionError: Your move: an argument that cannot be. A number beyond the last event is refused when the block
                is entered.
        """
        faults = [] if after is None else fault_of_cursor("after", after)
        if faults:
            raise OptionError(faults)
        terms = decide_terms(kinds=kinds, deltas=deltas, buffer=buffer)
        return self._cell.bus.subscribe(terms, after=after, take_snapshot=self._cell.take_snapshot)

    async def steer(self, text: str, *, client_id: str | None = None) -> SteerReceipt:
        """Speak into the running cycle: the model hears it at the next gap between two turns.

        Tools that may be stopped are stopped at once and answered as skipped; the stream of the model never is. Without a
        running cycle it is a prompt. A cycle that waits for a person goes on, and what it waited for is superseded.

        Args:
            text: What to say; 1 byte to 1 MB of UTF-8.
            client_id: As of `prompt`.

        Returns:
            `ref`; `status`: `queued` or `became_prompt`.

        Raises:
            PromptError: Your move: empty, or too long.
            SteeringQueueFull: Your move: `max_steering_queue` wait already.
            PromptQueueFull: Your move: it would be a prompt, and as many wait as may.
            ClientIdReused, MailboxFull, SessionDown: As of `prompt`.

        Cancellation: Once the message is on its way, only the receipt is lost.
        """
        said, name = decide_text(text), decide_client_id(client_id)
        signal_id = self._cell.pending_calls.mint()
        signal = Steer(
            at_ms=now_ms(), signal_id=signal_id, ref=SteerRef(signal_id), text=said, client_id=name
        )
        return cast("SteerReceipt", await self._ask(signal))

    async def abort_tool(self, call_id: str, reason: str | None = None) -> None:
        """Stop one call, running or waiting; its result says so, and the others of its batch go on.

        Args:
            call_id: As in `ToolExecutionStart`, `ApprovalRequired` or `status()`.
            reason: For people, and for the model.

        Raises:
            UnknownCall: Your move: no call of this id is open.
            OptionError: Your move: an argument of a wrong type.
            SessionDown: The session has ended.

        Cancellation: The call is stopped all the same. Returns when it is answered; its task ends behind that, bounded.
        """
        refuse(fault_of_text("call_id", call_id), fault_of_reason(reason))
        signal = AbortTool(
            at_ms=now_ms(), signal_id=self._cell.pending_calls.mint(), call_id=CallId(call_id), reason=reason
        )
        await self._ask(signal)

    async def approve(
        self,
        approval_id: str,
        *,
        kind: str = "once",
        arguments: JsonObject | None = None,
        auto_resume: bool = True,
    ) -> None:
        """Let the very call run that `ApprovalRequired` showed.

        Args:
            approval_id: `approval.id` of the event.
            kind: `once`, or `always`: then calls of the same tool and command family need no approval any more, and those
                that wait already run too.
            arguments: What shall run instead; held against the tool's schema, and the model is told.
            auto_resume: Whether the model reads the result; else the cycle ends when the call has.

        Raises:
            UnknownApproval, ApprovalExpired, AlreadyResolved: There is nothing to decide any more, and why.
            InvalidArguments: Your move: the tool does not take these; the call still waits.
            OptionError: Your move: `kind` is neither of the two, or an argument is of a wrong type.
            SessionDown: The session has ended.

        Cancellation: The decision stands.
        """
        refuse(
            fault_of_text("approval_id", approval_id),
            None if kind in ("once", "always") else f"kind is {kind!r}: expected 'once' or 'always'",
            fault_of_edit(arguments),
            fault_of_flag("auto_resume", auto_resume),
        )
        signal = Approve(
            at_ms=now_ms(),
            signal_id=self._cell.pending_calls.mint(),
            approval_id=ApprovalId(approval_id),
            how="always" if kind == "always" else "once",
            arguments=arguments,
            auto_resume=auto_resume,
        )
        await self._ask_owner(approval_id, signal)

    async def reject(self, approval_id: str, reason: str | None = None, *, auto_resume: bool = False) -> None:
        """Refuse a call; the model reads the reason as its result.

        Args:
            approval_id: `approval.id` of `ApprovalRequired`.
            reason: Guidance for the model.
            auto_resume: Whether the model gets a turn to react; else the cycle ends as finished.

        Raises:
            UnknownApproval, ApprovalExpired, AlreadyResolved: There is nothing to decide any more, and why.
            OptionError: Your move: an argument of a wrong type.
            SessionDown: The session has ended.

        Cancellation: The decision stands.
        """
        refuse(
            fault_of_text("approval_id", approval_id),
            fault_of_reason(reason),
            fault_of_flag("auto_resume", auto_resume),
        )
        signal = Reject(
            at_ms=now_ms(),
            signal_id=self._cell.pending_calls.mint(),
            approval_id=ApprovalId(approval_id),
            reason=reason,
            auto_resume=auto_resume,
        )
        await self._ask_owner(approval_id, signal)

    async def respond(self, ref: str, response: str | int) -> None:
        """Answer a question of the model, or a call that waits for an approval in place of its tool.

        Args:
            ref: Of `AskUser`, or `approval.id`.
            response: The answer in words, or which of the options, from 0.

        Raises:
            UnknownApproval, ApprovalExpired, AlreadyResolved: There is nothing to answer any more, and why.
            InvalidResponse: Your move: empty, or an option that is none.
            OptionError: Your move: an argument of a wrong type.
            SessionDown: The session has ended.

        Cancellation: The answer stands.
        """
        refuse(fault_of_text("ref", ref), fault_of_response(response))
        signal = Respond(
            at_ms=now_ms(), signal_id=self._cell.pending_calls.mint(), ref=QuestionRef(ref), response=response
        )
        await self._ask_owner(ref, signal)

    async def switch_model(
        self, model: str | Provider, provider_opts: Mapping[str, Any] | None = None
    ) -> None:
        """Ask another model from the next request on; one that is out keeps its own.

        For the model that is asked already nothing changes, and nothing is published.

        Args:
            model: A model string, or a provider object. A session keeps one object that it was switched to, beside those that
                it still uses, and closes none: an object stays yours.
            provider_opts: As of `start_session`; None for none, and for the model that is asked already for those it has.

        Raises:
            ModelNotFound, Authentication, OptionError: As of `start_session`; nothing changed.
            SessionDown: The session has ended.

        Cancellation: The switch stands.
        """
        refuse(fault_of_model(model), fault_of_provider_opts(provider_opts))
        choice = decide_switch(model, provider_opts, self._cell.state.data.model.model, self._cell.ports)
        signal = ChangeModel(
            at_ms=now_ms(),
            signal_id=self._cell.pending_calls.mint(),
            model=facts_of(choice.name, choice.provider),
            opts_changed=choice.opts_changed,
            described=self._describe_for(choice.name),
        )
        self._cell.add_model(choice)
        await self._ask(signal)
        self._cell.forget_models(choice.name)

    async def attach_tools(self, *tools: Tool) -> ToolsReceipt:
        """Give the model more tools, all at once; one of a name that is there takes its place.

        The next request shows them. Calls that are under way keep the tools they began with.

        Args:
            *tools: What the model may call from now on.

        Returns:
            The names that are there now.

        Raises:
            OptionError: Your move: something that is no tool, such as a list of tools; nothing was attached.
            ToolDefinitionError: Your move: a schema that is none, or two of one name; nothing was attached.
            SessionDown: The session has ended.

        Cancellation: The change stands.
        """
        return await self._change_tools(tools, (), replace=False)

    async def detach_tools(self, *names: str) -> ToolsReceipt:
        """Take tools away, all at once. Calls that are under way keep theirs.

        Args:
            *names: Which; those that are not there are listed in the receipt, and are no error.

        Raises:
            OptionError: Your move: something that is no name, such as a list of names; nothing was detached.
            SessionDown: The session has ended.

        Cancellation: The change stands.
        """
        refuse(*faults_of_names(names))
        return await self._change_tools((), names, replace=False)

    async def replace_tools(self, *tools: Tool) -> ToolsReceipt:
        """Give the model these tools and no others, all at once.

        Args, Returns, Raises, Cancellation: As of `attach_tools`.
        """
        return await self._change_tools(tools, (), replace=True)

    async def update_plugin_opts(self, plugin: str, **options: Any) -> None:
        """Give a plugin other options: at once in idle, else when the session is idle again.

        Of two updates that wait, the last value of a field counts. `PluginOptsUpdated` says what became of it.

        Args:
            plugin: Its name.
            **options: Those that change.

        Raises:
            PluginError: Your move: there is no plugin of this name.
            OptionError: Your move: a name that is no text.
            SessionDown: The session has ended.

        Cancellation: The update stands. Returns when it is noted.
        """
        refuse(fault_of_text("plugin", plugin))
        signal = UpdatePluginOpts(
            at_ms=now_ms(), signal_id=self._cell.pending_calls.mint(), plugin=plugin, options=options
        )
        await self._ask(signal)

    async def attach_plugin(self, plugin: PluginEntry) -> None:
        """Add a plugin to the stack, between two cycles; among those of its priority it is asked last.

        Args:
            plugin: A class, an instance, or one of them with its options.

        Raises:
            PluginError: Your move: it cannot be loaded, one of its name is there, or a cycle waits for a person.
            CallingSelf: Your move: a tool of this session asked it, and the cycle waits for that tool.
            SessionDown: The session has ended.

        Cancellation: The change stands. Waits for the end of the running cycle.
        """
        await self._change_plugins("attach", entry=plugin)

    async def detach_plugin(self, name: str) -> None:
        """Take a plugin out of the stack, between two cycles, and its state with it.

        Raises:
            PluginError: Your move: there is none of this name, or a cycle waits for a person.
            OptionError: Your move: a name that is no text.
            CallingSelf: As of `attach_plugin`.
            SessionDown: The session has ended.

        Cancellation: The change stands. Waits for the end of the running cycle.
        """
        refuse(fault_of_text("name", name))
        await self._change_plugins("detach", name=name)

    async def reload_plugin(self, plugin: PluginEntry) -> None:
        """Put new code in the place of the plugin of the same name, between two cycles; its state is migrated.

        Args:
            plugin: The new code; without options those of the old one stay.

        The new code goes through the last 40 messages of the conversation once more, as a dry run whose answers are not
        carried out; it is let in only if it fails nowhere.

        Raises:
            PluginError: Your move: there is none of this name, it cannot be loaded, `migrate` refused, it failed in the
                rehearsal, or a cycle waits for a person. The old one stays.
            CallingSelf: As of `attach_plugin`.
            SessionDown: The session has ended.

        Cancellation: The change stands. Waits for the end of the running cycle.
        """
        await self._change_plugins("reload", entry=plugin)

    async def compact(self, reason: str | None = None) -> None:
        """Let a summary stand for the beginning of the conversation: now in idle, else before the next request.

        The model writes it, the full text goes into a file of the workspace, and `CompactEnd` says what became of it. The
        last messages stay as they are; where there are no others, `CompactSkipped` says so. Asked for while one goes on,
        that one serves.

        Args:
            reason: For people; it is in `CompactStart`.

        Raises:
            OptionError: Your move: a reason that is no text.
            SessionDown: The session has ended.

        Cancellation: The compaction goes on; only an abort stops it. Returns when it is noted.
        """
        refuse(fault_of_reason(reason))
        await self._ask(Compact(at_ms=now_ms(), signal_id=self._cell.pending_calls.mint(), reason=reason))

    async def snapshot(self) -> Snapshot:
        """Give all that a client which comes late needs to draw the session.

        Raises:
            SessionDown: The session has ended.
        """
        signal = SnapshotQuery(at_ms=now_ms(), signal_id=self._cell.pending_calls.mint())
        snapshot = cast("Snapshot", await self._ask(signal))
        return evolve(snapshot, status=self._cell.with_children(snapshot.status))

    async def stop(self, reason: str = "stopped", *, timeout_seconds: float | None = None) -> None:
        """Abort what runs, survivors of earlier aborts too, and end the session.

        Args:
            reason: For people; it is in `SessionEnd` and in every later `SessionDown`.
            timeout_seconds: How long to wait; None for as long as it takes.

        Raises:
            ReplyTimeout: The time was up; it is still ending.
            OptionError: Your move: a reason that is no text, or a time that cannot be.
            CallingSelf: Your move: a tool of this session stopped it.
            SessionDown: It had ended already.

        Cancellation: The session ends all the same.
        """
        refuse(fault_of_text("reason", reason), fault_of_wait(timeout_seconds))
        self._cell.pending_calls.refuse_self("stop")
        signal = StopSession(at_ms=now_ms(), signal_id=self._cell.pending_calls.mint(), reason=reason)
        await self._ask_within(signal, timeout_seconds)

    def monitor(self) -> SessionMonitor:
        """Watch the session; `await monitor.wait()` tells its end, once it is gone for good. A restart is no end."""
        return SessionMonitor(self._cell)

    async def _change_plugins(
        self,
        change: Literal["attach", "detach", "reload"],
        *,
        name: str = "",
        entry: PluginEntry | None = None,
    ) -> None:
        self._cell.pending_calls.refuse_self(f"{change}_plugin")
        signal = ChangePlugins(
            at_ms=now_ms(), signal_id=self._cell.pending_calls.mint(), change=change, name=name, entry=entry
        )
        await self._ask(signal)

    async def _change_tools(
        self, tools: tuple[Tool, ...], names: tuple[str, ...], *, replace: bool
    ) -> ToolsReceipt:
        refuse(*faults_of_tools(tools))
        ports = self._cell.ports
        listing = self._listing(model_of(self._cell.state.data).model)
        specs = tuple(ports.spec_of(tool, listing) for tool in tools)
        Toolbox(specs)  # two of one name are found before anything is changed
        signal = ChangeTools(
            at_ms=now_ms(),
            signal_id=self._cell.pending_calls.mint(),
            attach=specs,
            detach=names,
            replace=replace,
            generation=self._cell.add_tools(
                {spec.name: tool for spec, tool in zip(specs, tools, strict=True)}
            ),
        )
        try:
            return cast("ToolsReceipt", await self._ask(signal))
        finally:
            self._cell.forget_tools()

    def _describe_for(self, model: str) -> tuple[ToolSpec, ...]:
        """Let the tools that describe themselves by a function do it for another model."""
        ports, box = self._cell.ports, self._cell.state.data.tools
        tools = [ports.tools[spec.name, box.generation_of(spec.name)] for spec in box]
        listing = self._listing(model)
        return tuple(
            ports.spec_of(tool, listing)
            for tool in tools
            if callable(call_guarded(lambda _: None, getattr, tool, "description"))
        )

    def _listing(self, model: str) -> ToolListing:
        ports = self._cell.ports
        return ToolListing(
            session_id=ports.session_id,
            model=model,
            working_dir=ports.working_dir,
            user_data=ports.user_data,
            is_unconfined=ports.is_unconfined(),
        )

    def _prompt(self, blocks: Blocks, *, reply: str, client_id: str | None = None) -> Prompt:
        signal_id = self._cell.pending_calls.mint()
        # One name for both: a prompt is known by the call that brought it.
        ref = PromptRef(signal_id)
        return Prompt(
            at_ms=now_ms(),
            signal_id=signal_id,
            ref=ref,
            content=blocks,
            reply="text" if reply == "text" else "receipt",
            client_id=client_id,
        )

    async def _ask_owner(self, interaction_id: str, signal: Asked) -> object:
        """Ask the session that an interaction belongs to: this one, or one that works for a call of it."""
        owner = self._cell.owner_of(interaction_id)
        if owner is self._cell:
            return await self._ask(signal)
        asked = msgspec.structs.replace(signal, signal_id=owner.pending_calls.mint())
        return await Session(owner)._ask(asked)  # noqa: SLF001 - of the same class

    async def _ask(self, signal: Asked) -> object:
        await trio.lowlevel.checkpoint_if_cancelled()
        return await self._cell.pending_calls.ask(signal, self._send)

    async def _ask_within(self, signal: Asked, timeout_seconds: float | None) -> object:
        if timeout_seconds is None:
            return await self._ask(signal)
        # Before the clock runs: a call without time to wait is still made.
        await trio.lowlevel.checkpoint_if_cancelled()
        with trio.move_on_after(timeout_seconds):
            return await self._cell.pending_calls.ask(signal, self._send)
        message = f"no answer within {timeout_seconds:g} s; the session goes on, ask again"
        raise ReplyTimeout(message)

    def _send(self, signal: Asked) -> None:
        self._cell.mailbox.put_nowait(signal)  # type: ignore[arg-type]  # Asked is the base of these members of Signal
