"""What Ctrl-C and a paste mean, and what a half-typed word may become."""

import os

import pytest
from hypothesis import given, strategies as st
from prompt_toolkit.history import InMemoryHistory

from agentrail.cli.terminal import editor_history
from agentrail.cli.terminal.completion import KnownNames, complete, is_completed
from agentrail.cli.terminal.editor_history import history_in
from agentrail.cli.terminal.key_bindings import (
    MIN_BURST,
    TWICE_WITHIN_SECONDS,
    Burst,
    Pastes,
    SentLine,
    decide_ctrl_c,
)


@pytest.mark.experience("X-008")
def test_what_control_c_does():
    """It clears what was typed, whatever runs; then stops the cycle; then, twice in a chat that rests, leaves."""

    def pressed(**given):
        return decide_ctrl_c(
            **{"has_text": False, "is_idle": True, "is_stopping": False, "since_warned": None, **given}
        )

    assert pressed(has_text=True, is_idle=False) == "clear"
    assert pressed(has_text=True, is_stopping=True) == "clear"
    assert pressed(is_idle=False) == "abort"
    assert pressed(is_idle=False, is_stopping=True) == "leave_now"
    assert pressed() == "warn"
    assert pressed(since_warned=TWICE_WITHIN_SECONDS) == "leave"
    assert pressed(since_warned=TWICE_WITHIN_SECONDS + 0.1) == "warn"


@pytest.mark.experience("X-007")
def test_a_paste_of_many_lines_is_one_prompt_and_no_command():
    """Forty lines with `/quit` first stand as a mark while one types, and are sent whole, as a prompt."""
    pastes = Pastes()
    pasted = "\r\n".join(["/quit", *map(str, range(39))])
    mark = pastes.take(pasted)
    assert mark == "[pasted text 1, 40 lines]"
    assert pastes.send(f"look: {mark}!") == SentLine(
        text=f"look: {pasted}!".replace("\r\n", "\n"), is_pasted=True
    )
    assert pastes.send(mark) == SentLine(text=mark)  # the line is another one: nothing was pasted into it


def test_a_short_paste_stands_in_the_line():
    """A word that was pasted can be a command; two lines cannot, even without a terminal's brackets."""
    pastes = Pastes()
    assert pastes.send(pastes.take("/status")) == SentLine(text="/status")
    assert pastes.send(pastes.take("/quit\nnow")) == SentLine(text="/quit\nnow", is_pasted=True)
    pastes.note_lines()
    assert pastes.send("/quit\nnow") == SentLine(text="/quit\nnow", is_pasted=True)


@pytest.mark.experience("X-007")
@given(pieces=st.lists(st.text(alphabet="a\r\n\t/é", min_size=1, max_size=200), min_size=1, max_size=5))
def test_keys_that_come_at_once_are_held_whole(pieces):
    """Once a paste has begun, nothing of it is lost or handled on its own, wherever the terminal cuts it; lines end with a line feed."""
    burst = Burst()
    first, *more = [list(piece) for piece in ("/quit\rnow", *pieces)]
    assert burst.takes(first)
    assert all(burst.takes(keys) for keys in more)
    text, has_enter = burst.end()
    whole = "".join(["/quit\rnow", *pieces]).replace("\r\n", "\n").replace("\r", "\n")
    assert text + "\n" * has_enter == whole
    assert not has_enter or "\n" not in text
    assert not burst.is_held


@pytest.mark.experience("X-007")
def test_what_is_pressed_is_no_paste():
    """A key, a word with Enter behind it, keys that edit; and a long line with Enter is sent, as a program types it."""
    burst = Burst()
    assert not burst.takes([])
    assert not burst.takes(["\r"])
    assert not burst.takes([*"/status", "\r"])
    assert not burst.takes([*"ab", None, "\r", "c"])
    assert not burst.takes(["a"] * (MIN_BURST - 1))
    assert burst.takes([*("a" * MIN_BURST), "\r"])
    assert not burst.takes([None])
    assert burst.end() == ("a" * MIN_BURST, True)
    assert burst.takes(list("one\rtwo\r"))
    assert burst.end() == ("one\ntwo\n", False)


KNOWN = KnownNames(
    commands=[("help", "all"), ("model", "which"), ("status", "how")],
    arguments={"model": lambda: [("demo:", "now"), ("demo:fast", ""), ("openai:gpt-5", "")]},
    files=lambda inside: {"": ["src/", "setup.py", ".git/"], "src/": ["a.py"]}.get(inside, []),
)


def test_what_a_word_may_become():
    """Commands at the beginning, models behind theirs, files behind `@`, hidden ones when a dot was typed; a command takes all behind its slash, a file its last part."""
    for before, *expected in (
        ("/", "/help", "/model", "/status"),
        ("/S", "/status"),
        ("/model d", "demo:", "demo:fast"),
        ("/model fast", "demo:fast"),
        ("/status x",),
        ("see @s", "setup.py", "src/"),
        ("see @src/", "a.py"),
        ("@.", ".git/"),
        ("@", "setup.py", "src/"),
        ("mail@s",),
        ("words",),
        ("one\n/he",),
    ):
        assert [one.text for one in complete(before, KNOWN)] == expected
        assert is_completed(before) or not expected
    assert [one.replaces for one in complete("/he", KNOWN)] == [3]
    assert [one.replaces for one in complete("see @src/a", KNOWN)] == [1]


def test_a_history_that_is_no_file_lasts_as_long_as_the_chat(tmp_path, monkeypatch):
    """A pipe would wait for its writer, and a file that memory cannot hold ended the chat."""
    (tmp_path / "file").write_text("+hello\n")
    os.mkfifo(tmp_path / "pipe")
    reader = os.open(tmp_path / "pipe", os.O_RDWR)  # or a failed test would wait
    assert isinstance(history_in(tmp_path / "pipe"), InMemoryHistory)
    os.close(reader)
    assert [*history_in(tmp_path / "file").load_history_strings()] == ["hello"]
    monkeypatch.setattr(editor_history, "_MAX_BYTES", 3)
    assert [*history_in(tmp_path / "file").load_history_strings()] == []
