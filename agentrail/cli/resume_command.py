"""Stored sessions in commands: the store of `run --keep` and `chat`, and the output of a resumed session."""

import os
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import trio
from attrs import frozen

from agentrail import outside
from agentrail.abc.store import Filters, Store, StoredSession
from agentrail.cli.chat_answers import NO_RULES
from agentrail.cli.event_text import Piece, Transcript
from agentrail.cli.exit_codes import Exit, describe_error
from agentrail.cli.resume_option import LATEST
from agentrail.cli.run_options import Choices
from agentrail.cli.screen import DirectScreen, look_of_process
from agentrail.cli.session_code import Resumable, code_of, refuse_without_code, resumable_of
from agentrail.cli.session_views import conversation, joined_words, shorten
from agentrail.cli.shared_stores import open_equipped
from agentrail.cli.storage_options import DEFAULT_STORE, KeepingOptions, directory_for
from agentrail.cli.store_access import (
    StorePlace,
    all_sessions,
    find_one,
    say,
    shown_id,
    state_of,
)
from agentrail.core.session.views import Status, snapshot_of
from agentrail.errors import AgentrailError, OptionError, StoreInUse, StoreUnavailable, Unrevivable
from agentrail.events import ApprovalRequired, AskUser, Event, PluginEvent, Question
from agentrail.messages import JsonValue, PromptRef
from agentrail.runtime.persistence import OnDrift
from agentrail.runtime.session_handle import Session
from agentrail.runtime.supervisor import SessionSupervisor
from agentrail.stores.store_names import open_store, path_of_store
from agentrail.structs import picked_fields

Say = Callable[[str], Awaitable[None]]


# --- the store


@asynccontextmanager
async def kept_store(options: KeepingOptions, tell: Say, *, is_needed: bool) -> AsyncIterator[Store | None]:
    """Open the store for a block.

    Cancellation: Closing it is shielded.
    """
    try:
        store = await outside.offload(_open_kept, options)
    except (StoreInUse, StoreUnavailable) as error:
        if is_needed or options.store is not None or options.resume is not None:
            raise
        await tell(f"this session is not kept: {describe_error(error)}")
        yield None
        return
    try:
        salvaged = getattr(store, "salvaged", None)  # of a file store: a damaged file was repaired on opening
        for line in str(salvaged or "").splitlines():
            await tell(line)
        yield store
    finally:
        with trio.CancelScope(shield=True):
            await outside.offload(store.close)


def _open_kept(options: KeepingOptions) -> Store:
    name = DEFAULT_STORE if options.store is None else options.store
    directory = directory_for(name, options.data_dir)
    path = None if options.resume is None else path_of_store(name, directory or Path())
    is_missing = path is not None and not os.access(path, os.F_OK)
    # Reading alone reports a missing store, and creates none.
    return open_store(name, directory, read_only=is_missing)


def is_lasting(store: Store | None) -> bool:
    return store is not None and not store.is_immediate


# --- a resumed session


@frozen(kw_only=True)
class ComeBack:
    """A resumed session.

    Attributes:
        running: The prompt of its cycle, or None if it is idle.
    """

    session: Session
    after: int
    shown: tuple[Piece, ...]
    running: PromptRef | None
    queued: tuple[PromptRef, ...]


async def come_back(
    supervisor: SessionSupervisor,
    store: Store,
    resumable: Resumable,
    choices: Choices | None = None,
    *,
    on_drift: OnDrift | None = None,
) -> ComeBack:
    found = resumable.stored
    given = code_of(resumable.opening, resumable.setup, choices)
    before = await outside.offload(state_of, store, found)
    try:
        session = await supervisor.resume_session(
            found.session, scope=found.scope, on_drift=on_drift, **given
        )
    except Unrevivable as error:
        refuse_without_code(error, resumable)
    except OptionError as error:
        if await outside.offload(resumable.working_dir.is_dir):
            raise
        message = (
            f"session {shown_id(found)} works in {resumable.working_dir}, which no longer exists: recreate it"
        )
        raise OptionError([message]) from error
    data = before.state.data
    snapshot = snapshot_of(before.state.phase, data, found.written_at_ms)
    waiting = [f"(waits) {shorten(joined_words(one.content))}\n" for one in snapshot.queued]
    return ComeBack(
        session=session,
        after=data.seq,
        shown=(*conversation(data.history.since(0)), *[Piece("err", one) for one in waiting]),
        running=None if data.cycle is None else data.cycle.ref,
        queued=snapshot.status.queued,
    )


def asked_again(status: Status, rules: Mapping[str, tuple[str, ...]] = NO_RULES) -> tuple[Event, ...]:
    """Return a session's pending approvals and questions as events, as if they had just been asked.

    Before each approval comes the event with the rules that "always" would save, by the id of the approval.
    """
    events: list[Event] = []
    for one in status.all_approvals:
        if saved := rules.get(one.id):
            payload: JsonValue = {"call_id": one.call_id, "tool": one.tool, "always": [*saved]}
            events.append(PluginEvent(name="permission_asked", payload=payload))
        events.append(ApprovalRequired(approval=one))
    return (*events, *map(_asked, status.all_questions))


def _asked(question: Question) -> Event:
    return AskUser(**picked_fields(question, "ref", "question", "options", "schema", "url", "call_id"))


# --- `agentrail sessions recover`


async def recover_sessions(
    session: str | None,
    place: StorePlace,
    *,
    on_drift: OnDrift | None = None,
    drifted_by: str | None = None,
) -> Exit:
    """Resume sessions, run them until they are done or wait for the user, and show their output.

    Cancellation: Resumed sessions stop, as when a supervisor is closed.
    """
    if place.store == "memory:":
        raise OptionError(["store is 'memory:', which has nothing to recover: name a file"])
    screen, transcript = DirectScreen(), Transcript(look_of_process())

    async def tell(text: str) -> None:
        await screen.write(transcript.note(text))

    options = KeepingOptions(store=place.store, data_dir=place.data_dir, resume=session or LATEST)
    failed = 0
    async with kept_store(options, tell, is_needed=True) as opened:
        assert opened is not None  # noqa: S101 - `is_needed` raises without a store
        filters = Filters(scope=place.scope or None, only_roots=True, has_ended=False)
        roots = await outside.offload(lambda: tuple(all_sessions(opened, filters))) if session is None else ()
        if drifted_by is not None:
            found = await outside.offload(_drifted_by, opened, roots, drifted_by)
        elif session is None:
            working = {shown_id(one) for one in await outside.offload(opened.orphans, 10_000)}
            found = tuple(one for one in roots if shown_id(one) in working)
        else:
            found = (await outside.offload(find_one, opened, session, place.scope),)
        for one in found:
            error = await _recovered(options, opened, one, (screen, transcript), on_drift)
            if error is not None:
                failed += 1
                await tell(f"{shown_id(one)} did not come back: {describe_error(error)}")
    say(f"{len(found) - failed} of {len(found)} sessions came back")
    return Exit.FAILED if failed else Exit.DONE


def _drifted_by(store: Store, roots: Sequence[StoredSession], plugin: str) -> tuple[StoredSession, ...]:
    """Find the sessions that would be parked because of a plugin. Blocks."""
    found: list[StoredSession] = []
    for one in roots:
        try:
            drift = state_of(store, one).drift
        except AgentrailError:  # unreadable: recovering it by its id reports the reason
            continue
        if drift is not None and drift.is_of_deeds and drift.plugin == plugin:
            found.append(one)
    return tuple(found)


async def _recovered(
    options: KeepingOptions,
    store: Store,
    found: StoredSession,
    shown: tuple[DirectScreen, Transcript],
    on_drift: OnDrift | None,
) -> AgentrailError | None:
    error: AgentrailError | None = None
    try:
        resumable = await resumable_of(store, found)
        async with open_equipped(options, resumable.setup, store=store) as supervisor:
            try:
                back = await come_back(supervisor, store, resumable, on_drift=on_drift)
                await _follow(back, *shown)
            except AgentrailError as raised:  # caught here, because outside the block errors come in groups
                error = raised
    except AgentrailError as raised:
        error = raised
    return error


async def _follow(back: ComeBack, screen: DirectScreen, transcript: Transcript) -> None:
    async with back.session.subscribe(after=back.after, buffer=100_000) as events:
        seen = back.after
        while True:
            status = await back.session.status()
            rests = status.suspended or (status.phase == "idle" and not status.tearing_down)
            if rests and seen >= status.last_seq:
                break
            event = await anext(events)
            seen = seen if event.meta is None or event.meta.ephemeral else event.meta.seq
            await screen.write(transcript.feed(event))
    for asked in asked_again(await back.session.status()):
        await screen.write(transcript.feed(asked))
