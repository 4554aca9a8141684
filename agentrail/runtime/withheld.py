"""The secrets that a tree of sessions knows: where they come from, and how texts are said without them.

They are the keys that its providers hold or were given, each `Secret` among its data and its options, headers that let a request in, and
what a sandbox was given for its commands. Only values of eight characters and more are looked for in what the session hears, says and
keeps. They stay in the process: nothing in here is stored or shown. How they are found does not enter: see `core.values.known_secrets`.
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final, TypeVar
from weakref import WeakValueDictionary

from agentrail.abc import Secret
from agentrail.abc.held_secrets import keys_in, secrets_held_by, secrets_in
from agentrail.core.values.known_secrets import KnownSecrets
from agentrail.core.values.toolbox import Toolbox
from agentrail.core.wire.withholding import withheld
from agentrail.logs import withhold_from_logs

V = TypeVar("V")

MAX_VALUES: Final = 200
"""How many are remembered; of keys that change with each request the oldest go first."""

_MADE: Final[WeakValueDictionary[tuple[str, ...], KnownSecrets]] = WeakValueDictionary()
"""What was made of the same values, for as long as a session has it: ten thousand sessions with one key look for the same forms.

Of the process, because the log is: what any session knows is taken out of all that is told to it.
"""


class Withheld:
    """What one tree of sessions knows and does not tell.

    Attributes:
        known: What is looked for; None where there is nothing, which is asked in front of each step.
    """

    __slots__ = ("_values", "known")

    def __init__(self) -> None:
        """Know nothing."""
        self.known: KnownSecrets | None = None
        self._values: tuple[str, ...] = ()

    def __repr__(self) -> str:
        """Say how many there are."""
        return f"Withheld({len(self._values)} values)"

    def learn(self, held: Mapping[str, Any]) -> None:
        """Look for each `Secret` that stands in data, at any depth."""
        if held:
            self._take([secret.reveal() for secret in secrets_in(held)])

    def learn_options(self, options: Mapping[str, Any]) -> None:
        """Look for what the options of a provider hold: its key, and what lets a request in."""
        if options:
            self._take([secret.reveal() for secret in keys_in(options)])

    def learn_from(self, adapter: object) -> None:
        """Look for what a provider or a sandbox says that it holds, in `secrets`; most say nothing."""
        held = secrets_held_by(adapter)
        if held:
            self._take(held)

    def replaced(self, text: str) -> str:
        """Give a text without what is known."""
        return text if self.known is None else self.known.replaced(text)

    def in_value(self, value: Any) -> Any:
        """Give a value without what is known; the very one where there is nothing to replace."""
        return value if self.known is None else withheld(value, self.known)

    def in_tools(self, tools: Toolbox) -> Toolbox:
        """Give what a model is told of the tools that a session begins with, without what is known."""
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
    """Give what finds these values: one for all who look for the same."""
    wanted = tuple(sorted(set(values)))
    known = _MADE.get(wanted)
    if known is None:
        known = _MADE[wanted] = KnownSecrets(sorted(wanted))
        withhold_from_logs(known)
    return known


@contextmanager
def knowing(values: Iterable[str]) -> Iterator[KnownSecrets]:
    """Let these values be known inside of a block, to the log and to `without_known`, whatever sessions know."""
    known = known_secrets(values)  # by a name: it lives as long as it is held
    yield known


def without_known(text: str) -> str:
    """Give a text that is to leave the process without what any session in it knows, or the program that leaves it."""
    for known in tuple(_MADE.values()):
        text = known.replaced(text)
    return text


def without_known_in(value: V) -> V:
    """Give a value that is to leave the process without what any session in it knows; as of `withheld`."""
    for known in tuple(_MADE.values()):
        value = withheld(value, known)
    return value


def handles_in(value: Any) -> Any:
    """Give data in which each `Secret` is what it shows of itself: what a state holds, which is written down; the very one without any."""
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
    """Say whether a `Secret` stood somewhere in stored data, which nothing but its handle is left of."""
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
"""What stands for a `Secret` in data that is written down."""
