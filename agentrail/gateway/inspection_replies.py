"""Reply structs for operators."""

from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from agentrail.core.journal.call_history import CallGate
from agentrail.core.journal.timeline import SpanItem
from agentrail.core.values.json_patch import PatchStep
from agentrail.gateway.response_bodies import CallReply
from agentrail.host.quotas import CostDayBudget
from agentrail.messages import Message, TokenUsage
from agentrail.runtime.journal_state import JournalEntry
from agentrail.wire.inspection_rows import ExitNote, Intensity, PluginRow


class TreeItem(CallReply, frozen=True, kw_only=True):
    """A node of the supervision tree.

    Attributes:
        id: Name of the node, or the id of a session.
        kind: `worker` or `supervisor`.
        status: Status such as `running`.
        strategy: Restart strategy of a supervisor, or None for a worker.
        phase: Phase of a session.
        incarnation: Number of instances started so far.
        restarts: Restarts since it last recovered.
        uptime_seconds: Age of the current instance in seconds, or None if none is running.
        mailbox: Messages in the mailbox, or None if it has no mailbox.
        key: Position below the root. Stable across restarts.
        up_at_ms: Start of the current instance, in milliseconds since 1970, or None if none is running.
        intensity: Allowed and used restarts, or None if it has no restart budget of its own.
        exits: Its last five exits, the newest last.
        stuck: Whether it did not stop when asked to.
        title: Title that the model gave a session, or None before it sets one and for other nodes.
        first_words: First message to a session, up to 80 characters, or None if unknown.
        children: Child nodes in start order.
    """

    id: str
    kind: str
    status: str
    strategy: str | None
    phase: str | None
    incarnation: int
    restarts: int
    uptime_seconds: float | None
    mailbox: int | None
    key: str
    up_at_ms: int | None
    intensity: Intensity | None
    exits: tuple[ExitNote, ...]
    stuck: bool
    title: str | None
    first_words: str | None
    children: tuple["TreeItem", ...]


class TreePage(TreeItem, frozen=True, kw_only=True):
    """The root of the supervision tree, with a page of its sessions.

    Attributes:
        next: `after` of the next page, or None on the last page.
    """

    next: int | None


class HostPluginItem(CallReply, frozen=True, kw_only=True):
    """A host plugin.

    Attributes:
        name: Name of the plugin.
        version: Version of the plugin.
        priority: Priority. Higher ones run first.
        critical: Whether a failing interceptor refuses the request.
        fail_closed: Whether a failing hook before a tool denies the call.
        hooks: Hooks of the plugin.
        failures: Number of failed hook calls.
        stuck_hook: Hook that does not return, or None if there is none.
    """

    name: str
    version: str
    priority: int
    critical: bool
    fail_closed: bool
    hooks: tuple[str, ...]
    failures: int
    stuck_hook: str | None


class HostPluginList(CallReply, frozen=True, kw_only=True):
    """The host plugins, and the plugins of the tenant's sessions.

    Attributes:
        plugins: Host plugins in running order.
        rows: The host plugins, and session plugins by name, each with the calls, failures and durations of every hook.
    """

    plugins: tuple[HostPluginItem, ...]
    rows: tuple[PluginRow, ...]


class CostItem(CallReply, frozen=True, kw_only=True):
    """Usage and cost of one group.

    Attributes:
        key: Day such as `2026-11-22`, or name of the profile, model, user or session. Empty if it has none, and for a sum.
        tokens_in: Tokens read, including cached ones.
        tokens_out: Tokens written.
        cached: Part of `tokens_in` that came from a cache.
        cost_usd: Cost, counting only known prices.
        estimated_usd: Part of the cost that was estimated, because no server reported the usage.
        requests: Number of model requests with usage.
        unpriced: Number of those requests without a known price.
    """

    key: str
    tokens_in: int
    tokens_out: int
    cached: int
    cost_usd: float
    estimated_usd: float
    requests: int
    unpriced: int


class CostBudget(CallReply, frozen=True, kw_only=True):
    """A budget and its use.

    Attributes:
        name: Session that has the budget.
        used_usd: Booked cost.
        limit_usd: Limit of the budget.
    """

    name: str
    used_usd: float
    limit_usd: float


class CostReply(CallReply, frozen=True, kw_only=True):
    """Usage and cost of the tenant's sessions, from their journals.

    Attributes:
        by: Grouping of the rows.
        tz: Time zone of the days.
        rows: Days in order. Other groupings list the most expensive first.
        total: Sum of all rows.
        today: Usage of today, regardless of the requested period.
        month: Usage of this month.
        budgets: Budgets of awake sessions, those closest to their limits first, at most 20.
        unread: Sessions whose journals could not be read completely. Their later usage is missing.
        day_budgets: Budget of the tenant, then those of the users who spent most today, at most 20. Empty if the server has no
            daily limit.
        names: Display names of sessions in the rows and budgets, by id: the title, or else the first message. Omits sessions
            that are not in memory.
    """

    by: str
    tz: str
    rows: tuple[CostItem, ...]
    total: CostItem
    today: CostItem
    month: CostItem
    budgets: tuple[CostBudget, ...]
    unread: tuple[str, ...]
    day_budgets: tuple[CostDayBudget, ...]
    names: dict[str, str] | UnsetType = UNSET


class TracePage(CallReply, frozen=True, kw_only=True):
    """A page of a journal.

    Attributes:
        entries: Records with the decisions of each step. In a search, the matches found so far.
        next: `after` of the next page, or None on the last page.
        previous: `before` of the previous page, or None on the first page.
        first: Number of the first record that is kept.
        last: Number of the last record.
    """

    entries: tuple[JournalEntry, ...]
    next: int | None
    previous: int | None
    first: int
    last: int


class StateReply(CallReply, frozen=True, kw_only=True):
    """State of a session after a record. Secrets are replaced. Plugin options and the application's own data are omitted.

    Attributes:
        at: Number of the record.
        state: `phase`, `suspended`, `ended`, `messages`, `plugins` (by name, each with `version` and `state`), `tools`,
            `todos`, and further state by name. Later versions may add names.
        patch: JSON Patch (RFC 6902) from the state after the record `from` to this one, or None if `from` was not given.
    """

    at: int
    state: dict[str, Any]
    patch: tuple[PatchStep, ...] | None


class EventPageReply(CallReply, frozen=True, kw_only=True):
    """A page of a session's published events. Rewound events are omitted, so numbers may have gaps.

    Attributes:
        events: Events in order, in their wire form. A text of more than 16 KiB is replaced by `{"$cut": bytes}`.
        first: Lowest number that the page covers, which is `before` of the previous page.
        last: Highest number that the page covers, which is `after` of the next page.
        more: Whether there are more events in the requested direction.
        kept_from: Number of the first event that can still be read.
    """

    events: tuple[msgspec.Raw, ...]
    first: int
    last: int
    more: bool
    kept_from: int


class CallResult(CallReply, frozen=True, kw_only=True):
    """The result of a call.

    Attributes:
        content: Result shown to the model, or the requested part of it.
        error: Whether the result reports an error.
        size: Size of the whole result, in bytes of UTF-8.
        from_bytes: Start of the part: the first whole character at or after the requested offset.
        to_bytes: End of the part, in bytes.
        details: Details for users, or None if there are none or they are too large.
    """

    content: str
    error: bool
    size: int
    from_bytes: int
    to_bytes: int
    details: Any


class CallDetails(CallReply, frozen=True, kw_only=True):
    """All known facts about one call.

    Attributes:
        call_id: Call id.
        name: Tool of the call.
        arguments: Arguments written by the model, or None if they are not a JSON object.
        effective_arguments: Arguments that ran or were refused, or None if not yet known.
        arguments_text: The effective arguments as canonical JSON text, with numbers in the form that is hashed.
        arguments_hash: SHA-256 of that text, hexadecimal, or None before the arguments are known.
        gates: Decisions about the call, in order.
        result: Result, or None while it has none.
        at_ms: Time at which the model requested the call.
        started_at_ms: Time of the verdict, or None before.
        ended_at_ms: Time of the result, or None before.
        outcome: `done`, `error`, `blocked`, `killed`, `skipped` or `unknown`, or None while it has no outcome.
        seq: Number of the response that requested the call.
        offloaded: Workspace file with the whole of a large result, or None if it is not in a file.
    """

    call_id: str
    name: str
    arguments: dict[str, Any] | None
    effective_arguments: dict[str, Any] | None
    arguments_text: str | None
    arguments_hash: str | None
    gates: tuple[CallGate, ...]
    result: CallResult | None
    at_ms: int
    started_at_ms: int | None
    ended_at_ms: int | None
    outcome: str | None
    seq: int
    offloaded: str | None


class SpanPage(CallReply, frozen=True, kw_only=True):
    """Spans of a session, or of one of its cycles.

    Attributes:
        spans: Spans in start order.
        first: Number of the first event that they are built from.
        last: Number of the last event that they are built from.
        more: Whether earlier events exist. Use `cycle` to get the spans of one cycle.
    """

    spans: tuple[SpanItem, ...]
    first: int
    last: int
    more: bool


class InspectedMessages(CallReply, frozen=True, kw_only=True):
    """A page of a conversation, for operators.

    Attributes:
        messages: Messages in order.
        next: `after` of the next page, or None on the last page.
        usage: Usage of the whole session. The journal has the usage of each response.
    """

    messages: tuple[Message, ...]
    next: int | None
    usage: TokenUsage
