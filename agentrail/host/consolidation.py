"""`Consolidation`: a host plugin that makes profiles of what users said in their sessions, while they and all others are away.

When it is time and what is taken of answers is decided in `profile_policy`. Here sessions are read through a port, models are asked in a
supervisor of the plugin's own, which keeps nothing, and a profile is written in one piece.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, Protocol, TypeVar

import trio

from agentrail.abc import Memories, Provider
from agentrail.app import open_supervisor
from agentrail.core.policy.budget import Budget
from agentrail.errors import AgentrailError, OptionError, SessionDown
from agentrail.host.identity import SessionOwner
from agentrail.host.payloads import RequestContext
from agentrail.host.plugin import HostPlugin
from agentrail.host.profile_policy import (
    LEAST_MESSAGES,
    FoundProfile,
    MergedProfile,
    ProfileLine,
    SessionChange,
    decide_changed,
    decode_profile,
    encode_profile,
    extraction_prompt,
    lines_found,
    lines_merged,
    lines_without,
    merge_prompt,
    sessions_of,
)
from agentrail.logs import Logger
from agentrail.messages import Message
from agentrail.runtime.supervisor import SessionSupervisor

LOGGER: Final = Logger("agentrail.host")

PROFILE_ID: Final = "profile"
"""The id of the memory that is the profile of its owner."""

PROFILE_TAG: Final = "profile"

LOOK_FOR_IDLE_SECONDS: Final = 60.0
"""How often it is looked whether a profile is old, or a source of one is gone."""

_DAY_MS: Final = 86_400_000
_AGAIN_MS: Final = 3_600_000
"""How long a user is left alone whose profile could not be made."""

_MAX_OUTPUT_TOKENS: Final = 4_096
_ANSWER_SECONDS: Final = 120.0
_STOP_SECONDS: Final = 5.0
_LONGEST_WAIT_SECONDS: Final = 600.0
"""How long requests go first: one that waits for a person may do so for days."""

_USUAL_BUDGET: Final = Budget(max_total_tokens=60_000)

T = TypeVar("T")


class UserSessions(Protocol):
    """What is read of sessions, and where profiles are written; `open_host` gives it."""

    def now_ms(self) -> int:
        """Read the clock by which sessions changed: milliseconds since 1970."""
        ...

    async def changes(self) -> Mapping[SessionOwner, Sequence[SessionChange]]:
        """Give all stored sessions of all users, by user; not those that work for others.

        Raises:
            StoreUnavailable: They cannot be read now.
        """
        ...

    async def conversation(self, owner: SessionOwner, session: str) -> Sequence[Message] | None:
        """Give what was said in a session, without waking it; None where it is not there any more.

        Raises:
            AgentrailError: It cannot be read.
        """
        ...

    async def is_there(self, owner: SessionOwner, session: str) -> bool:
        """Say whether a user has a session: it was neither deleted nor erased.

        Raises:
            StoreUnavailable: That cannot be known now.
        """
        ...

    def memories(self, owner: SessionOwner) -> Memories | None:
        """Give what a user has remembered; None where nothing is remembered here."""
        ...


class Consolidation(HostPlugin):
    """Makes a profile of each user: preferences, role, focus, and what to avoid, each line with the messages that it rests on."""

    name = "consolidation"
    version = "1.0.0"

    def __init__(
        self,
        model: str | Provider,
        *,
        budget: Budget = _USUAL_BUDGET,
        max_calls_per_day: int = 200,
        look_every: float = LOOK_FOR_IDLE_SECONDS,
    ) -> None:
        """Say who is asked, and how much.

        Args:
            model: Reads the conversations; a name as of `start_session`, or a provider.
            budget: What each call of it may use. A call that could pass it is not made, and that user's profile waits.
            max_calls_per_day: How many calls are made at most in 24 hours, for all users together; 2 or more.
            look_every: How many seconds lie between two looks; above 0.

        Raises:
            OptionError: Your move; all faults at once.
        """
        faults = [
            f"{name} is {value!r:.80}: expected {expected}"
            for name, value, is_one, expected in (
                ("budget", budget, isinstance(budget, Budget), "Budget(max_total_tokens=…)"),
                ("max_calls_per_day", max_calls_per_day, _is_whole_from_2(max_calls_per_day), "2 or more"),
                ("look_every", look_every, _is_positive(look_every), "finite seconds above 0"),
            )
            if not is_one
        ]
        if faults:
            raise OptionError(faults)
        self._model = model
        self._budget = budget
        self._max_calls = max_calls_per_day
        self._every = look_every
        self._sessions: UserSessions | None = None
        self._is_connected = trio.Event()
        self._open_requests = 0
        self._is_quiet = trio.Event()
        self._is_quiet.set()
        self._calls: list[int] = []
        # In memory alone: behind a restart what changed since a profile is read again, and nothing worse.
        self._read: dict[SessionOwner, dict[str, int]] = {}
        self._made_at: dict[SessionOwner, int] = {}
        self._rests_until: dict[SessionOwner, int] = {}
        self._have_profiles: dict[SessionOwner, None] = {}

    def connect(self, sessions: UserSessions) -> None:
        """Take what sessions are read through. For `open_host`."""
        self._sessions = sessions
        self._is_connected.set()

    # --- requests go first

    async def on_request_start(self, ctx: RequestContext) -> None:
        """Note that a request is worked on: no call of a model is begun meanwhile."""
        self._open_requests += 1
        self._is_quiet = trio.Event()

    async def on_request_end(self, ctx: RequestContext) -> None:
        """Note its end."""
        self._open_requests = max(0, self._open_requests - 1)
        if not self._open_requests:
            self._is_quiet.set()

    # --- looking

    async def background(self) -> None:
        """Look at all users, again and again.

        Cancellation: At once; a profile that is being made is not written.
        """
        await self._is_connected.wait()
        # Without a store: what users said is kept nowhere a second time.
        async with open_supervisor() as asking:
            while True:
                await self.look(asking)
                await trio.sleep(self._every)

    async def look(self, asking: SessionSupervisor) -> None:
        """Look at all users once. One whose profile cannot be made keeps no other from theirs, and is left alone for an hour.

        Args:
            asking: Where models are asked; keeps no sessions.

        Cancellation: As of `background`.
        """
        assert self._sessions is not None  # noqa: S101 - it is connected
        try:
            there = await self._sessions.changes()
        except AgentrailError as error:
            LOGGER.warning("profiles of users are not looked at now: %s", error)
            return
        # With those who have a profile, and no session any more on which it could rest.
        changes: dict[SessionOwner, Sequence[SessionChange]] = dict.fromkeys(self._have_profiles, ())
        changes.update(there)
        for known in (self._read, self._made_at, self._rests_until):
            for owner in [owner for owner in known if owner not in changes]:
                del known[owner]
        for owner, sessions in changes.items():
            if self._rests_until.get(owner, 0) > self._sessions.now_ms():
                continue
            try:
                await self._look_at(asking, self._sessions, owner, sessions)
            except AgentrailError as error:
                self._rests_until[owner] = self._sessions.now_ms() + _AGAIN_MS
                LOGGER.warning("the profile of a user of tenant %r was not made: %s", owner.tenant_id, error)

    async def _look_at(
        self,
        asking: SessionSupervisor,
        sessions: UserSessions,
        owner: SessionOwner,
        changes: Sequence[SessionChange],
    ) -> None:
        memories = sessions.memories(owner)
        if memories is None:
            return
        entry = await memories.get(PROFILE_ID)
        before = () if entry is None else decode_profile(entry.text)
        # A source is gone: what rests on it goes too, whether it is time or not.
        lines = lines_without(before, {change.session: True for change in changes})
        if len(lines) < len(before):
            await _write(memories, lines)
        if lines:
            self._have_profiles[owner] = None
        else:
            self._have_profiles.pop(owner, None)
        made_at_ms = max(0 if entry is None else entry.at_ms, self._made_at.get(owner, 0))
        read, now = self._read.setdefault(owner, {}), sessions.now_ms()
        found: list[ProfileLine] = []
        conversations: dict[str, Sequence[Message]] = {}
        for change in decide_changed(changes, made_at_ms, now, read):
            messages = await sessions.conversation(owner, change.session) or ()
            if len(messages) >= LEAST_MESSAGES:
                conversations[change.session] = messages
            else:
                read[change.session] = change.changed_at_ms
        # Without those that were too short.
        due = decide_changed(changes, made_at_ms, now, read)
        if not due or not self._may_call(now, len(due) + 1):
            return
        for change in due:
            messages = conversations[change.session]
            said = await self._ask(asking, extraction_prompt(messages), FoundProfile)
            found += lines_found(said, change.session, messages)
        if found:
            together = [*lines, *found]
            merged = await self._ask(asking, merge_prompt(together), MergedProfile)
            await self._write_what_is_there(sessions, owner, memories, lines_merged(merged, together))
        self._made_at[owner] = now
        read.update({change.session: change.changed_at_ms for change in due})

    async def _write_what_is_there(
        self,
        sessions: UserSessions,
        owner: SessionOwner,
        memories: Memories,
        lines: Sequence[ProfileLine],
    ) -> None:
        """Write a profile, without what rests on a session that went meanwhile: its user may have been forgotten."""
        lines = await self._still_there(sessions, owner, lines)
        self._have_profiles[owner] = None
        await _write(memories, lines)
        # Also while it was written.
        later = await self._still_there(sessions, owner, lines)
        if len(later) < len(lines):
            await _write(memories, later)

    async def _still_there(
        self, sessions: UserSessions, owner: SessionOwner, lines: Sequence[ProfileLine]
    ) -> tuple[ProfileLine, ...]:
        is_there = {session: await sessions.is_there(owner, session) for session in sessions_of(lines)}
        return lines_without(lines, is_there)

    # --- asking

    def _may_call(self, now: int, count: int) -> bool:
        self._calls = [at for at in self._calls if at > now - _DAY_MS]
        if len(self._calls) + min(count, self._max_calls) > self._max_calls:
            return False
        self._calls += [now] * count
        return True

    async def _ask(self, asking: SessionSupervisor, prompt: str, output: type[T]) -> T:
        """Ask the model, when no request of the host is worked on, or has been waited for long enough."""
        with trio.move_on_after(_LONGEST_WAIT_SECONDS):
            while self._open_requests:
                await self._is_quiet.wait()
        session = await asking.start_session(
            model=self._model,
            budget=self._budget,
            max_output_tokens=_MAX_OUTPUT_TOKENS,
            sandbox="memory",
        )
        try:
            answer: T = await session.ask(prompt, output=output, timeout_seconds=_ANSWER_SECONDS)
            return answer
        finally:
            with trio.move_on_after(_STOP_SECONDS, shield=True), suppress(SessionDown):
                await session.stop("answered")


async def _write(memories: Memories, lines: Sequence[ProfileLine]) -> None:
    """Put a profile in the place of the one before, in one piece; without a line there is none."""
    if lines:
        await memories.put(encode_profile(lines), tags=[PROFILE_TAG], entry_id=PROFILE_ID)
    else:
        await memories.delete(PROFILE_ID)


def _is_whole_from_2(value: Any) -> bool:
    return type(value) is int and value >= 2  # noqa: PLR2004 - one call reads, one merges


def _is_positive(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < float("inf")
