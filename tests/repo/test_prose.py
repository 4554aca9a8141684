"""The linter of prose: its marks, its limits, and the commit subjects that it refuses."""

import subprocess

import pytest

from scripts import prose


def marks(sentence: str) -> set[str]:
    return {*prose.found_in(sentence, prose.HEADLESS), *prose.found_in(sentence, prose.CALQUES)}


@pytest.mark.parametrize(
    ("sentence", "found"),
    [
        ("Return what the handler gives.", {"what"}),
        ("An answer for who waits.", {"who"}),
        ("Close all that runs.", {"all that, one that"}),
        ("The session goes on behind the abort.", {"goes on", "behind, in front of"}),
        ("A frame that is none closes the socket.", {"is no, is none"}),
        ("The caller is told by somebody.", {"told, hears", "somebody, a person"}),
        ("Return the result of the handler.", set()),
        ("What happens when the store is away?", set()),
        ("There is no limit, and it is no longer open.", set()),
        ("The user who approved the call.", set()),
    ],
)
def test_marks_are_found(sentence, found):
    """In sentences like those that we had, and not in plain ones."""
    assert marks(sentence) == found


def test_texts_of_a_module():
    """Docstrings of attributes, comments, and messages however they are raised; no directives."""
    source = '''"""A module."""
LIMIT = 3
"""A limit."""
# A comment.
x = y  # noqa: E501 - a reason


def f(n):
    message = f"n must be positive (got {n})"
    raise ValueError(message)


def g(log):
    log.warning("retention: store is full")
'''
    found = [(text.kind, text.text) for text in prose.python_texts(source)]
    assert sorted(found) == [
        ("comment", "A comment."),
        ("docstring", "A limit."),
        ("docstring", "A module."),
        ("message", "n must be positive (got `x`)"),
        ("message", "retention: store is full"),
    ]


def test_texts_of_a_page(tmp_path):
    """Titles, paragraphs, items and rows; no code."""
    page = tmp_path / "page.md"
    page.write_text(
        "# Stop a session\n\nOne\ntwo.\n\n```python\n# what runs\n```\n\n- an item\n\n| a | b |\n|---|---|\n"
    )
    found = [(text.kind, text.line, text.text) for text in prose.page_texts(page)]
    assert found == [
        ("title", 1, "Stop a session"),
        ("page", 3, "One\ntwo."),
        ("page", 10, "an item"),
        ("page", 12, "| a. b |"),
    ]


def test_titles_and_names_of_modules():
    """Noun phrases or imperatives, of decisions sentences; gerunds and prepositions are refused, an irregular participle escapes."""
    good = "0015 · The garbage collector does not see the structs of the core"
    assert not any(map(prose.is_bad_title, ("Stop a session", good)))
    bad = ("What a session knows", "a fragment", "One; two", "0015 · What is hidden from the collector")
    assert all(map(prose.is_bad_title, bad))
    assert not any(map(prose.is_bad_name, ("approval_rules", "routing", "kept")))
    assert all(map(prose.is_bad_name, ("carrying", "of_people")))


@pytest.mark.parametrize(
    ("subject", "fault"),
    [
        ("fix(cli): stop the chat before its editor reclaims the terminal", None),
        ("feat!: embed the console", None),
        ("refactor(core): access the state once", None),
        ("Merge branch 'main'", None),
        ('Revert "fix: x"', None),
        ("fix(cli): stop the chat; show the wait", "two clauses"),
        ("fix(cli): " + "a" * 70, "80 characters, at most 72"),
        ("stop the chat", "not a Conventional Commit"),
        ("fix(runtime): a call that failed stands in the way", "begins with 'a'"),
        ("style: as the formatter has it", "begins with 'as'"),
        ("test: adds a case", "begins with 'adds'"),
        ("test: added a case", "begins with 'added'"),
        ("test: adding a case", "begins with 'adding'"),
        ("fix: continue, as nobody waits", "has a calque"),
    ],
)
def test_commit_subjects(subject, fault):
    """One imperative clause of at most 72 characters; the fault names its remedy."""
    found = prose.fault_of_subject(subject)
    assert found is None if fault is None else fault in (found or "")


def test_the_hook_judges_the_subject_alone(tmp_path, capsys):
    """Comments and the body do not count."""
    message = tmp_path / "COMMIT_EDITMSG"
    message.write_text(
        "# Please enter\nfix: add a case\n\nAdded because; what a long line " + "x" * 80 + "\n"
    )
    assert prose.main(["--message", str(message)]) == 0
    message.write_text("fix: added a case\n")
    assert prose.main(["--message", str(message)]) == 1
    assert "begins with 'added'; begin with an imperative" in capsys.readouterr().err


def test_the_hook_runs():
    """Git runs it from the root of the checkout, with the path of the message."""
    hook = prose.ROOT / "scripts" / "hooks" / "commit-msg"
    done = subprocess.run([hook, "/dev/null"], cwd=prose.ROOT, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr


def test_a_figure_above_its_limit_and_some_words_are_named(tmp_path, monkeypatch):
    """With enough words; below, chance decides, but for words that are refused at any rate. A path that moved is an error."""
    page = tmp_path / "page.md"
    page.write_text("Return what the handler gives.\n\n" * 10)
    assert prose.judge([page]) == []
    monkeypatch.setattr(prose, "MIN_WORDS", 10)
    assert f"{page}: headless of page: 200.0, limit 3" in prose.judge([page])
    monkeypatch.undo()
    page.write_text("The how manieth frame closes it.\n")
    (fault,) = prose.judge([page])
    assert f"{page}:1: The how manieth frame" in fault
    with pytest.raises(FileNotFoundError, match="name its new place"):
        prose.judge([tmp_path / "gone"])
