"""Embeddings for search: the vector of a query within a time limit, and vectors of new texts, computed in the background."""

from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Final, NoReturn, Protocol, TypeVar

import trio

from agentrail.abc.embeddings import MAX_EMBEDDED, VectorKeeper
from agentrail.errors import AgentrailError
from agentrail.logs import Logger
from agentrail.otp.crash_text import describe_bug, traceback_of
from agentrail.otp.exits import keep
from agentrail.otp.guarded_calls import call_guarded

LOGGER: Final = Logger("agentrail.runtime")

QUERY_SECONDS: Final = 2.0
"""Seconds that a search waits for the vector of its query. After that it uses words only."""

REST_SECONDS: Final = 30.0
"""Seconds without calls after an embedder failed: otherwise each search would wait for it."""

LOOK_FOR_MEANINGS_SECONDS: Final = 60.0
"""Seconds between checks, during a search, for texts without a vector: another process may have written them."""

CONTESTED_SECONDS: Final = 3_600.0
"""Seconds without new vectors after another process has replaced ours by those of another embedder."""

_BATCH_SECONDS: Final = 60.0
_MAX_QUERY: Final = 4_000
"""Maximum number of characters of a query, same as for its words."""

_MAX_TEXT: Final = 24_000
"""Maximum number of characters of a text for a vector: embedding models accept about 8,000 tokens."""

_PLAIN_TEXT: Final = "text"
"""If an embedder refuses even this one, its settings are wrong, and not a text."""

T = TypeVar("T")


class Carry(Protocol):
    def __call__(self, function: Callable[[], T], /) -> Awaitable[T]: ...


StartTask = Callable[..., None]
"""Starts an async function with its arguments in the background, like a nursery."""


class NoMeaning(Exception):
    pass


class TextRefused(NoMeaning):
    """The embedder answers, and accepts no call with one of these texts."""


class VectorSource(Protocol):
    @property
    def name(self) -> str: ...

    @property
    def kind(self) -> str: ...

    async def vectors_of(self, texts: Sequence[str]) -> list[bytes]: ...


class Meanings:
    def __init__(self, source: VectorSource, start: StartTask) -> None:
        self.kind: str = source.kind
        self._source = source
        self._start = start
        self._rests_until = 0.0
        self._why = ""
        # By store and tenant: whether a task is running, and whether it must check again.
        self._at_work: dict[tuple[int, str], bool] = {}
        self._looked_at: dict[tuple[int, str], float] = {}
        self._contested_until: dict[tuple[int, str], float] = {}

    async def vector_of(self, query: str) -> bytes:
        if trio.current_time() < self._rests_until:
            await trio.lowlevel.checkpoint()
            raise NoMeaning(self._why)
        with trio.move_on_after(QUERY_SECONDS):
            (vector,) = await self._vectors_of([query[:_MAX_QUERY]])
            return vector
        message = f"the embedder {self._source.name} did not answer within {QUERY_SECONDS:g} s"
        self._rest(message)
        raise NoMeaning(message)

    async def vector_or_words(self, query: str, tell: Callable[[str], None] | None) -> bytes | None:
        try:
            return await self.vector_of(query)
        except NoMeaning as error:
            if tell is not None:
                tell(str(error))
            return None

    def look_after(self, keeper: VectorKeeper, tenant: str, carry: Carry, *, is_new: bool) -> None:
        key, now = (id(keeper), tenant), trio.current_time()
        if key in self._at_work:
            self._at_work[key] = self._at_work[key] or is_new
        elif now >= self._contested_until.get(key, 0.0) and (is_new or now >= self._looked_at.get(key, 0.0)):
            self._looked_at[key] = now + LOOK_FOR_MEANINGS_SECONDS
            self._at_work[key] = False
            self._start(self._fill, keeper, tenant, carry)

    async def fill(self, keeper: VectorKeeper, tenant: str, carry: Carry) -> int:
        count, filled = 0, Counter[int]()
        while made := await self._fill_some(keeper, tenant, carry, filled):
            count += sum(map(any, made))  # without those of refused texts
        return count

    async def _fill(self, keeper: VectorKeeper, tenant: str, carry: Carry) -> None:
        key, filled = (id(keeper), tenant), Counter[int]()

        def guarded(function: Callable[[], T]) -> Awaitable[T]:
            return carry(partial(call_guarded, _refuse_bug, function))

        try:
            while await self._fill_some(keeper, tenant, guarded, filled) or self._at_work[key]:
                self._at_work[key] = False
        except (AgentrailError, NoMeaning) as error:
            # The next run continues here.
            LOGGER.warning("vectors were not created: %s", error)
        finally:
            del self._at_work[key]

    async def _fill_some(
        self, keeper: VectorKeeper, tenant: str, carry: Carry, filled: Counter[int]
    ) -> list[bytes]:
        rows = await carry(lambda: keeper.without_vectors(tenant, self.kind, limit=MAX_EMBEDDED))
        filled.update(number for number, _ in rows)
        if any(filled[number] > 2 for number, _ in rows):  # noqa: PLR2004 - it got its vector twice
            self._contested_until[id(keeper), tenant] = trio.current_time() + CONTESTED_SECONDS
            message = f"another process replaces the vectors of {self._source.name} by those of another embedder: use the same one in all of them"
            raise NoMeaning(message)
        if not rows:
            return []
        vectors = await self._vectors_or_zeros([text[:_MAX_TEXT] for _, text in rows])
        pairs = [(number, vector) for (number, _), vector in zip(rows, vectors, strict=True)]
        await carry(lambda: keeper.put_vectors(tenant, self.kind, pairs))
        return vectors

    async def _vectors_or_zeros(self, texts: Sequence[str], zeros: bytes = b"") -> list[bytes]:
        """Return a vector for each text. A refused text gets zeros, which are similar to nothing."""
        try:
            return await self._vectors_of(texts)
        except TextRefused as error:
            zeros = zeros or bytes(len((await self._vectors_of([_PLAIN_TEXT]))[0]))
            if len(texts) == 1:
                LOGGER.warning("a text of %d characters cannot be found by meaning: %s", len(texts[0]), error)
                return [zeros]
        halves = texts[: len(texts) // 2], texts[len(texts) // 2 :]
        return [one for half in halves for one in await self._vectors_or_zeros(half, zeros)]

    async def _vectors_of(self, texts: Sequence[str]) -> list[bytes]:
        with trio.move_on_after(_BATCH_SECONDS):
            try:
                return await self._source.vectors_of(texts)
            except NoMeaning as error:
                if not isinstance(error, TextRefused):
                    self._rest(str(error))
                raise
        message = f"the embedder {self._source.name} did not answer within {_BATCH_SECONDS:g} s"
        raise NoMeaning(message)

    def _rest(self, why: str) -> None:
        self._why = why
        self._rests_until = trio.current_time() + REST_SECONDS


def _refuse_bug(error: BaseException) -> NoReturn:
    """Raise a bug of a store as `NoMeaning`: in the background it must not end the sessions."""
    if isinstance(error, AgentrailError):
        raise error
    LOGGER.error("the store of the texts crashed", exception=traceback_of(error, keep))
    message = f"their store crashed ({describe_bug(error)}): this is a bug in it, please report it"
    raise NoMeaning(message) from None
