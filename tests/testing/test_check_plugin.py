"""`check_plugin` lets good plugins through, and names the rule that a bad one breaks."""

import datetime
import re
import socket
import sqlite3
import subprocess
import sys
import threading
import time
from contextlib import nullcontext
from contextvars import ContextVar
from functools import cached_property
from queue import SimpleQueue
from typing import Any

import attrs
import msgspec
import pytest

from agentrail import plugins as p
from agentrail.core.protocol.hooks import HOOKS
from agentrail.errors import PluginError
from agentrail.frozen import FrozenDict
from agentrail.testing import stacks
from agentrail.testing.check_plugin import SAMPLES, check_plugin
from tests.testing import planted


@attrs.frozen
class Seen:
    kinds: tuple[str, ...] = ()


class Good(p.Plugin[Seen]):
    """Keeps every rule, and uses most of what there is."""

    def init(self, first=()):
        return Seen(tuple(first))

    def handle(self, event, state, ctx):
        state = Seen((*state.kinds[-3:], type(event).__name__))
        match event:
            case p.BeforeTool():
                return p.Request(p.ReadFile("rules"), "r", state, wait=True)
            case p.AfterTurn():
                return p.Request(p.Search(query="x"), "s", state)
            case p.BeforeFinish() if ctx.random.random() < 0.5:
                return p.Intervene("go on", state)
            case p.AfterToolBatch():
                return p.Emit("tossed", ctx.random.random(), state)
            case _:
                return p.Continue(state)


class Bad(p.Plugin[int]):
    """Breaks one rule, on one hook."""

    def __init__(self, way, name="bad"):
        super().__init__(name=name)
        self.way = way
        self.asked = 0

    def init(self):
        return 0

    @p.on(p.BeforeTool)
    def judge(self, event, state, ctx):
        self.asked += 1
        return self.way(self, event, state)


def rewritten(value, field, new):
    """Write to a frozen value, which Python cannot prevent."""
    msgspec.structs.force_setattr(value, field, new)
    return value


WAYS = {
    "its answer depends on how often it was asked": (
        lambda plugin, event, state: p.Continue(plugin.asked),
        "bad, on BeforeTool: the same event gets a different answer the second time",
    ),
    "it reads a clock": (
        lambda plugin, event, state: p.Continue(int(time.time()) * 0),
        "a plugin must be pure, but this one called time.time",
    ),
    "it reads a file": (
        lambda plugin, event, state: p.Continue(len(open(__file__).read()) * 0),  # noqa: SIM115, PTH123
        "a plugin must be pure, but this one called open at test_check_plugin.py:",
    ),
    "it raises": (lambda plugin, event, state: event.arguments["x"], "bad, on BeforeTool: KeyError: 'x'"),
    "it ends the process": (
        lambda plugin, event, state: sys.exit(),
        "a plugin must not end the process, and this one raised SystemExit: ",
    ),
    "it changes what it was given": (
        lambda plugin, event, state: event.arguments.update(x=1),
        "TypeError: FrozenDict is immutable",
    ),
    "it forces a new value on a field of its event": (
        lambda plugin, event, state: p.Continue(len(rewritten(event, "name", event.name + "!").name)),
        "bad, on BeforeTool: it changed its input",
    ),
    "it is a generator": (
        lambda plugin, event, state: (one for one in (p.Continue(state),)),
        "returned <generator object <lambda>.<locals>.<genexpr>>, expected an action",
    ),
    "it answers nothing": (lambda plugin, event, state: None, "returned None, expected an action"),
    "its hook ignores its answer": (
        lambda plugin, event, state: p.ReplaceResponse("no", state),
        "bad, on BeforeTool: it answered ReplaceResponse, which does nothing there",
    ),
    "its state cannot be stored": (
        lambda plugin, event, state: p.Continue(2**80),
        "state is a number of more than 64 bits",
    ),
    "its request leads to a failure": (
        lambda plugin, event, state: p.Request(p.ReadFile("x"), "t", state, wait=True),
        None,
    ),
}


def test_a_good_plugin_passes():
    """With every set of options, and with requests that nobody answers well; the samples have one of each hook."""
    assert {type(event) for event in SAMPLES} == set(HOOKS)
    check_plugin(Good, options=[{}, {"first": ["a"]}])
    check_plugin(Good())
    check_plugin(Bad(lambda plugin, event, state: p.Continue(state)))


class Asks(p.Plugin[int]):
    """Repeats a request for as long as it fails."""

    def init(self, *, wait=False):
        return int(wait)

    @p.on(p.BeforePrompt, p.RequestDone)
    def ask(self, event, state, ctx):
        return p.Request(p.ReadFile("RULES.md"), "rules", state, wait=bool(state))


def test_the_answer_to_a_request_must_be_pure_too():
    """A plugin is checked on `RequestDone` as on the hooks of `events`."""

    class Stamps(Asks):
        @p.on(p.RequestDone)
        def stamp(self, event, state, ctx):
            return p.Continue(time.time_ns())

    with pytest.raises(
        AssertionError, match=r"on RequestDone: a plugin must be pure, but this one called time\."
    ):
        check_plugin(Stamps)


@pytest.mark.parametrize("wait", [False, True])
def test_a_plugin_that_repeats_its_request_without_end_is_found(wait):
    """Whether its hook waits for the answer or not, the check ends."""
    with pytest.raises(AssertionError, match="after 200 failed requests it still makes another one"):
        check_plugin(Asks, options=[{"wait": wait}])


def test_a_handler_that_does_not_end_is_found(monkeypatch):
    """The message names the plugin, the hook and the line. The check of a stack shows the conversation, too."""
    monkeypatch.setattr("agentrail.testing.plugins.CHECKED_HOOK_SECONDS", 0.05)
    words = r"on BeforeTool: .*must return an action, and this one still computed after 0.05 seconds, at .*planted\.py:"
    with pytest.raises(AssertionError, match=f"Endless, {words}"):
        check_plugin(planted.Endless)
    found = stacks.check_stack(stacks.stack_machine([planted.Endless]), examples=1, seed=1).found
    assert found.rule == "plugins_do_not_fail"
    assert re.search(f"plugin 'Endless' failed {words}", found.why)
    assert [type(one).__name__ for one in found.signals] == ["Prompt", "ResponseCompleted"]


RECURSIONS = """
from agentrail import plugins as p
from agentrail.testing.check_plugin import check_plugin

def deeper(level):
    return deeper(level + 1)

def catches(event, state, ctx):
    try:
        return deeper(0)
    except RecursionError:
        return p.Continue(state)

check_plugin(p.plugin(init=int, hooks=(p.BeforeTool,))(catches))
try:
    check_plugin(p.plugin(name="bad", init=int, hooks=(p.BeforeTool,))(lambda *args: deeper(0)))
except AssertionError as error:
    print(error)
"""


@pytest.mark.check  # an interpreter of its own: the audit hook of these tests also recurses
def test_a_recursion_ends_as_in_a_session():
    """A handler may catch the `RecursionError`. One that does not is named, with its own line."""
    ran = subprocess.run([sys.executable, "-c", RECURSIONS], capture_output=True, text=True, check=False)
    words = r"bad, on BeforeTool: RecursionError: maximum recursion .* \(<string>:\d in deeper\)\n"
    assert re.fullmatch(words, ran.stdout), ran


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_a_broken_rule_is_named(way):
    """The message is the rule, with the plugin and the hook."""
    breaks, words = WAYS[way]
    with nullcontext() if words is None else pytest.raises(AssertionError) as caught:
        check_plugin(Bad(breaks))
    assert words is None or words in str(caught.value)


def test_a_state_that_equals_nothing_is_named():
    """NaN is not the same in a second answer, but that is not the mistake."""

    @p.plugin(init=float, hooks=(p.BeforeTool,))
    def share(event, state, ctx):
        return p.Continue(float("nan"))

    with pytest.raises(AssertionError, match="answered Continue with a state is nan, which JSON cannot rep"):
        check_plugin(share)
    found = stacks.check_stack(stacks.stack_machine([share]), examples=1, seed=1).found
    assert (found.rule, "state is nan" in found.why) == ("plugins_do_not_fail", True)


class Knotted(p.Plugin[int]):
    def __init__(self) -> None:
        self.words: list[Any] = ["knotted"]
        self.words.append(self.words)

    def init(self) -> int:
        return 0


def test_a_container_that_holds_itself_is_only_an_attribute():
    """Words for generated calls are looked for in attributes, and this search ends."""
    machine = stacks.stack_machine([Knotted])
    assert stacks.check_stack(machine, examples=1, seed=1).found is None
    assert "knotted" in stacks.vocabulary_of([Knotted()], None).words


def test_what_a_restart_loses_is_found():
    """A plugin is also called as a restart creates it: with its state, and without what `init` kept in attributes."""
    with pytest.raises(AssertionError, match="no attribute 'limit'"):
        check_plugin(planted.Limited)


@pytest.mark.parametrize(
    ("reads", "name"),
    [
        (lambda: time.localtime().tm_hour, "localtime"),
        (lambda: time.strftime("%H"), "strftime"),
        (lambda: time.gmtime(0).tm_hour + len(time.strftime("%H", time.gmtime(0))), None),
        (lambda: time.gmtime(*(0,)), None),
    ],
)
def test_a_clock_is_read_without_a_time_only(reads, name):
    """`gmtime()` is impure, and `gmtime(seconds)` is not."""
    with nullcontext() if name is None else pytest.raises(AssertionError, match=f"called time.{name} at "):
        check_plugin(Bad(lambda plugin, event, state: p.Continue(state + (reads() is None))))


NOON = datetime.datetime(2026, 1, 1, 12, tzinfo=datetime.UTC)


@pytest.mark.parametrize(
    ("reads", "name"),
    [
        (lambda: time.localtime(0), "time.localtime"),
        (lambda: datetime.datetime.fromtimestamp(0), "datetime.fromtimestamp"),  # noqa: DTZ006 - it is tested
        (lambda: datetime.date.fromtimestamp(0), "datetime.fromtimestamp"),  # noqa: DTZ012 - it is tested
        (lambda: NOON.replace(tzinfo=None).timestamp(), "datetime.timestamp"),
        (lambda: NOON.replace(tzinfo=None).astimezone(datetime.UTC), "datetime.astimezone"),
        (NOON.astimezone, "datetime.astimezone"),
        (lambda: datetime.datetime.fromtimestamp(0, datetime.UTC), None),
        (lambda: (NOON.timestamp(), NOON.astimezone(datetime.UTC)), None),
    ],
)
def test_the_time_zone_of_the_machine_is_found(reads, name):
    """A date of `ctx.now_ms` is another one on a node in another zone, unless the plugin names the zone."""
    words = f"called {name}, which depends on the time zone of the machine, at test_check_plugin.py:"
    with nullcontext() if name is None else pytest.raises(AssertionError, match=words):
        check_plugin(Bad(lambda plugin, event, state: p.Continue(state + (reads() is None))))


def test_a_message_over_an_open_socket_is_found():
    """The socket was opened elsewhere, such as that of a client for metrics."""
    one, other = socket.socketpair()
    with one, other, pytest.raises(AssertionError, match=r"called socket\.send at "):
        check_plugin(Bad(lambda plugin, event, state: p.Continue(state + one.send(b"x") * 0)))


def test_a_plugin_that_knows_its_state_by_identity_is_found():
    """After a restart the state is equal to the one that `init` returned, and another object."""
    with pytest.raises(AssertionError, match="different answer after a restart"):
        check_plugin(planted.Fresh)


@pytest.mark.parametrize(
    ("reads", "name"),
    [
        (lambda: hash("user-1"), "hash"),
        (lambda: id(Seen), "id"),
        (lambda: ({Seen(), FrozenDict()}, repr(Seen())), None),
    ],
)
def test_a_number_that_differs_in_each_process_is_found(reads, name):
    """`hash` puts a user into another group on another node, and so does `id`. A set and a repr need them inside."""
    with nullcontext() if name is None else pytest.raises(AssertionError, match=f"called {name} at "):
        check_plugin(Bad(lambda plugin, event, state: p.Continue(state + (reads() is None))))


TENANT = ContextVar("tenant", default="acme")
DATABASE = sqlite3.connect(":memory:", check_same_thread=False)


@pytest.mark.parametrize(
    ("reads", "name"),
    [(TENANT.get, "ContextVar.get"), (lambda: DATABASE.execute("select 1"), "sqlite3.execute")],
)
def test_values_of_the_caller_and_databases_are_found(reads, name):
    """A session that is resumed later, in another task, has another tenant. A database has other rows."""
    with pytest.raises(AssertionError, match=f"called {name} at "):
        check_plugin(Bad(lambda plugin, event, state: p.Continue(state + (reads() is None))))


LAST = ""
NAMES: list[str] = []
TREE: dict[str, list[list[str]]] = {"leaves": [[]]}
ENDLESS: list[Any] = []
ENDLESS.append(ENDLESS)


class Remembers(p.Plugin[int]):
    """Keeps the name of a call outside of its state, and publishes it after the call."""

    last = ""
    names = ()

    def init(self):
        return 0

    def keep(self, name):
        """Keep nothing."""

    def kept(self):
        """Return nothing."""

    @p.on(p.BeforeTool)
    def begin(self, event, state, ctx):
        self.keep(event.name)
        return p.Continue(state)

    @p.on(p.AfterTool)
    def end(self, event, state, ctx):
        return p.Emit("last", self.kept(), state)


class InGlobal(Remembers):
    def keep(self, name):
        global LAST  # noqa: PLW0603 - it is tested
        LAST = name

    def kept(self):
        return LAST


class InList(Remembers):
    def keep(self, name):
        NAMES.append(name)

    def kept(self):
        return len(NAMES)


class InClass(Remembers):
    def keep(self, name):
        type(self).last = name

    def kept(self):
        return type(self).last


class InAttribute(Remembers):
    def keep(self, name):
        self.last = name

    def kept(self):
        return self.last


class InNestedList(Remembers):
    def keep(self, name):
        TREE["leaves"][0].append(name)

    def kept(self):
        return len(TREE["leaves"][0])


class Box:
    """An object of the plugin's module."""

    held = ""


@attrs.define
class Slotted:
    held: str = ""
    box: Box = attrs.field(factory=Box)


BOXES = {"of all": [Slotted()]}


class InObject(Remembers):
    box: Any = Box()

    def keep(self, name):
        self.box.held = name

    def kept(self):
        return self.box.held


class InSlottedObject(InObject):
    box = BOXES["of all"][0]


class InObjectOfAnother(InObject):
    box = BOXES["of all"][0].box


@attrs.frozen
class Frozen:
    held: str = "made"

    @cached_property
    def upper(self):
        return self.held.upper()


class ComputesInFrozen(Remembers):
    """Computes a value of a frozen object once."""

    box = Frozen()

    def kept(self):
        return self.box.upper


class InSlot(Remembers):
    __slots__ = ("held",)

    def keep(self, name):
        self.held = name

    def kept(self):
        return getattr(self, "held", "")


def in_variable():
    """Make a plugin with a variable of this function."""
    last, is_begun = {}, False

    @p.plugin(init=int, hooks=(p.BeforeTool, p.AfterTool))
    def in_variable(event, state, ctx):
        nonlocal is_begun
        if isinstance(event, p.BeforeTool):
            last[event.call_id] = is_begun = event.name
            return p.Continue(state)
        return p.Emit("last", [last.get(event.call_id), bool(is_begun)], state)

    return in_variable


class Memo(Remembers):
    """Keeps a computed value, which a restart computes again."""

    words: dict[str, str] = {}  # noqa: RUF012 - it is tested

    def keep(self, name):
        self.words[name] = name.upper()

    def kept(self):
        return self.words.setdefault("shell", "SHELL")


HIDES = (
    InGlobal,
    InList,
    InNestedList,
    InClass,
    InAttribute,
    InAttribute(),
    InSlot(),
    InObject,
    InSlottedObject,
    InObjectOfAnother,
    in_variable(),
)


@pytest.mark.parametrize("plugin", HIDES, ids=lambda one: one.name)
def test_what_a_plugin_keeps_outside_of_its_state_is_found(plugin):
    """A restart loses it. The check itself leaves it as the plugin left it."""
    words = "on AfterTool: the same event gets a different answer after a restart, which loses attributes, globals"
    with pytest.raises(AssertionError, match=words):
        check_plugin(plugin)
    found = stacks.check_stack(stacks.stack_machine([plugin]), examples=5, seed=1).found
    assert found is not None


def test_a_value_that_is_computed_again_is_no_fault():
    """A plugin may keep what it can compute again, and the check does not take it away."""
    check_plugin(ComputesInFrozen)
    check_plugin(Memo)
    assert Memo.words["read_file"] == "READ_FILE"


def unending(*_, **__):
    while True:
        pass


def leaving(*_, **__):
    sys.exit(0)


@pytest.mark.parametrize(
    ("members", "words"),
    [
        (
            {"on_session_end": lambda plugin, state, ctx: ("end", time.time())},
            "a plugin must be pure, but this one called time.time at",
        ),
        ({"on_session_end": lambda plugin, state, ctx: 1 / 0}, "on on_session_end: ZeroDivisionError"),
        ({"on_session_end": lambda plugin, state, ctx: 5}, "returned 5, expected a name and a payload"),
        ({"on_session_end": leaving}, "must not end the process, and this one raised SystemExit: 0"),
        (
            {"on_config_update": lambda plugin, options, state: int(time.time())},
            "a plugin must be pure, but this one called time.time at",
        ),
        (
            {"describe": lambda plugin: 1 / 0},
            r"describe\(\) must return text or a mapping, got .*ZeroDivision",
        ),
        ({"describe": unending}, "must return from describe, and this one still computed after 0.05 seconds"),
        ({"init": unending}, "must return from init, and this one still computed after 0.05 seconds, at "),
        ({"init": leaving}, "must not end the process, and this one raised SystemExit: 0"),
    ],
)
def test_other_methods_are_checked_too(members, words, monkeypatch):
    """A session calls them as it calls handlers, and repeats two of them when it replays its journal."""
    monkeypatch.setattr("agentrail.testing.plugins.CHECKED_HOOK_SECONDS", 0.05)
    plugin = type("Wrong", (Remembers,), members)
    with pytest.raises((AssertionError, PluginError), match=words):
        check_plugin(plugin)


@pytest.mark.parametrize("code", ["init", "__init__"])
def test_a_stack_whose_start_does_not_end_is_refused(code, monkeypatch):
    """It is loaded while the module of the test is imported, where no other limit ends it."""
    monkeypatch.setattr("agentrail.testing.plugins.CHECKED_HOOK_SECONDS", 0.05)
    plugin = type("Unending", (Remembers,), {code: unending})
    words = r"this one still computed after 0\.05 seconds, at .*test_check_plugin\.py:"
    with pytest.raises(PluginError, match=words):
        stacks.stack_machine([plugin])


def test_what_another_thread_does_is_not_the_plugins_doing():
    """A program has threads of its own; only what the handler itself calls is reported."""
    asked, answers = SimpleQueue[str](), SimpleQueue[float]()
    worker = threading.Thread(target=lambda: [answers.put(time.time()) for _ in iter(asked.get, "stop")])
    worker.start()

    def look(plugin, event, state):
        asked.put("time")
        return p.Continue(state + (answers.get() > 0))

    try:
        check_plugin(Bad(look))
    finally:
        asked.put("stop")
        worker.join()
