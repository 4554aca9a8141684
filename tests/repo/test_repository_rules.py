"""The linter of pages and files sees what breaks its rules; `make lint-repository` runs it."""

import pytest

pytest.importorskip("mypy", reason="mypy is not installed: make install")

from scripts import repository_rules as rules, source_rules
from scripts.decisions_page import read_records
from tests.pages import Fence

SAID = "what runs behind a call that was answered early goes on until it ends or is stopped"
RECORD = "*2026-11-22*\n\n**Context.** A.\n\n**Decision.** B.\n\n**Consequences.** C.\n"


@pytest.mark.parametrize(
    ("page", "text", "words"),
    [
        ("crew.py", "class Crew: ...\n", ["Crew"]),
        ("crew.py", "# Nobody waits for a `Slots`.\n", ["Nobody", "Slots"]),
        ("crew.md", "An errand of somebody's, in a `Crew`.\n", ["errand", "somebody", "Crew"]),
        ("crew.md", "Work of a crew\n", []),
        ("sandbox.md", "The user `nobody` owns it.\n", []),
    ],
)
def test_an_old_word_is_found(page, text, words):
    """Names as they are written, words in any case, and not what is stored."""
    assert sorted(rules.old_words(page, text)) == sorted(words)


@pytest.mark.parametrize(
    ("text", "is_one"),
    [
        ('pip install "agentrail[gateway]"', True),
        ("pip install agentrail", True),
        ("pip install -U --no-deps agentrail", True),
        ("pip install 'agentrail[web,kb]'", True),
        ("uv add agentrail", True),
        ("pipx install agentrail", True),
        ("install agentrail[embeddings]", True),
        ('pip install -e ".[gateway]"', False),
        ("pip install agentrail-0.1.0-py3-none-any.whl", False),
        ("pip install ./agentrail", False),
        ("pip uninstall agentrail", False),
        ("[tool.agentrail]", False),
    ],
)
def test_an_installation_by_name_is_seen(text, is_one):
    """With and without extras, for each installer: the name is another project's."""
    assert bool(rules.INSTALLS.search(text)) is is_one


def test_what_stands_twice_is_seen():
    """A paragraph, whatever its lines; and pages that share a long run of words, but not in code."""
    said = "A session is an actor, and it owns its mailbox; another task never reads it."
    texts = {"a": f"# A\n\n{said}\n", "b": f"- x\n- {said[:20]}\n  {said[20:40]}\n\n```\n\n{said}\n\n```\n"}
    assert list(rules.repeated_text(texts)) == []
    (twice, twins) = rules.repeated_text(texts | {"c": said.replace(", ", ",\n")})
    assert (said in twice, twins) == (True, "a and c share 14 words in a row")
    texts = {
        "a": f"Here, {SAID}.",
        "b": f"There,\n{SAID.replace(' ', chr(10), 1)}!",
        "c": f"```\n{SAID}\n```\n",
    }
    assert list(rules.repeated_text(texts)) == ["a and b share 14 words in a row"]


def test_what_pages_and_modules_hold_is_read():
    """Links and headings outside of code, imports at any depth, names that two modules define."""
    page = (
        "# One `two`, three\n[a](#one-two-three) `[b](none.md)`\n```text\n[c](no.md)\n```\n[d](https://x)\n"
    )
    assert rules.links_in(page) == ["#one-two-three"]
    assert rules.headings_of(page) == {"one-two-three"}
    text = "import trio\nimport agentrail\ndef f():\n    from agentrail.core.session import state\nimport agentrail.otp\n"
    assert source_rules.imported_from(text) == {"agentrail", "agentrail.core.session", "agentrail.otp"}
    one = "class Held: ...\nMAX: int = 1\n_own = 2\ndef run(): ...\nfrom two import Kept\n"
    two = "Held = int\nMAX = 2\n_own = 3\nasync def run(): ...\nclass Kept: ...\n"
    assert source_rules.shared_names({"one": one, "two": two}).keys() == {"Held", "MAX", "run"}


def test_queues_decoders_and_recursion_are_seen():
    """Queues with and without a name, each way to decode as a type, and functions that come back to themselves."""
    queues = "a = deque()\nself._b: deque[int] = deque()\nc, d = trio.open_memory_channel(1)\nf(deque())\ne = deque[int]()\ng: deque[int] = field(factory=deque)"
    assert source_rules.queues_in(queues) == ["a", "_b", "(c, d)", "e", "g", ""]
    for call in ("json.Decoder(T)", "json.decode(x, type=T)", "msgpack.Decoder(T)", "convert(x, T)"):
        ((found, is_at_import),) = source_rules.decoders_in(f"def f():\n    return msgspec.{call}")
        assert (source_rules.is_typed_decoding(found), is_at_import) == (True, False), call
    source = "def a():\n    b()\ndef b():\n    a()\ndef c(b):\n    b()\ndef d():\n    d()\n"
    assert source_rules.recursive_functions(source) == {"a", "b", "d"}


def test_a_program_or_a_command_of_a_page_that_cannot_run_is_seen():
    """A program that is skipped, that Sybil does not read, or in another language; an option that was renamed."""
    (command,) = rules.commands_in("```console\n$ TOKEN=$(agentrail token new a --tokenfile f)\n```\n")
    assert "tokenfile" in rules.wrong_command(command)
    assert rules.wrong_command("token new a --token-file f") == ""
    fences = [
        Fence("README.md", "python", "a = 1"),
        Fence("README.md", "python", "b = 1", is_skipped=True),
        Fence("docs/examples/tides/README.md", "python", "c = 1"),
        Fence("docs/how-to/deploy.md", "", "d = 1"),
        Fence("docs/how-to/deploy.md", "text", "e"),
    ]
    assert [one.rpartition(": ")[2] for one in rules.unrun(fences)] == ["'b = 1'", "'c = 1'", "'d = 1'"]


def test_what_is_missing_is_named(tmp_path, monkeypatch):
    """Sets are compared by both of their sides; a list that wants nothing proves nothing; a private place has its file."""
    assert list(source_rules.unlike("x", "ab", "bc")) == ["x: missing ['c'], unexpected ['a']"]
    assert list(source_rules.lacking("x", "ab", "bc")) == ["x: missing ['c']"]
    assert list(source_rules.lacking("x", "ab", "")) == ["x: missing everything"]
    (tmp_path / "a.md").write_text("see /wo" + "rk/here")
    monkeypatch.setattr(rules, "ROOT", tmp_path)
    monkeypatch.setattr(rules, "repository_files", lambda: (tmp_path / "a.md",))
    (fault,) = rules.private_places()
    assert fault.startswith("a.md: names ")


def test_folders_of_the_root_are_listed(tmp_path, monkeypatch):
    """A folder that CONTRIBUTING.md does not list is a fault; a file of the root and a listed folder are not."""
    (tmp_path / "CONTRIBUTING.md").write_text("| `tests/` | one folder per room |")
    monkeypatch.setattr(rules, "ROOT", tmp_path)
    files = tuple(tmp_path / name for name in ("a.md", "tests/a.py", "left/b/c.md", "left/d.md"))
    monkeypatch.setattr(rules, "repository_files", lambda: files)
    assert list(rules.unlisted_folders()) == ["left/ is in no row of CONTRIBUTING.md"]


@pytest.mark.parametrize(
    "heading",
    [
        "Our choice",
        "0001 · One",
        f"1 · One\n\n{RECORD}",
        f"0001 · One\n\n{RECORD.replace('2026-11-22', 'yesterday')}",
        f"0001 · One\n\n{RECORD.replace('Decision', 'Choice')}",
    ],
)
def test_a_heading_without_a_record_is_refused(heading):
    """The message shows the expected form; a record ends where the next one begins."""
    with pytest.raises(ValueError, match="does not begin a record: expected"):
        read_records(f"# A\n\n## {heading}\n\nBecause.\n")
    first, second = read_records(f"# A\n\n## 0001 · `x` is y\n\n{RECORD}\n## 0002 · z\n\n{RECORD}")
    assert (first.number, first.title, second.title) == ("0001", "`x` is y", "z")
    assert (first.text, first.anchor) == (RECORD[14:].strip(), "0001--x-is-y")
