"""Export and import of stored sessions, and forks of sessions not in memory. Each function blocks. No calls are carried out."""

from collections import defaultdict
from collections.abc import Iterator
from typing import Final, Literal, TypeAlias

import msgspec
from msgspec.structs import replace

from agentrail.abc.store import Filters, Opening, Standing, Store, StoredSession
from agentrail.core.journal.exports import ExportHead, encode_export, encode_sizes, read_export
from agentrail.core.journal.record import Tail, codec_of, sealed, split_draft
from agentrail.core.journal.recorder import opened_draft
from agentrail.core.journal.replay import steps
from agentrail.core.journal.session_owner import owner_in_opened, session_owner_key
from agentrail.core.journal.spans import JournalSpan, SessionSpans, encode_otlp
from agentrail.core.protocol.effects import Publish
from agentrail.core.session.fork import config_of_fork, forked_state
from agentrail.core.stack.loaded_stack import Ask
from agentrail.errors import AlreadyExists, CodecError, Fenced, OptionError, Trimmed
from agentrail.messages import AssistantMessage, Message, SessionId, Text, ToolCall, ToolMessage
from agentrail.runtime.journal_state import Journal
from agentrail.runtime.persistence import ENGINE
from agentrail.runtime.session_keys import fault_of_scope
from agentrail.runtime.session_loader import PluginFinder, all_sessions, fold_sources, read_after
from agentrail.runtime.session_options import faults_of_value
from agentrail.runtime.tree_secrets import without_known
from agentrail.structs import picked_fields, struct_from

ExportFormat: TypeAlias = Literal["jsonl", "markdown", "otlp"]
"""Export formats of a supervisor. The command also has `scenario`: tests do not belong to a running session."""

_SPANS_IN_A_LINE: Final = 512


def export_stored(store: Store, stored: StoredSession, *, content: bool = True) -> Iterator[bytes]:
    for one in stored_tree_of(store, stored):
        if one.first_seq > 1 and content:
            raise Trimmed(one.session, first=one.first_seq)
        records = read_after(store, one.scope, one.session, one.first_seq - 1, one.tail.seq)
        head = _head_of(one)
        yield from encode_export(head, records, store.blob) if content else encode_sizes(head, records)


def stored_tree_of(store: Store, stored: StoredSession) -> tuple[StoredSession, ...]:
    if stored.root != stored.session:
        return (stored,)
    below: defaultdict[str, list[StoredSession]] = defaultdict(list)
    for one in all_sessions(store, Filters(scope=stored.scope, root=stored.session)):
        if one.session != stored.session:
            below[one.parent].append(one)
    tree = [stored]
    for one in tree:  # it grows during the loop
        tree += below.pop(one.session, ())
    return (*tree, *(one for left in below.values() for one in left))


def export_spans(store: Store, stored: StoredSession, ask: Ask, *, content: bool = True) -> Iterator[bytes]:
    for one in stored_tree_of(store, stored):
        made = SessionSpans(scope=one.scope, session=one.session, content=content, scrub=without_known)
        closed = stored_spans(store, one, ask, made)
        found = sorted((*closed, *made.close()), key=lambda span: span.number)
        for place in range(0, len(found), _SPANS_IN_A_LINE):
            yield encode_otlp(found[place : place + _SPANS_IN_A_LINE])


def stored_spans(store: Store, one: StoredSession, ask: Ask, made: SessionSpans) -> list[JournalSpan]:
    """Return the spans that the journal of a session closes, in the order in which they ended."""
    if one.first_seq > 1:
        raise Trimmed(one.session, first=one.first_seq)
    finder, found = PluginFinder({}), list[JournalSpan]()
    with finder.naming_missing(one.session):
        records = read_after(store, one.scope, one.session, 0, one.tail.seq)
        for step in steps(records, fold_sources(store, one, finder, ask)):
            made.user_data = step.walked.after.data.config.user_data
            for effect in step.walked.effects:
                if isinstance(effect, Publish):
                    found += made.feed(effect.event)
    return found


def leaving_export(data: bytes, *, is_exact: bool) -> bytes:
    text = data.decode("utf-8", "replace")
    said = without_known(text)
    if said == text:
        return data
    if is_exact:
        fault = "the records contain a secret that was registered only later: export without content, or as markdown, where it is replaced"
        raise OptionError([fault])
    return said.encode()


def _head_of(stored: StoredSession) -> ExportHead:
    return ExportHead(
        records=0,
        **picked_fields(stored, "session", "scope", "root", "parent", "forked_from"),
        **msgspec.structs.asdict(stored.standing),
    )


def openings_of(text: bytes) -> tuple[Opening, ...]:
    try:
        exported = read_export(text)
    except CodecError as error:
        raise OptionError([str(error)]) from error
    OptionError.raise_for([fault for one in exported for fault in _faults_of_names(one.head)])
    return tuple(
        Opening(
            records=one.records,
            codec=codec_of(one.records),
            root=one.head.root,
            parent=one.head.parent,
            forked_from=one.head.forked_from,
            node="",
            owner=owner_in_opened(one.records[0].body),
            standing=struct_from(Standing, one.head),
            blobs=one.blobs,
        )
        for one in exported
    )


def _faults_of_names(head: ExportHead) -> Iterator[str]:
    """Yield faults of names that no session has here: commands show them, and paths of files are made of them."""
    yield from filter(None, [fault_of_scope("scope", head.scope)])
    forked_from = "" if head.forked_from is None else head.forked_from[0]
    for name in dict.fromkeys((head.session, head.root, head.parent or head.root, forked_from or head.root)):
        yield from faults_of_value("session_id", name)


def import_stored(store: Store, text: bytes) -> tuple[SessionId, ...]:
    """Write the sessions of an export into a store, bit for bit. Existing sessions are left as they are."""
    openings = openings_of(text)
    for opening in openings:
        try:
            store.create(opening)
        except Fenced as error:
            message = (
                f"session {opening.session!r} was resumed after this export: delete it first, or resume it"
            )
            raise AlreadyExists(message) from error
    return tuple([one.session for one in openings])


def fork_stored(  # noqa: PLR0913 - the parts of a fork
    store: Store,
    journal: Journal,
    number: int,
    session_id: SessionId,
    at_ms: int,
    *,
    working_dir: str | None = None,
) -> None:
    """Create the journal of a fork that is not in memory. It starts when it is resumed."""
    parent = journal.stored
    then = journal.state_behind(number)
    config = config_of_fork(then.data.config, session_id)
    if working_dir is not None:
        config = replace(config, working_dir=working_dir)
    state = forked_state(then, config, at_ms)
    state = replace(state, data=replace(state.data, started_at_ms=at_ms))
    forked_from = (parent.session, number)
    draft, blobs = split_draft(opened_draft(state, at_ms=at_ms, engine=ENGINE, forked_from=forked_from))
    records, _ = sealed((draft,), Tail(), scope=parent.scope, session=session_id)
    owner = session_owner_key(config.user_data)
    store.create(
        Opening(
            records=records,
            root=session_id,
            forked_from=forked_from,
            node="",
            owner=owner,
            codec=codec_of(records),
            blobs=blobs,
        )
    )


def render_markdown(messages: tuple[Message, ...], *, content: bool = True) -> str:
    if not content:
        return "\n\n".join(map(_size_in_markdown, messages)) + "\n" if messages else ""
    parts: list[str] = []
    for message in messages:
        if isinstance(message, ToolMessage):
            parts += [f"**Result of {one.name}**\n\n{_quoted(one.text)}" for one in message.results]
            continue
        who = "Assistant" if isinstance(message, AssistantMessage) else "User"
        said = "".join(block.text for block in message.content if isinstance(block, Text))
        calls = [block for block in message.content if isinstance(block, ToolCall)]
        parts.append(f"## {who}" + (f"\n\n{said}" if said else ""))
        encode = msgspec.json.Encoder(enc_hook=dict).encode
        parts += [f"**Calls {one.name}**\n\n{_quoted(encode(one.arguments).decode())}" for one in calls]
    return "\n\n".join(parts) + "\n" if parts else ""


def _size_in_markdown(message: Message) -> str:
    if isinstance(message, ToolMessage):
        sizes = ", ".join(str(len(one.text)) for one in message.results)
        return f"**Results**\n\n{len(message.results)}, of {sizes or 'no'} characters"
    who = "Assistant" if isinstance(message, AssistantMessage) else "User"
    said = sum(len(block.text) for block in message.content if isinstance(block, Text))
    calls = sum(isinstance(block, ToolCall) for block in message.content)
    return f"## {who}\n\n{said} characters" + (f", {calls} calls" if calls else "")


def _quoted(text: str) -> str:
    return "\n".join(f"> {line}" for line in text.split("\n"))
