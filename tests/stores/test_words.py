"""How texts and queries are cut into words, which of them decide, and English words without their endings, for which indexes are rewritten once."""

import re
from contextlib import closing

import apsw
import msgspec
import pytest
from hypothesis import given, strategies as st

from agentrail.abc import MemoryOwner
from agentrail.abc.recall import MemoryEntry, TagFilter
from agentrail.stores import words
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


@pytest.mark.parametrize(
    ("rows", "chosen"),
    [
        ({"the": 90_000, "tea": 1_000, "rare": 1}, ("tea", "rare")),
        ({"the": 90_000, "tea": 2_001}, ("tea",)),
        ({"the": 90_000, "tea": 30_000}, ("tea",)),
        ({"the": 90_000}, ("the",)),
        ({"rare": 1}, ("rare",)),
        ({}, ()),
    ],
)
def test_frequent_words_are_left_out_while_a_rarer_one_remains(rows, chosen):
    """One that stands nowhere is no rarer one: it would find nothing, and take the place of what finds something."""
    count, _ = counting(rows)
    assert choose_words(["the", "tea", "rare", "nowhere"], count, 100_000) == chosen


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
