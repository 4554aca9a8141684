"""Reply structs for operators: trees, plugins, cost, journals, events, calls, timelines, and the next model request.

Only data formats, as in `replies`. Their contents are decided where they are created.
"""

from typing import Any, Literal

import msgspec
from msgspec import UNSET, UnsetType

from agentrail.core.values.json_patch import PatchStep
from agentrail.gateway.replies import CallReply
from agentrail.messages import Message, TokenUsage
from agentrail.runtime.past import JournalEntry
from agentrail.wire.inspected_rows import ExitNote, Intensity, PluginRow


class TreeItem(CallReply, frozen=True, kw_only=True):
    """A node of the supervision tree.

    Attributes:
        id: Of a session its id.
        kind: `worker` or `supervisor`.
        status: Such as `running`.
        strategy: Of a supervisor what it does about a child that ends; None of a worker.
        phase: Of a session what it does.
        incarnation: How many instances of it came up.
        restarts: How often it was started again since it recovered.
        uptime_seconds: Since its last instance came up; None while none is.
        mailbox: How many messages wait for it; None of what has no mailbox.
        key: Where it stands below the root; the same over all its restarts.
        up_at_ms: When its last instance came up, in milliseconds since 1970; None while none is up.
        intensity: How many restarts are allowed and used; None of what has no budget of its own.
        exits: How it ended the last five times, the newest last.
        stuck: Whether it did not obey when it was told to stop.
        title: What a session is about, as its model called it; None while it has not, and of what is no session.
        first_words: What was said to a session first, up to 80 characters; None where that is not known.
        children: In start order.
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
        next: Pass it as `after` for the next page; None where this is the last one.
    """

    next: int | None


class HostPluginItem(CallReply, frozen=True, kw_only=True):
    """A plugin of the host.

    Attributes:
        name: Which one.
        version: Of its code.
        priority: Higher runs first.
        critical: Whether a failing interceptor refuses the request.
        fail_closed: Whether a failing hook in front of a tool denies the call.
        hooks: Those that it has.
        failures: How often one of them failed.
        stuck_hook: One that does not come back; None without.
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
    """The plugins of the host, and those of the sessions of the tenant.

    Attributes:
        plugins: Those of the host in their order.
        rows: The same, and those of sessions by name: how often each hook was called, failed and how long it took.
    """

    plugins: tuple[HostPluginItem, ...]
    rows: tuple[PluginRow, ...]


class CostItem(CallReply, frozen=True, kw_only=True):
    """What was used.

    Attributes:
        key: The day as `2026-11-22`, or the name of the profile, model, user or session; empty of what has none, and of a sum.
        tokens_in: Tokens read, those from a cache included.
        tokens_out: Tokens written.
        cached: The part of `tokens_in` that came from a cache.
        cost_usd: What it cost, as far as prices are known.
        estimated_usd: The part of that which was estimated, because no server had said what was used.
        requests: How many requests to models used something.
        unpriced: How many of them have no known price.
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
    """A budget, and what is used of it.

    Attributes:
        name: The session that has it.
        used_usd: What was booked.
        limit_usd: What may be spent.
    """

    name: str
    used_usd: float
    limit_usd: float


class CostDayBudget(CallReply, frozen=True, kw_only=True):
    """A budget of a day, and what is used of it. Behind it no messages are taken.

    Attributes:
        of: Whose it is: `user` or `tenant`.
        name: The user's id, or the tenant's.
        used_usd: What was spent since the last midnight of UTC, as far as prices are known; a few seconds old.
        limit_usd: What may be spent.
        resets_at_ms: The next midnight of UTC, in milliseconds since 1970.
    """

    of: Literal["user", "tenant"]
    name: str
    used_usd: float
    limit_usd: float
    resets_at_ms: int


class CostReply(CallReply, frozen=True, kw_only=True):
    """What the sessions of the tenant have used, from their journals.

    Attributes:
        by: What has a row.
        tz: In whose days.
        rows: Days in order; all others the most expensive first.
        total: All of them together.
        today: What was used today, whatever was asked for.
        month: What was used this month.
        budgets: Of sessions that are awake, those nearest to their limits first, 20 at most.
        unread: Sessions whose journals could not be read to their end: what they used since is missing.
        day_budgets: That of the tenant, then those of users, who spent most today first, 20 at most; none where the server has no such limit.
        names: What sessions among the rows and the budgets are called, by their ids: their title, else what was said to them first. Sessions
            that are not in memory are left out.
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
    """A part of a journal.

    Attributes:
        entries: Its records, with what each step decided; where some are looked for, those that were found so far.
        next: `after` of the page behind; None behind the last.
        previous: `before` of the page in front; None in front of the first.
        first: The number of the first record that is kept.
        last: The number of the last one.
    """

    entries: tuple[JournalEntry, ...]
    next: int | None
    previous: int | None
    first: int
    last: int


class StateReply(CallReply, frozen=True, kw_only=True):
    """What a session was behind a record. Secrets are replaced, and options of plugins and the application's own data are left out.

    Attributes:
        at: The number of the record.
        state: `phase`, `suspended`, `ended`, `messages`, `plugins` (by name, each with `version` and `state`), `tools`, `todos`, and what
            else it knew, by name. What comes later comes as further names.
        patch: As JSON Patch (RFC 6902), what makes of the state behind the record `from` this one; None where no other was named.
    """

    at: int
    state: dict[str, Any]
    patch: tuple[PatchStep, ...] | None


class EventPageReply(CallReply, frozen=True, kw_only=True):
    """A part of what a session has published. What a rewind has undone is left out, so numbers may have gaps.

    Attributes:
        events: In order, each in its wire form; a text of more than 16 KiB in it is `{"$cut": bytes}`.
        first: The lowest number that the page covers: `before` of the page in front.
        last: The highest: `after` of the page behind.
        more: Whether there are more in the direction that was asked for.
        kept_from: The number of the first event that can still be read.
    """

    events: tuple[msgspec.Raw, ...]
    first: int
    last: int
    more: bool
    kept_from: int


class CallGate(CallReply, frozen=True, kw_only=True):
    """What was decided about a call.

    Attributes:
        gate: What decided: `approval`, `rule`, `plugin`, `policy`.
        verdict: Such as `asked`, `approved`, `rejected`, `timeout`, `blocked`.
        by: Who: a plugin by its name, `user`, `timeout`; None while nothing is decided.
        reason: In words; None where none was given.
        at_ms: When.
    """

    gate: str
    verdict: str
    by: str | None
    reason: str | None
    at_ms: int


class CallResult(CallReply, frozen=True, kw_only=True):
    """What a call came to.

    Attributes:
        content: What the model reads, or the part of it that was asked for.
        error: Whether it says that something went wrong.
        size: Of all of it, in bytes of UTF-8.
        from_bytes: Where the part begins: the first whole character at or behind what was asked for.
        to_bytes: Where it ends.
        details: For people; None where there are none, or they are large.
    """

    content: str
    error: bool
    size: int
    from_bytes: int
    to_bytes: int
    details: Any


class CallDetails(CallReply, frozen=True, kw_only=True):
    """All that is known of one call.

    Attributes:
        call_id: Which one.
        name: Its tool.
        arguments: What the model wrote; None where that is no JSON object.
        effective_arguments: What ran, or was refused; None before that is known.
        arguments_text: These as JSON source text, canonical: numbers stand as they are hashed.
        arguments_hash: SHA-256 of that text, hexadecimal; None before these are known.
        gates: What was decided about it, in order.
        result: What it came to; None while it has none.
        at_ms: When the model asked for it.
        started_at_ms: When the verdict on it was known; None before.
        ended_at_ms: When it had its result; None before.
        outcome: `done`, `error`, `blocked`, `killed`, `skipped`, `unknown`; None while it has none.
        seq: The number of the response that asked for it.
        offloaded: The file of the workspace that has all of a large result; None where it is not in one.
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


class SpanMarkItem(CallReply, frozen=True, kw_only=True):
    """Something that happened within a span.

    Attributes:
        at_ms: When.
        plugin: Who acted; empty where no plugin did.
        hook: At which hook event; empty where that is not known.
        action: What, such as `failed`, `slow`, `intervened`, `retry`.
        detail: More of it in a word or a number; None where there is nothing.
    """

    at_ms: int
    plugin: str
    hook: str
    action: str
    detail: str | None


class SpanItem(CallReply, frozen=True, kw_only=True):
    """A span of a session's timeline.

    Attributes:
        key: Its name in the session.
        parent: The key of the span above; None for none.
        kind: `cycle`, `request`, `call`, `gate`, `child` or `compaction`.
        name: As the conventions of OpenTelemetry name it.
        from_ms: When it began, in milliseconds since 1970.
        to_ms: When it ended; None while it is open.
        seq: The number of the event that began it.
        to_seq: Of the one that ended it.
        outcome: How it ended; of a gate the verdict.
        attempt: Of a request or a call.
        tokens_in: The input that it has used itself.
        tokens_out: The output.
        cost_usd: What that cost; None where it is not known.
        marks: What happened within.
        attributes: What else is known.
    """

    key: str
    parent: str | None
    kind: Literal["cycle", "request", "call", "gate", "child", "compaction"]
    name: str
    from_ms: int
    to_ms: int | None
    seq: int
    to_seq: int | None
    outcome: str | None
    attempt: int | None
    tokens_in: int | None
    tokens_out: int | None
    cost_usd: float | None
    marks: tuple[SpanMarkItem, ...]
    attributes: dict[str, Any]


class SpanPage(CallReply, frozen=True, kw_only=True):
    """The spans of a session, or of one of its cycles.

    Attributes:
        spans: In the order in which they began.
        first: The number of the first event that they are made of.
        last: Of the last one.
        more: Whether there were events in front of these; `cycle` gives the spans of each cycle.
    """

    spans: tuple[SpanItem, ...]
    first: int
    last: int
    more: bool


class ContextPart(CallReply, frozen=True, kw_only=True):
    """A part of what a model will be sent.

    Attributes:
        name: Of a section or a tool, or what a message is.
        kind: What it is.
        role: Of a message; None of others.
        seq: The number of the event that brought it; None where that is not known.
        tokens: How long it is, estimated.
        text_head: How it begins, at most 500 characters.
        call_ids: Of an answer the calls that it asks for, of results those that they answer.
        ref: The prompt that a message is; None of others.
    """

    name: str
    kind: Literal["system", "tools", "message", "provider", "summary"]
    role: str | None
    seq: int | None
    tokens: int
    text_head: str
    call_ids: tuple[str, ...]
    ref: str | None


class ContextReply(CallReply, frozen=True, kw_only=True):
    """What a model will be sent next.

    Attributes:
        model: The model string.
        window: How many tokens it reads at most; None where that is not known.
        tokens: Of all parts, estimated.
        counted_tokens: What the vendor counted in the last request; 0 before the first.
        digest: SHA-256 of the request, hexadecimal.
        parts: In the order in which they are sent.
    """

    model: str
    window: int | None
    tokens: int
    counted_tokens: int
    digest: str
    parts: tuple[ContextPart, ...]


class InspectedMessages(CallReply, frozen=True, kw_only=True):
    """A part of a conversation, for who looks after it.

    Attributes:
        messages: In order.
        next: `after` of the page behind; None behind the last.
        usage: Of the whole session; that of each response stands in its journal.
    """

    messages: tuple[Message, ...]
    next: int | None
    usage: TokenUsage
