"""`Consolidation`: a host plugin that builds user profiles from their sessions while the host is idle."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Final, Protocol, TypeVar

import trio
from attrs import define, field

from agentrail.abc import Memories, Provider
from agentrail.app import open_supervisor
from agentrail.core.policy.budget import Budget
from agentrail.errors import AgentrailError, OptionError, SessionDown
from agentrail.host.hook_payloads import RequestContext
from agentrail.host.host_plugin import HostPlugin
from agentrail.host.identity import SessionOwner
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
from agentrail.otp.child_specs import is_amount, is_whole
from agentrail.runtime.supervisor import SessionSupervisor

LOGGER: Final = Logger("agentrail.host")

PROFILE_ID: Final = "profile"
"""Id of the memory entry that holds its owner's profile."""

PROFILE_TAG: Final = "profile"

LOOK_FOR_IDLE_SECONDS: Final = 60.0
"""Interval between checks for outdated profiles and deleted sources, in seconds."""

_DAY_MS: Final = 86_400_000
_AGAIN_MS: Final = 3_600_000
"""Pause after a user's profile failed, in ms."""

_MAX_OUTPUT_TOKENS: Final = 4_096
_ANSWER_SECONDS: Final = 120.0
_STOP_SECONDS: Final = 5.0
_LONGEST_WAIT_SECONDS: Final = 600.0
"""Maximum wait for open requests, in seconds. A request with a pending approval may take days."""

_USUAL_BUDGET: Final = Budget(max_total_tokens=60_000)

T = TypeVar("T")


class UserSessions(Protocol):
    """Port for reading sessions and writing profiles. `open_host` provides it."""

    def now_ms(self) -> int:
        """Return the time of the clock used for session changes, in milliseconds since 1970."""
        ...

    async def changes(self) -> Mapping[SessionOwner, Sequence[SessionChange]]:
        """Return all stored root sessions, by user.

        Raises:
            StoreUnavailable: They cannot be read now.
        """
        ...

    async def conversation(self, owner: SessionOwner, session: str) -> Sequence[Message] | None:
        """Return the conversation of a session without waking it. None if it no longer exists.

        Raises:
            AgentrailError: It cannot be read.
        """
        ...

    async def is_there(self, owner: SessionOwner, session: str) -> bool:
        """Return whether a user has a session that was neither deleted nor erased.

        Raises:
            StoreUnavailable: That is unknown now.
        """
        ...

    def memories(self, owner: SessionOwner) -> Memories | None:
        """Return the memories of a user. None if the host has no memories."""
        ...


@define(eq=False)
class _User:
    """A user as last looked at. In memory only: after a restart, changes since a profile are merely read again."""

    read: dict[str, int] = field(factory=dict)
    made_at_ms: int = 0
    rests_until_ms: int = 0
    has_profile: bool = False


class Consolidation(HostPlugin):
    """Builds a profile of each user: preferences, role, focus and things to avoid. Each line cites its messages."""

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
        """Configure the model and its limits.

        Args:
            model: Reads the conversations. A name as in `start_session`, or a provider.
            budget: Limit per call. A call that could exceed it is not made, and the user's profile waits.
            max_calls_per_day: Maximum calls in 24 hours for all users together. At least 2.
            look_every: Interval between two checks, in seconds. Above 0.

        Raises:
            OptionError: Your move: lists all faults at once.
        """
        is_enough = is_whole(max_calls_per_day, at_least=2)  # one call reads, one merges
        faults = [
            f"{name} is {value!r:.80}: expected {expected}"
            for name, value, is_one, expected in (
                ("budget", budget, isinstance(budget, Budget), "Budget(max_total_tokens=…)"),
                ("max_calls_per_day", max_calls_per_day, is_enough, "2 or more"),
                ("look_every", look_every, is_amount(look_every, above_zero=True), "finite seconds above 0"),
            )
            if not is_one
        ]
        OptionError.raise_for(faults)
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
        self._users: dict[SessionOwner, _User] = {}

    def connect(self, sessions: UserSessions) -> None:
        """Set the port. For `open_host`."""
        self._sessions = sessions
        self._is_connected.set()

    # --- requests go first

    async def on_request_start(self, ctx: RequestContext) -> None:
        """Count an open request. No model call is started meanwhile."""
        self._open_requests += 1
        self._is_quiet = trio.Event()

    async def on_request_end(self, ctx: RequestContext) -> None:
        """Count its end."""
        self._open_requests = max(0, self._open_requests - 1)
        if not self._open_requests:
            self._is_quiet.set()

    # --- checks

    async def background(self) -> None:
        """Check all users repeatedly.

        Cancellation: Immediate. A profile in progress is not written.
        """
        await self._is_connected.wait()
        # Without a store, so that users' words are not stored a second time.
        async with open_supervisor() as asking:
            while True:
                await self.look(asking)
                await trio.sleep(self._every)

    async def look(self, asking: SessionSupervisor) -> None:
        """Check all users once. A failed profile does not affect other users, and is retried after an hour.

        Args:
            asking: Supervisor for model sessions. Keeps no sessions.

        Cancellation: See `background`.
        """
        assert self._sessions is not None  # noqa: S101 - it is connected
        for owner, changes in (await self._changes(self._sessions)).items():
            user, now = self._users[owner], self._sessions.now_ms()
            try:
                await self._look_at(asking, self._sessions, owner, changes)
            except AgentrailError as error:
                if user.rests_until_ms <= now:
                    told = "the profile of a user of tenant %r was not created: %s"
                    LOGGER.warning(told, owner.tenant_id, error)
                    user.rests_until_ms = self._sessions.now_ms() + _AGAIN_MS

    async def stop(self) -> None:
        """Delete the profiles of users without sessions. The next process would not know of these users."""
        if self._sessions is not None:
            for owner, changes in (await self._changes(self._sessions)).items():
                memories = None if changes else self._sessions.memories(owner)
                if memories is not None:
                    await _write(memories, ())

    async def _changes(self, sessions: UserSessions) -> Mapping[SessionOwner, Sequence[SessionChange]]:
        """Return the sessions of each user, also of users who have a profile but no session left to support it."""
        try:
            there = await sessions.changes()
        except AgentrailError as error:
            LOGGER.warning("user profiles cannot be read now: %s", error)
            return {}
        known = {owner: () for owner, user in self._users.items() if user.has_profile} | dict(there)
        self._users = {owner: self._users.get(owner) or _User() for owner in known}
        return known

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
        user = self._users[owner]
        entry = await memories.get(PROFILE_ID)
        before = () if entry is None else decode_profile(entry.text)
        # Lines of a deleted source are removed at once, whether or not an update is due.
        lines = lines_without(before, {change.session: True for change in changes})
        if len(lines) < len(before):
            lines = await self._written(sessions, owner, memories, lines)
        user.has_profile = bool(lines)
        if user.rests_until_ms > sessions.now_ms():
            return
        made_at_ms = max(0 if entry is None else entry.at_ms, user.made_at_ms)
        read = {one.session: user.read[one.session] for one in changes if one.session in user.read}
        user.read, now = read, sessions.now_ms()
        found: list[ProfileLine] = []
        conversations: dict[str, Sequence[Message]] = {}
        for change in decide_changed(changes, made_at_ms, now, read):
            messages = await sessions.conversation(owner, change.session) or ()
            if len(messages) >= LEAST_MESSAGES:
                conversations[change.session] = messages
            else:
                read[change.session] = change.changed_at_ms
        # Excludes conversations that are too short.
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
            user.has_profile = True
            await self._written(sessions, owner, memories, lines_merged(merged, together))
        user.made_at_ms = now
        read.update({change.session: change.changed_at_ms for change in due})

    async def _written(
        self, sessions: UserSessions, owner: SessionOwner, memories: Memories, lines: Sequence[ProfileLine]
    ) -> tuple[ProfileLine, ...]:
        """Write the lines whose sessions exist, also of sessions that are deleted during the write."""
        there = await self._still_there(sessions, owner, lines)
        await _write(memories, there)
        later = await self._still_there(sessions, owner, there)
        if len(later) < len(there):
            await _write(memories, later)
        return later

    async def _still_there(
        self, sessions: UserSessions, owner: SessionOwner, lines: Sequence[ProfileLine]
    ) -> tuple[ProfileLine, ...]:
        is_there = {session: await sessions.is_there(owner, session) for session in sessions_of(lines)}
        return lines_without(lines, is_there)

    # --- model calls

    def _may_call(self, now: int, count: int) -> bool:
        self._calls = [at for at in self._calls if at > now - _DAY_MS]
        if len(self._calls) + min(count, self._max_calls) > self._max_calls:
            return False
        self._calls += [now] * count
        return True

    async def _ask(self, asking: SessionSupervisor, prompt: str, output: type[T]) -> T:
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
    """Replace the previous profile in one piece. Without lines, delete it."""
    if lines:
        await memories.put(encode_profile(lines), tags=[PROFILE_TAG], entry_id=PROFILE_ID)
    else:
        await memories.delete(PROFILE_ID)
