"""There is one way to bring a session back: a second one would be run by no test that kills a process (docs: durability)."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import agentrail

PACKAGE = Path(agentrail.__file__).parent

# Who folds, and what for. Only `resuming` makes a live session of what that comes to; the others look, or begin a new journal.
FOLDS = {
    "testing/simulation/shadow.py",  # compares a fold with what a simulated session did
    "core/journal/replay.py",  # compares a fold with what was lived
    "runtime/session_loader.py",  # reads and folds: what all below are given
    "runtime/journal_state.py",  # what a session was at a number
    "runtime/journal_events.py",  # what it published long ago
    "runtime/event_history.py",  # the same, in pages, of sessions that sleep too
    "runtime/spending_book.py",  # what it has used: lost usage stands in no signal
    "testing/folded.py",  # compares a fold with a session of a test
    "evals/journals.py",  # compares a fold with what another stack would have decided
    "cli/journals_command.py",  # prints what it finds
}
BRINGS_BACK = {
    "runtime/session_resume.py",  # the one way
    "cli/store_access.py",  # prints what would be decided, over a store that it only reads
    "testing/simulation/past.py",  # checks that a stored session can begin a simulated life
}
MAKES_SESSIONS = {
    "runtime/assembly.py",  # a new one
    "runtime/child_calls.py",  # a new one, below another
    "runtime/forks.py",  # a fork, whose journal begins with the state that it is given
    "runtime/session_resume.py",  # the one that comes back
    "runtime/hibernation.py",  # the shell of one that sleeps, which `resuming` fills
}


def nodes_naming(*words: str) -> Iterator[tuple[str, ast.AST]]:
    """All of the code of each module that has these words: to parse the package takes seconds."""
    for path in PACKAGE.rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        for node in ast.walk(ast.parse(text)) if all(word in text for word in words) else ():
            yield path.relative_to(PACKAGE).as_posix(), node


def takers(module: str, *names: str) -> set[str]:
    """Which modules take something of these names from a module, or all of it."""
    package, _, name = module.rpartition(".")
    nodes = nodes_naming(package, name)
    return {name for name, node in nodes if _takes(node, module, names)}


def _takes(node: ast.AST, module: str, names: tuple[str, ...]) -> bool:
    match node:
        case ast.ImportFrom(module=of, names=taken) if of == module:
            return any(one.name in (*names, "*") for one in taken)
        case ast.ImportFrom(module=of, names=taken):
            return any(f"{of}.{one.name}" == module for one in taken)
        case ast.Import(names=taken):
            return any(one.name == module for one in taken)
        case _:
            return False


FOLDING = "agentrail.core.journal.fold"


@pytest.mark.at(143)
def test_nothing_else_makes_a_live_session_of_a_journal():
    """What is folded is brought back in one module, to which `resume=`, `resume_session` and whatever wakes a session lead; four others make sessions, and none folds."""
    assert takers(FOLDING, "fold", "fold_journal", "walk", "first_state") == FOLDS
    assert takers("agentrail.runtime.session_loader", "revive", "taken_on") == BRINGS_BACK
    made = {
        name
        for name, node in nodes_naming("SessionCell")
        if isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] == "SessionCell"
    }
    assert made == MAKES_SESSIONS
    assert not made & FOLDS
    assert takers("agentrail.runtime.session_resume", "SessionResumption") == {"runtime/hibernation.py"}


@pytest.mark.at(90)
def test_nothing_but_its_actor_writes_a_session():
    """One file of the shell steps a session and keeps what comes out; another looks ahead, and evals compare: both throw it away.

    `actors` knows no session: what it steps are supervisors.
    """
    written = re.compile(r"\.state(, \w+)? = .*step(_stored)?\b")
    files = {path.relative_to(PACKAGE).as_posix(): path for path in PACKAGE.rglob("*.py")}
    writers = {name for name, path in files.items() if written.search(path.read_text(encoding="utf-8"))}
    stepping = takers("agentrail.core.session.machine", "step")
    found = [
        {one for one in names if not re.match("core/|testing/|actors/", one)} for names in (stepping, writers)
    ]
    compares = {"evals/journals.py", "evals/journal_rules.py"}
    assert found == [
        {"runtime/session_actor.py", "runtime/assembly.py", *compares},
        {"runtime/session_actor.py"},
    ]
