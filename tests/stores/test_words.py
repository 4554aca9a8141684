"""How documents are cut into passages, texts and queries into words, which of them decide, and English words without their endings, for which indexes are rewritten once."""

import re
from contextlib import closing
from itertools import pairwise

import apsw
import msgspec
import pytest
from hypothesis import example, given, strategies as st

from agentrail.abc import MemoryOwner
from agentrail.abc.recall import MemoryEntry, TagFilter
from agentrail.stores import words
from agentrail.stores.documents import LEAST_BYTES, MOST_BYTES, passages_of
from agentrail.stores.knowledge_sqlite import SCHEMA_OF_KNOWLEDGE, SqliteKnowledge
from agentrail.stores.porter_stemmer import stem
from agentrail.stores.recall_sqlite import SCHEMA_OF_RECALL, SqliteRecall
from agentrail.stores.words import choose_words, query_words


@given(text=st.text())
def test_a_word_has_no_sign_that_means_something(text):
    """So a query made of words cannot be syntax, and each is one word when it is cut again."""
    for word in query_words(text):
        assert word.isalnum()
        assert word.isascii() or not word.isspace()
        assert not re.search(r'["\0\s(){}:*^+-]', word)


def counting(rows):
    """Count from a table, no further than to a bound, and remember what was asked."""
    asked = []

    def count(word, most):
        asked.append(word)
        found = rows.get(word, 0)
        return found if most is None else min(found, most)

    return count, asked


def test_frequent_words_are_left_out_while_a_rarer_one_remains():
    """One that stands nowhere is no rarer one: it would find nothing, and take the place of what finds something."""
    for rows, chosen in (
        ({"the": 90_000, "tea": 1_000, "rare": 1}, ("tea", "rare")),
        ({"the": 90_000, "tea": 2_001}, ("tea",)),
        ({"the": 90_000, "tea": 30_000}, ("tea",)),
        ({"the": 90_000}, ("the",)),
        ({"rare": 1}, ("rare",)),
        ({}, ()),
    ):
        count, _ = counting(rows)
        assert choose_words(["the", "tea", "rare", "nowhere"], count, 100_000) == chosen, rows


# --- without their endings


# From the examples of the paper, https://tartarus.org/martin/PorterStemmer/def.txt, carried through all steps.
PAIRS = """
caresses caress  ponies poni  ties ti  cats cat  feed feed  agreed agre  plastered plaster  bled bled
motoring motor  sing sing  conflated conflat  troubled troubl  sized size  hopping hop  tanned tan
falling fall  hissing hiss  fizzed fizz  failing fail  filing file  happy happi  sky sky  relational relat
conditional condit  rational ration  valenci valenc  digitizer digit  conformabli conform  radicalli radic
differentli differ  vileli vile  analogousli analog  vietnamization vietnam  predication predic
operator oper  feudalism feudal  decisiveness decis  hopefulness hope  callousness callous  formaliti formal
sensitiviti sensit  sensibiliti sensibl  triplicate triplic  formative form  formalize formal
electriciti electr  electrical electr  hopeful hope  goodness good  revival reviv  allowance allow
inference infer  airliner airlin  gyroscopic gyroscop  adjustable adjust  defensible defens  irritant irrit
replacement replac  adjustment adjust  dependent depend  adoption adopt  homologou homolog  communism commun
activate activ  angulariti angular  homologous homolog  effective effect  bowdlerize bowdler  probate probat
rate rate  cease ceas  controll control  roll roll  trains train  booking book  prefers prefer
preference prefer  is is  2nd 2nd  grüße grüße  Train Train
"""


def test_an_ending_is_taken_off_as_the_paper_does():
    """What is of other signs than small ASCII letters stays."""
    told = PAIRS.split()
    assert [stem(word) for word in told[::2]] == told[1::2]


@given(st.text(alphabet=st.characters(min_codepoint=97, max_codepoint=122), max_size=70))
def test_a_stem_is_a_word_and_no_longer_than_what_it_is_of(word):
    """So nothing that stands in an index can become syntax, or another word's owner."""
    found = stem(word)
    assert len(found) <= len(word)
    assert found.isalpha() or not word


@pytest.fixture
def as_before(monkeypatch):
    """Words are cut, and files made, as in version 2."""
    monkeypatch.setattr(words, "stem", str)
    for store, schema in ((SqliteRecall, SCHEMA_OF_RECALL), (SqliteKnowledge, SCHEMA_OF_KNOWLEDGE)):
        monkeypatch.setattr(store, "_SCHEMA", msgspec.structs.replace(schema, version=2))
    return monkeypatch


def version_of(directory):
    """Of the tables of the one file there."""
    (path,) = directory.glob("*.db")
    with closing(apsw.Connection(str(path))) as connection:
        return connection.pragma("user_version")


def test_an_index_is_written_again_once_when_it_is_read(tmp_path, as_before):
    """Owners of memories stay apart, and tags stand for themselves; headings of a passage still weigh double."""
    ann, bob = MemoryOwner(user="a"), MemoryOwner(user="b")
    ours = MemoryEntry(
        id="1", text="Ada prefers trains. Müller 我喜欢绿茶", tags=["Trains", "booking"], at_ms=1
    )
    with closing(SqliteRecall(tmp_path / "memories")) as old:
        old.put(ann, ours)
        old.put(bob, MemoryEntry(id="2", text="Bob prefers trains.", at_ms=2))
    with closing(SqliteKnowledge(tmp_path / "knowledge")) as old:
        old.open_base("", "b", ["*"])
        old.add("", "b", "travel.md", b"# Travelling\n\n## Trains\n\nFirst class.\n")
        old.add("", "b", "food.md", b"# Food\n\nNo trains here.\n")
    as_before.undo()
    assert version_of(tmp_path / "memories") == version_of(tmp_path / "knowledge") == 2

    with closing(SqliteRecall(tmp_path / "memories")) as recall:

        def found(owner, query, **tags):
            return [one.id for one in recall.search(owner, query, limit=5, tags=TagFilter(**tags))]

        for query in ("train", "preference", "muller", "喜欢", "book"):
            assert found(ann, query) == ["1"], query
        assert found(ann, "train", any_of=["Trains"]) == ["1"]
        assert found(ann, "train", any_of=["train"]) == []
        assert found(bob, "train") == ["2"]
        assert version_of(tmp_path / "memories") == SCHEMA_OF_RECALL.version == 3
        recall.put(ann, MemoryEntry(id="1", text="She walks.", at_ms=1))
        assert found(ann, "train") == []
    with closing(SqliteKnowledge(tmp_path / "knowledge")) as knowledge:
        sources = [one.source for one in knowledge.search(ann, "train")]
        assert sources == ["travel.md#L1-L5", "food.md#L1-L3"]
        assert version_of(tmp_path / "knowledge") == SCHEMA_OF_KNOWLEDGE.version


HEADINGS = ["# One", "## Two", "### Three ###", "#hash", "####### seven", "    # code"]
MARKS = ["```", "~~~~", "```python", "\r", "text\r"]
LONG_ONES = ["é" * 40, "word " * 150, "x" * 4000, "咖啡" * 900]
LINES = st.sampled_from(["", "", " ", "text here", "- item", *HEADINGS, *MARKS, *LONG_ONES])


@given(lines=st.lists(LINES, max_size=40), is_markdown=st.booleans())
def test_nothing_is_lost_and_nothing_is_too_long(lines, is_markdown):
    """Every sign that is no space is in exactly one passage, in order; lines are told, and rise."""
    text = "\n".join(lines)
    pieces = passages_of(text, is_markdown=is_markdown)
    assert "".join("".join(piece.text for piece in pieces).split()) == "".join(text.split())
    place = 1
    for piece in pieces:
        assert piece.text.strip()
        assert len(piece.text.encode()) <= MOST_BYTES
        assert place <= piece.first <= piece.last <= len(lines)
        place = piece.last
        written = "".join("\n".join(lines[piece.first - 1 : piece.last]).split())
        assert "".join(piece.text.split()) in written
    if not is_markdown:
        assert all(piece.trail == () for piece in pieces)


@example(sizes=[157, 1])  # 798 bytes, which were counted as 800
@given(sizes=st.lists(st.integers(1, 400), min_size=2, max_size=12))
def test_short_sections_are_joined(sizes):
    """No two neighbours are so short that they would have fitted into one."""
    text = "\n\n".join(f"# Section {n}\n\n{'word ' * size}" for n, size in enumerate(sizes))
    pieces = [len(piece.text.encode()) for piece in passages_of(text, is_markdown=True)]
    for left, right in pairwise(pieces):
        assert left >= LEAST_BYTES or left + right > MOST_BYTES - 100


def test_a_heading_in_a_fence_is_code():
    """Until the fence is closed by as many of the same marks."""
    text = "# One\n\n````\n# no\n```\n# neither\n````\n\ntext\n\n``` not `a` fence\n\n# Two\n\n~~~\n# no\n"
    (piece,) = passages_of(text, is_markdown=True)
    assert piece.trail == ()  # One and Two share none
    assert passages_of("# One\n\n```\n# no\n```\n", is_markdown=True)[0].trail == ("One",)


def test_a_long_line_is_cut_and_keeps_its_number():
    """A file of one line is one line in each of its passages."""
    pieces = passages_of("\n\n" + "x" * 10_000, is_markdown=False)
    assert {(piece.first, piece.last) for piece in pieces} == {(3, 3)}
    assert "".join(piece.text.replace("\n", "") for piece in pieces) == "x" * 10_000


def test_it_takes_as_long_as_the_text_is():
    """Hashes, spaces, marks and headings without end: what could be quadratic, of a megabyte each."""
    for text in ("#" * 200_000, "# " + " " * 200_000 + "x", "`" * 200_000, "# a\n" * 20_000, "\n" * 200_000):
        assert re.sub(
            r"\s", "", "".join(piece.text for piece in passages_of(text, is_markdown=True))
        ) == re.sub(r"\s", "", text)
