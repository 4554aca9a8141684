"""Secrets of a tree of sessions: their sources, and their removal from texts.

Only values of eight characters and more are searched for. The secrets stay in the process: nothing here stores or shows them.
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final, TypeVar
from weakref import WeakValueDictionary

from attrs import define, field

from agentrail.abc import Secret
from agentrail.abc.held_secrets import keys_in, secrets_held_by, secrets_in
from agentrail.core.values.secret_scrubber import KnownSecrets
from agentrail.core.values.toolbox import Toolbox
from agentrail.core.wire.redaction import withheld
from agentrail.logs import withhold_from_logs

V = TypeVar("V")

MAX_VALUES: Final = 200
"""Number of values remembered. Of keys that change with each request the oldest are dropped first."""

_MADE: Final[WeakValueDictionary[tuple[str, ...], KnownSecrets]] = WeakValueDictionary()
"""Cache of search forms by value, while a session uses them: ten thousand sessions with one key share one entry.

One per process, as the log is: the secrets of every session are removed from everything that is logged.
"""


@define(eq=False)
class Withheld:
    """Secrets of one tree of sessions.

    Attributes:
        known: The search forms. None without secrets, which is checked before each step.
    """

    known: KnownSecrets | None = field(init=False, default=None)
    _values: tuple[str, ...] = field(init=False, default=())

    def __repr__(self) -> str:
        return f"Withheld({len(self._values)} values)"

    def learn(self, held: Mapping[str, Any]) -> None:
        if held:
            self._take([secret.reveal() for secret in secrets_in(held)])

    def learn_options(self, options: Mapping[str, Any]) -> None:
        if options:
            self._take([secret.reveal() for secret in keys_in(options)])

    def learn_from(self, adapter: object) -> None:
        held = secrets_held_by(adapter)
        if held:
            self._take(held)

    def replaced(self, text: str) -> str:
        return text if self.known is None else self.known.replaced(text)

    def in_value(self, value: Any) -> Any:
        """Return a value without known secrets. The same object if there is nothing to replace."""
        return value if self.known is None else withheld(value, self.known)

    def in_tools(self, tools: Toolbox) -> Toolbox:
        if self.known is None:
            return tools
        specs = [self.in_value(spec) for spec in tools]
        return tools if all(one is other for one, other in zip(specs, tools, strict=True)) else Toolbox(specs)

    def _take(self, found: Iterable[str]) -> None:
        fresh = [value for value in dict.fromkeys(found) if value not in self._values]
        if not fresh:
            return
        self._values = (*self._values, *fresh)[-MAX_VALUES:]
        known = known_secrets(self._values)
        self.known = known or None


def known_secrets(values: Iterable[str]) -> KnownSecrets:
    """Return the search forms of these values, shared by all users of the same values."""
    wanted = tuple(sorted(set(values)))
    known = _MADE.get(wanted)
    if known is None:
        known = _MADE[wanted] = KnownSecrets(sorted(wanted))
        withhold_from_logs(known)
    return known


@contextmanager
def knowing(values: Iterable[str]) -> Iterator[KnownSecrets]:
    """Treat these values as secrets during a block, in the log and in `without_known`, whatever sessions know."""
    known = known_secrets(values)  # named, so that it lives during the block
    yield known


def without_known(text: str) -> str:
    """Return a text that leaves the process without the secrets of any session in it, or of the current program."""
    for known in tuple(_MADE.values()):
        text = known.replaced(text)
    return text


def without_known_in(value: V) -> V:
    for known in tuple(_MADE.values()):
        value = withheld(value, known)
    return value


def handles_in(value: Any) -> Any:
    """Return data in which each `Secret` is replaced by its handle, for a state that is stored. The same object without any."""
    match value:
        case Secret():
            return repr(value)
        case Mapping():
            made = {name: handles_in(item) for name, item in value.items()}
            return value if all(made[name] is item for name, item in value.items()) else made
        case list() | tuple():
            items = [handles_in(item) for item in value]
            return value if all(one is other for one, other in zip(items, value, strict=True)) else items
        case _:
            return value


def has_handle(value: object) -> bool:
    match value:
        case str():
            return value == HANDLE
        case Mapping():
            return any(map(has_handle, value.values()))
        case list() | tuple():
            return any(map(has_handle, value))
        case _:
            return False


HANDLE: Final = repr(Secret(""))
"""Replacement of a `Secret` in stored data."""
