"""Typed decoders: the tables of msgspec are built under one lock, and never while two threads decode."""

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, Final

import msgspec

from agentrail.core.journal import exports, file_changes, jsonl, record as bodies
from agentrail.core.stack.plugin_state import decode_state
from agentrail.core.wire import codec, hook_codec
from agentrail.core.wire.codec import SIGNAL_KINDS, decode_event, decode_signal
from agentrail.events import KINDS
from agentrail.gateway.app import ALL_ROUTES
from agentrail.messages import Message
from agentrail.remote import command_results, frame_codec
from agentrail.structs import converter_of, decoder_of
from agentrail.tools.function import read_signature
from agentrail.typed import typed
from agentrail.wire import form_fields
from tests.forked import in_a_process
from tests.thinned import IS_NIGHTLY

GOLDEN: Final = Path(__file__).parent / "core" / "golden"
EVENTS: Final = [path.read_bytes() for path in sorted((GOLDEN / "events").glob("*.json"))]
SIGNALS: Final = [path.read_bytes() for path in sorted((GOLDEN / "signals").glob("*.json"))]
MODULES: Final = (
    *(bodies, codec, exports, file_changes, hook_codec, jsonl),
    *(form_fields, frame_codec, command_results),
)


# --- that no table is left


def types_of_agentrail() -> Iterator[Any]:
    """The types of events, signals, records, the wire and configuration, as their modules decode them."""
    yield from (*KINDS, *SIGNAL_KINDS, Message)
    for module in MODULES:
        for value in vars(module).values():
            for one in value.values() if isinstance(value, dict) else (value,):
                if isinstance(one, msgspec.json.Decoder):
                    yield one.type
                elif isinstance(one, partial) and one.func is msgspec.convert:
                    yield one.keywords["type"]


def built_by(build: Callable[[], object]) -> list[str]:
    """The classes whose tables are built meanwhile: msgspec asks Python for the annotations of each."""
    built: list[str] = []

    def look(frame: Any, event: str, _: Any) -> None:
        if event == "call" and frame.f_code.co_name == "get_class_annotations":
            built.append(str(frame.f_locals["obj"]))

    sys.setprofile(look)
    try:
        build()
    finally:
        sys.setprofile(None)
    return built


@in_a_process
def test_no_lazy_conversion_is_left():
    """After the imports each type of agentrail has its table, before anything is decoded."""
    every = list(types_of_agentrail())
    assert len(every) > 150
    assert {
        str(kind): built
        for kind in every
        if (built := built_by(lambda kind=kind: msgspec.msgpack.Decoder(kind)))
    } == {}


class Leaf(msgspec.Struct):
    """A type that nothing has decoded."""

    size: int = 0


def test_a_lazy_conversion_is_seen():
    """The test above can fail."""
    assert built_by(lambda: msgspec.msgpack.Decoder(Leaf)) == [str(Leaf)]
    assert built_by(lambda: msgspec.msgpack.Decoder(Leaf)) == []


# --- in threads


class Tree(msgspec.Struct, frozen=True):
    """A recursive type of an application."""

    left: "Tree | None" = None
    right: "Tree | None" = None
    others: "tuple[Forest, ...]" = ()


class Forest(msgspec.Struct, frozen=True):
    """Another one, which holds the first."""

    tree: "Tree | None" = None


TREE: Final[Any] = {"left": {"right": {}, "others": [{"tree": {}}]}, "others": [{"tree": {"left": {}}}]}


def plant(tree: Tree) -> None:
    """Plant a tree."""


def decode_all() -> None:
    """Everything that several threads may decode at a time."""
    for text in EVENTS:
        decode_event(text)
    for text in SIGNALS:
        decode_signal(text)
    decode_state(msgspec.json.encode(TREE), Tree)
    read_signature(plant).convert({"tree": TREE}, ctx=None)  # type: ignore[arg-type]  # this function takes none
    typed(Forest).decode({"tree": TREE})
    for route in ALL_ROUTES:
        if route.body is not None:
            converter_of(route.body)
    decoder_of(dict[str, Forest]).decode(b"{}")


def fork(work: Callable[[], None]) -> int:
    """Run something in a process of its own, which has decoded nothing, and give its status."""
    pid = os.fork()
    if not pid:
        try:
            work()
        except BaseException as error:  # noqa: BLE001 - the parent reads the status
            os.write(2, repr(error).encode()[:500])
            os._exit(1)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def in_threads(work: Callable[[], None]) -> None:
    """Run it in four threads, which begin together."""
    barrier = threading.Barrier(4)
    errors: list[BaseException] = []

    def run() -> None:
        barrier.wait()
        try:
            work()
        except BaseException as error:  # noqa: BLE001 - raised below
            errors.append(error)

    threads = [threading.Thread(target=run) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


def statuses(rounds: int) -> Iterable[int]:
    """How processes end in which four threads decode for the first time, with a switch of threads at each chance."""
    sys.setswitchinterval(1e-6)
    return [fork(lambda: in_threads(decode_all)) for _ in range(rounds)]


@in_a_process
def test_threads_may_decode_first():
    """No process dies of a signal: msgspec publishes the table of a class before its fields are filled in."""
    rounds = 200 if IS_NIGHTLY else 20  # of 240 processes 71 died
    assert [signal.Signals(-code).name if code < 0 else code for code in statuses(rounds) if code] == []
