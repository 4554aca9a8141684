"""A plugin stack under observation: inputs and answers of each plugin, and calls that a pure function must not make."""

import copy
import datetime
import gc
import inspect
import io
import os
import random
import socket
import sys
import sysconfig
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from contextvars import ContextVar
from opcode import opmap
from types import CellType, FrameType, ModuleType
from typing import Any, Final, TypeAlias

from attrs import frozen

from agentrail.core.protocol.actions import ACTIONS
from agentrail.core.protocol.hooks import HookEvent
from agentrail.core.protocol.plugin_record import PluginRecord
from agentrail.core.stack.loaded_stack import Member, PluginEntry, restored_member
from agentrail.core.stack.plugin import Context, Plugin
from agentrail.core.stack.plugin_state import decode_state, encode_state, loses, unstorable
from agentrail.core.values.foreign_calls import attempt
from agentrail.testing.plugins import call_to_end, call_unless_it_exits, puppet_of

# Calls that a pure function must not make, each with its line.
#
# The interpreter's profile hook sees every call into C, however the function was imported. It also sees names imported with
# `from time import time`, `datetime.now` and the methods of a random generator, which a patched module would miss.

_READS_A_CLOCK: Final = frozenset(
    {
        *("time", "time_ns", "monotonic", "monotonic_ns", "perf_counter", "perf_counter_ns"),
        *("process_time", "process_time_ns", "thread_time", "sleep"),
    }
)
_READS_A_CLOCK_WITH: Final = {"localtime": 0, "gmtime": 0, "ctime": 0, "asctime": 0, "strftime": 1}
"""Functions that read a clock if they are given no time, and so have this number of arguments."""
_READS_THE_ZONE: Final = frozenset({"localtime", "ctime", "mktime"})
_OF_ITS_ZONE: Final = ", which depends on the time zone of the machine,"
_TALKS: Final = frozenset({"open", "open_code", "print", "input", "breakpoint"})
_OF_THE_SYSTEM: Final = frozenset(
    {"posix", "nt", "_socket", "_ssl", "_posixsubprocess", "_thread", "_sqlite3", "sqlite3"}
)
_OF_THE_PROCESS: Final = (io.IOBase.__mro__[1], socket.socket, ContextVar)  # `io.IOBase` itself calls its ABC
_PLAIN_NAMES: Final = frozenset({"fspath", "strerror", "get_ident", "allocate_lock", "RLock"})
_LOOKS: Final = tuple(id(getattr(type(os.environ), name).__code__) for name in ("__getitem__", "__iter__"))
_STANDARD_LIBRARY: Final = sysconfig.get_path("stdlib")
_PACKAGE: Final = os.path.dirname(os.path.dirname(__file__))  # noqa: PTH120 - a text to compare with


@contextmanager
def side_effects(found: list[str]) -> Iterator[None]:
    """Record the calls of a block to clocks, randomness, files, processes, sockets and the environment. The calls still work."""

    def note(frame: FrameType, event: str, arg: Any) -> None:
        try:
            if event == "c_call":
                name = _impure(arg, frame)
            else:  # By identity: comparing two codes at the limit of recursion makes Python 3.11 raise SystemError.
                name = "os.environ" if event == "call" and id(frame.f_code) in _LOOKS else None
        except RecursionError:  # at its limit: the observed code gets its own, with its own line
            return
        if name is not None:
            place = _line_of(frame)
            if place is not None:
                found.append(f"{name} at {place}")

    before, collects = sys.getprofile(), gc.isenabled()
    gc.disable()  # a collection runs unrelated callbacks and finalizers at any point of the block
    sys.setprofile(note)
    try:
        yield
    finally:
        sys.setprofile(before)
        if collects:
            gc.enable()


def _impure(function: Any, caller: FrameType) -> str | None:
    """Return the name of a function with side effects. None for all others."""
    name = getattr(function, "__name__", "")
    module = getattr(function, "__module__", None)
    owner = getattr(function, "__self__", None)
    if module == "time":
        if name in _READS_A_CLOCK or _passes(caller, _READS_A_CLOCK_WITH.get(name, -1)):
            return f"time.{name}"
        return f"time.{name}{_OF_ITS_ZONE}" if name in _READS_THE_ZONE else None
    module = "sqlite3" if type(owner).__module__ == "sqlite3" else module
    if module in _OF_THE_SYSTEM:
        is_plain = name in _PLAIN_NAMES or name.startswith("_path_")
        return None if is_plain else f"{'os' if module == 'posix' else module}.{name}"
    if module in {"builtins", "io", "_io"} and name in _TALKS:
        return name
    if function is hash or function is id:  # another value in each process
        file = caller.f_code.co_filename
        is_own = not file.startswith(("<frozen", _STANDARD_LIBRARY))
        if function is id:  # a library takes it as the key of a temporary mapping
            is_own = is_own and "site-packages" not in file and not file.startswith(_PACKAGE)
        return name if is_own and caller.f_code.co_name not in {"__hash__", "__repr__"} else None
    if isinstance(owner, random.Random):
        return f"random.{name}"
    if name in {"now", "utcnow", "today"} and isinstance(owner, type) and issubclass(owner, datetime.date):
        return f"{owner.__name__}.{name}"
    if name in {"timestamp", "astimezone", "fromtimestamp"} and _reads_zone(owner, name, caller):
        return f"datetime.{name}{_OF_ITS_ZONE}"
    if isinstance(owner, _OF_THE_PROCESS) and not isinstance(owner, io.StringIO | io.BytesIO):
        return f"{type(owner).__name__}.{name}"
    return None


def _reads_zone(owner: object, name: str, caller: FrameType) -> bool:
    if isinstance(owner, datetime.datetime):
        is_naive = owner.tzinfo is None
        return (name == "timestamp" and is_naive) or (
            name == "astimezone" and (is_naive or _passes(caller, 0))
        )
    is_date = isinstance(owner, type) and issubclass(owner, datetime.date)
    return is_date and name == "fromtimestamp" and _passes(caller, 1)


def _passes(caller: FrameType, count: int) -> bool:
    """Return whether the running CALL instruction passes this many arguments. False if it unpacks them."""
    code, at = caller.f_code.co_code, caller.f_lasti
    return code[at] != opmap["CALL_FUNCTION_EX"] and code[at + 1] == count


def _line_of(frame: FrameType | None) -> str | None:
    """Return the innermost line outside the standard library. None inside an import, which happens once."""
    place: str | None = None
    while frame is not None:
        file = frame.f_code.co_filename
        if file.startswith("<frozen importlib"):
            return None
        is_library = file.startswith(("<frozen", _STANDARD_LIBRARY)) and "site-packages" not in file
        if place is None and not is_library:
            place = f"{os.path.basename(file)}:{frame.f_lineno}"  # noqa: PTH119 - a name, not a file
        frame = frame.f_back
    return place


# A restart loses what a handler left in attributes, in globals of its module, and in variables of enclosing functions.

LoadedValues: TypeAlias = list[tuple[object, dict[str, Any], list[Any], list[Any]]]
"""Owners of names, with the values of the names, the containers among these, and copies of the containers."""


def loaded_values(entries: Sequence[PluginEntry]) -> LoadedValues:
    """Return everything outside its state that a plugin can change, as it is now."""
    given = [entry[0] if isinstance(entry, tuple) else entry for entry in entries]
    waiting = [owner for one in given for owner in _owners(one)]
    homes = {owner.__name__ for owner in waiting if isinstance(owner, ModuleType)}
    owners: dict[int, object] = {}
    while waiting:  # objects of the plugin's own classes can be changed as it can
        owner = waiting.pop()
        if id(owner) not in owners:
            owners[id(owner)] = owner
            waiting += [one for one in _values_inside(_values_of(owner)) if type(one).__module__ in homes]
    return _values_now(owners.values())


_CONTAINERS: Final = (dict, list, set, deque, Counter, OrderedDict, defaultdict, bytearray)


def _owners(given: Any) -> Iterator[object]:
    """Yield a plugin, its classes, their modules, and the cells of its functions."""
    functions = [getattr(given, "__wrapped__", None)]
    if not isinstance(given, type) and hasattr(given, "__dict__"):
        yield given
    for cls in (given if isinstance(given, type) else type(given)).__mro__:
        if not cls.__module__.startswith(("agentrail.plugins.base", "abc", "builtins", "typing")):
            yield cls
            functions += vars(cls).values()
    for function in filter(inspect.isfunction, functions):
        yield from function.__closure__ or ()
        yield sys.modules.get(function.__module__, function)


def _values_of(owner: object) -> Mapping[str, Any]:
    if isinstance(owner, CellType):
        return {} if owner == CellType() else {"cell_contents": owner.cell_contents}
    if isinstance(owner, ModuleType | type):  # not copied: that takes longer than the comparison
        return vars(owner)
    values = dict(getattr(owner, "__dict__", {}))
    members = (member for cls in type(owner).__mro__ for member in vars(cls).values())
    for slot in filter(inspect.ismemberdescriptor, members):
        with suppress(AttributeError):  # an empty one; `getattr` would compute a cached property
            values[slot.__name__] = slot.__get__(owner)
    return values


def _values_now(owners: Iterable[object]) -> LoadedValues:
    found: LoadedValues = []
    for owner in owners:
        values = {**_values_of(owner)}
        containers = [one for one in _values_inside(values) if type(one) in _CONTAINERS]
        found.append((owner, values, containers, [*map(copy.copy, containers)]))
    return found


def _values_inside(values: Mapping[str, Any]) -> list[Any]:
    found: dict[int, Any] = {}
    waiting = [value for name, value in values.items() if not name.startswith("__")]
    while waiting:
        value = waiting.pop()
        if type(value) in _CONTAINERS and id(value) not in found:
            waiting += value.values() if isinstance(value, dict) else value
        found[id(value)] = value
    return [*found.values()]


def _put_back(loaded: LoadedValues) -> LoadedValues:
    """Undo the changes of values, and return the changed ones, to be put back as well."""
    changed = [one for one in loaded if _values_of(one[0]) != one[1] or one[2] != one[3]]
    found = _values_now(owner for owner, *_ in changed)
    for owner, values, containers, copies in changed:
        now = {**_values_of(owner)}
        is_plain = isinstance(owner, ModuleType | type | CellType)  # others may be frozen
        put, take = (setattr, delattr) if is_plain else (object.__setattr__, object.__delattr__)
        for name in now.keys() - values.keys():
            if not isinstance(now[name], ModuleType):  # a submodule, imported meanwhile
                take(owner, name)
        for name, value in values.items():
            if now.get(name, _CONTAINERS) is not value:
                put(owner, name, value)
        for container, items in zip(containers, copies, strict=True):
            container.clear()
            container.update(items) if hasattr(container, "update") else container.extend(items)
    return found


@frozen(kw_only=True)
class AskedPlugin:
    member: Member
    event: HookEvent
    state: Any
    ctx: Context
    answer: Any


class StackWatch:
    def __init__(
        self, entries: Sequence[PluginEntry], loaded: LoadedValues | None = None, call: Any = call_to_end
    ) -> None:
        given = [entry[0] if isinstance(entry, tuple) else entry for entry in entries]
        instances = {type(one) for one in given if not isinstance(one, type)}
        self._classes = {one for one in given if isinstance(one, type)} - instances
        self._loaded = loaded_values(entries) if loaded is None else loaded
        self._call = call
        self.askings: list[AskedPlugin] = []
        self.faults: list[str] = []

    def __call__(self, member: Member, event: HookEvent, state: Any, ctx: Context) -> object:
        """Call a plugin's handler, once for the session, and again to compare."""
        what = f"{member.name}, on {type(event).__name__}"
        with self._pure(what):
            answer: Any = call_unless_it_exits(member, event, state, ctx)
        for again, time in self._repeated(member, event, state, ctx):
            # Of other answers the session names the fault. Some of them, such as generators, equal only themselves.
            if again != answer and type(answer) in ACTIONS and unstorable(answer.state) is None:
                self.faults.append(
                    f"{what}: the same event gets a different answer {time}: {answer!r}, then {again!r}"
                )
                break
        self.askings.append(AskedPlugin(member=member, event=event, state=state, ctx=ctx, answer=answer))
        return answer

    def call(self, function: Callable[..., Any], *args: Any) -> object:
        """Call other code of a plugin. Its methods must be pure, but not `init`, which a restart does not call."""
        name = getattr(function, "__name__", "init")  # `init` is called through a partial
        plugin: Any = getattr(function, "__self__", None)
        # The default of `on_config_update` may call `init`.
        is_own = isinstance(plugin, Plugin) and function.__module__ != "agentrail.plugins.base"
        with self._pure(f"{plugin.name}, in {name}") if is_own else nullcontext():
            code = getattr(function, "__func__", function)
            return self._call(code, f"return from {name}", function, *args)

    @contextmanager
    def _pure(self, what: str) -> Iterator[None]:
        touched: list[str] = []
        try:
            with side_effects(touched):
                yield
        finally:
            self.faults += (f"{what}: a plugin must be pure, but this one called {call}" for call in touched)

    def _repeated(
        self, member: Member, event: HookEvent, state: Any, ctx: Context
    ) -> Iterator[tuple[Any, str]]:
        yield ask_again(member, event, state, ctx), "the second time"
        changed = _put_back(self._loaded)
        try:
            is_class = type(member.plugin) in self._classes
            fresh = restored_member(type(member.plugin), member.options) if is_class else member
            answer = ask_again(fresh, event, restored_state(member, state), ctx)
        finally:
            _put_back(changed)
        yield answer, "after a restart, which loses attributes, globals and identities"

    def find(self, change: str, record: PluginRecord) -> object:
        """Return a plugin that is attached to a running session: a puppet if its record names one, otherwise None."""
        del change
        return puppet_of(record)

    def take(self) -> tuple[tuple[AskedPlugin, ...], tuple[str, ...]]:
        seen = (tuple(self.askings), tuple(self.faults))
        self.askings.clear()
        self.faults.clear()
        return seen


def restored_state(member: Member, state: Any) -> Any:
    """Return a state as a restart reads it. A state that the codec does not restore is reported elsewhere, and returned itself."""
    if loses(state, member.state_type) is not None:
        return state
    return decode_state(encode_state(state), member.state_type)


def ask_again(member: Member, event: HookEvent, state: Any, ctx: Context) -> Any:
    ctx.random.begin(member.salt)
    return attempt(call_unless_it_exits, member, event, state, ctx)
