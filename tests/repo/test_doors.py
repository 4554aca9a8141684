"""What a seed should give is taken through the doors of `agentrail/outside.py`: what goes past them is found, by line and door."""

import itertools
import re

import pytest

pytest.importorskip("mypy", reason="mypy is not installed: make install")

from scripts.doors import ROOT, find_names, find_orders, main

pytestmark = pytest.mark.check  # mypy builds what it looks at, twice

# What has a number behind it is to be found in its line, at the door that stands there.
PLANTED = """
import datetime  #
import os  #
import secrets  # ids
import subprocess  #
import threading  # offload
import time  # wall
import trio  #
import uuid  #
import weakref  #
from random import random  # jitter
from collections import deque  #
from collections.abc import Iterable, Iterator, Set  #


def past_the_doors(fn: object) -> object:  #
    made = uuid.uuid4(), os.urandom(8), os.getpid()  # ids ids ids
    when = datetime.datetime.now(), time.time()  # wall
    trio.lowlevel.current_trio_token()  # offload
    subprocess.Popen(["ls"])  # processes
    os.killpg(1, 9)  # processes
    weakref.finalize(fn, print)  # collector
    weakref.ref(fn, print)  # weakref
    return made, when, trio.to_thread.run_sync(len, "a")  # offload


class Late:  #
    def __del__(self) -> None:  # __del__
        print("gone")  #


def takes(x: Iterable[str]) -> None: ...  #


def unordered(s: set[str], d: dict[str, int], t: frozenset[str] | None, a: Set[str]) -> Iterator[object]:  #
    for x in s:  # set
        print(x)  #
    y = [x for x in s]  # set
    z = list(s), tuple(s)  # set set
    v = ", ".join(s)  # set
    u = s.pop()  # set
    m = [*s], (*s, 1)  # set
    b, c = s  # set
    takes(s)  # set
    takes(x=s)  # set
    k = {x: 1 for x in s}  # set
    q = f"{s}"  # set
    r = dict.fromkeys(s)  # set
    y.extend(s)  # set
    y += s  # set
    for x in a:  # set
        print(x)  #
    for x in t or ():  # set
        print(x)  #
    e = deque(s), enumerate(s), map(str, s)  # set set set
    o = next(iter(s))  # set
    for x in s | {"a"}:  # set
        print(x)  #
    for x in d.keys() - s:  # set
        print(x)  #
    print(*s)  # set
    yield from s  # set
    yield [repr(s), str(s)]  # set
    yield sorted(d, key=id)  # id
    yield f"{id(s)}"  # id
    yield id(s) < id(d)  # id
    yield y, z, v, u, m, b, c, k, q, r, e, o  #


def ordered(s: set[str], d: dict[str, int], t: frozenset[str]) -> object:  #
    for x in sorted(s):  #
        print(x)  #
    n = len(s), sum(1 for x in s), any(x for x in s), all(map(bool, s)), min(s), max(s)  #
    for x in d.keys():  #
        print(x)  #
    for x, _ in d.items():  #
        print(x)  #
    w = {x.upper() for x in s}, frozenset(t), set(s)  #
    s.update(t)  #
    s |= t  #
    (only,) = s  #
    n2 = sorted(map(str, s)), sorted(x for x in s), set(s) == t, isinstance(s, set), "a" in s  #
    seen = {id(x) for x in d}  #
    seen.add(id(s))  #
    return n, n2, w, only, id(d) in seen, hash(t), s.union(t), s - t, s.isdisjoint(t)  #
"""


DOOR = re.compile(r"door `(\w+)`|on the (collector)\.$|^(\w+)")


@pytest.fixture(scope="module")
def planted(tmp_path_factory):
    """A folder with all that may not be, and all that looks like it and may."""
    folder = tmp_path_factory.mktemp("planted")
    (folder / "planted.py").write_text(PLANTED, encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def found(planted):
    """What both halves find in it: one look, because mypy reads its own library each time."""
    return find_names(planted), find_orders(planted)


@pytest.mark.simulation("V-003")
def test_what_goes_past_a_door_is_found(found):
    """Each in its line with its door, and nothing else."""
    doors: dict[int, list[str]] = {}
    for finding in itertools.chain(*found):
        groups = DOOR.search(finding.said).groups()
        doors.setdefault(finding.line, []).append(next(group for group in groups if group))
    wanted = {
        number: sorted(line.rpartition("#")[2].split())
        for number, line in enumerate(PLANTED.splitlines(), 1)
        if line.rpartition("#")[2].strip()
    }
    assert {line: sorted(names) for line, names in doors.items()} == wanted


@pytest.mark.simulation("V-003")
def test_make_lint_names_file_line_and_door(planted, found, capsys, monkeypatch):
    """As compilers do, so that an editor can go there; and the exit code is that of a failure."""
    names, orders = found
    monkeypatch.setattr("scripts.doors.find_names", lambda _: names)
    monkeypatch.setattr("scripts.doors.find_orders", lambda _: orders)
    assert main([str(planted)]) == 1
    said = capsys.readouterr().out.splitlines()
    file, number = planted / "planted.py", PLANTED.splitlines().index("    y = [x for x in s]  # set") + 1
    assert any(line.startswith(f"{file}:{number}: set: a comprehension goes through one; ") for line in said)
    assert any(": `uuid.uuid4` is banned: door `ids`: outside.ids(size_bytes)." in line for line in said)
    monkeypatch.setattr("scripts.doors.find_names", lambda _: [])
    monkeypatch.setattr("scripts.doors.check_types", lambda: ([], ["a.py:1: note: seen"]))
    assert main([]) == 0
    monkeypatch.setattr("scripts.doors.check_types", lambda: ([], ["a.py:1: error: no type"]))
    assert main([]) == 1
    assert "python -m scripts.doors" in (ROOT / "Makefile").read_text(encoding="utf-8")
