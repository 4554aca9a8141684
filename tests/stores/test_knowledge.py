"""Knowledge bases: what becomes of documents, who may read them, and what is found."""

import hashlib
from contextlib import closing

import apsw
import pytest
from hypothesis import example, given, strategies as st

from agentrail.abc.knowledge import MAX_FOUND_PASSAGES, DocumentFilter, folder_of
from agentrail.abc.recall import MemoryOwner
from agentrail.errors import OptionError, StoreUnavailable
from agentrail.stores import knowledge_sqlite, words
from agentrail.stores.knowledge_sqlite import SqliteKnowledge
from agentrail.stores.memory_store_names import directory_of_knowledge, faults_of_knowledge, opened_knowledge
from agentrail.testing.check_memory import HOSTILE_QUERIES
from tests.web.documents import HTML, pdf

ADA = MemoryOwner(tenant="acme", user="ada")
BOB = MemoryOwner(tenant="acme", user="bob")
STRANGER = MemoryOwner(tenant="zeta", user="ada")


@pytest.fixture
def store(tmp_path):
    """A store with a base of Ada's, one of everybody's and one of nobody's."""
    with closing(SqliteKnowledge(tmp_path / "knowledge")) as opened:
        opened.open_base("acme", "hers", ["ada"])
        opened.open_base("acme", "all", ["*"])
        opened.open_base("acme", "none")
        yield opened


def digest_of(content):
    """As `announce` takes it."""
    return hashlib.sha256(content).hexdigest()


def sources(store, reader, query, base="", **rest):
    return [one.source for one in store.search(reader, query, base, **rest)]


READERS = st.lists(st.sampled_from(["ada", "bob", "*", "ADA", "ad"]), max_size=3, unique=True)


@given(
    readers=st.lists(READERS, min_size=1, max_size=3),
    user=st.sampled_from(["", "ada", "bob"]),
    query=st.sampled_from(HOSTILE_QUERIES) | st.text(max_size=8),
)
def test_no_query_finds_what_one_may_not_read(tmp_path_factory, readers, user, query):
    """Whatever is asked, in whatever syntax."""
    reader = MemoryOwner(tenant="acme", user=user)
    with closing(SqliteKnowledge(tmp_path_factory.mktemp("knowledge"))) as store:
        for number, named in enumerate(readers):
            store.open_base("acme", f"b{number}", named)
            content = b"tea coffee NOT own body " + query.encode("utf-8", "replace")
            store.add("acme", f"b{number}", f"{number}.md", content)
        may = {f"b{number}" for number, named in enumerate(readers) if "*" in named or user in named}
        assert {one.base for one in store.search(reader, f"{query} tea", limit=50)} <= may
        assert {one.name for one in store.bases(reader)} == may


@pytest.mark.check
def test_html_has_headings_and_a_pdf_has_pages(store):
    """Lines of the Markdown that a page becomes, and pages of a PDF; what comes from the web is known by its first bytes."""
    long = "planes are late " * 120
    for path, content in (
        ("page.html", HTML),
        ("report.pdf", pdf("planes", "hangars", long, long, long)),
        ("https://a.example/x.php?y=1", HTML),
        ("https://a.example/report", pdf("boats")),
        ("https://a.example/notes", b"about trains"),
    ):
        assert store.add("acme", "hers", path, content).state == "indexed", path
    pages = {one.source.partition("#")[0]: one for one in store.search(ADA, "Thun")}
    page = pages.pop("page.html")
    assert page.source.startswith("page.html#L1-L")
    assert page.trail == ("Trains",)
    assert page.unit == "line"
    (page,) = pages.values()
    assert "(https://a.example/second)" in page.text
    first, *others = sorted(store.search(ADA, "planes"), key=lambda one: one.first_line)
    assert first.text.startswith("planes\n\nhangars")
    assert first.source.startswith("report.pdf#p1-p")
    assert first.unit == "page"
    assert others[-1].last_line == 5
    (found,) = store.search(ADA, "hangars")
    assert store.read(ADA, found.id) == (found,)
    assert sources(store, ADA, "boats") == ["https://a.example/report#p1"]


@pytest.mark.parametrize(
    ("path", "content", "reason"),
    [
        (
            "a.docx",
            b"PK",
            "files of the kind '.docx' are not read: Markdown (.md), text (.txt), HTML (.html) and PDF (.pdf) are",
        ),
        ("a.pdf", b"%PDF-1.7", "it is not a readable PDF (PdfStreamError)"),
        ("a.html", b"<script>run()</script>", "it contains no text: a script in the browser may produce it"),
        ("a.md", b"tea \xff", "it is not UTF-8 at byte 4: save it as UTF-8"),
        ("a.md", b"tea\0", "it contains zero bytes, so it is not text"),
        ("a.md", b"x" * 101, "it has more than 100 bytes: split it"),
    ],
)
def test_what_cannot_be_read_is_failed_and_the_others_go_on(store, monkeypatch, path, content, reason):
    """With the reason (12.11); what it had before is not found any more."""
    monkeypatch.setattr(knowledge_sqlite, "MAX_DOCUMENT_BYTES", 100)
    store.add("acme", "hers", path, b"earlier trains")
    failed = store.add("acme", "hers", path, content)
    assert (failed.state, failed.reason, failed.passages) == ("failed", reason, 0)
    store.add("acme", "hers", "b.md", b"later trains")
    assert [(one.path, one.state, one.passages) for one in store.documents("acme", "hers")] == [
        (path, "failed", 0),
        ("b.md", "indexed", 1),
    ]
    assert sources(store, ADA, "trains") == ["b.md#L1-L1"]
    assert store.announce("acme", "hers", [(path, failed.digest)]) == (path,)


def test_a_crash_in_the_middle_repeats_the_document(store, monkeypatch):
    """It waits still, with its old passages whole; the next time it is among those to be added."""
    store.add("acme", "hers", "a.md", b"old trains")
    new = b"\n\n".join([b"new planes " * 200] * 3)
    assert store.announce("acme", "hers", [("a.md", digest_of(new))]) == ("a.md",)
    made = iter([True])

    def crash(key, words):
        if next(made, False):
            return ""
        raise KeyboardInterrupt

    monkeypatch.setattr(knowledge_sqlite, "indexed", crash)
    with pytest.raises(KeyboardInterrupt):
        store.add("acme", "hers", "a.md", new)
    monkeypatch.undo()
    assert [one.state for one in store.documents("acme", "hers")] == ["pending"]
    assert (sources(store, ADA, "trains"), sources(store, ADA, "planes")) == (["a.md#L1-L1"], [])
    assert store.announce("acme", "hers", [("a.md", digest_of(new))]) == ("a.md",)
    assert store.add("acme", "hers", "a.md", new).passages == 3
    assert store.announce("acme", "hers", [("a.md", digest_of(new))]) == ()


def test_what_is_removed_stands_nowhere_any_more(store):
    """Neither in rows nor in the index nor in the log; twice is fine."""
    store.add("acme", "hers", "a.md", b"kingfisher4711 trains")
    store.add("acme", "hers", "b.md", b"other trains")
    assert store.remove("acme", "hers", "a.md")
    assert not store.remove("acme", "hers", "a.md")
    assert not store.remove("zeta", "hers", "a.md")
    assert sources(store, ADA, "trains") == ["b.md#L1-L1"]
    path = store.path_of("acme")
    files = list(path.parent.glob(f"{path.name}*"))
    assert path in files
    assert b"kingfisher4711" not in b"".join(one.read_bytes() for one in files)


PARTS = st.sampled_from(["a", "ab", "_b", "A"])
FOLDERS = st.lists(PARTS, min_size=1, max_size=2).map("/".join)
PATHS = st.builds("{}{}/{}.md".format, st.sampled_from(["", "/", "../", "./../"]), FOLDERS, PARTS)
TAGS = st.lists(st.sampled_from(["eu", "travel", "e", '"', "[]"]), unique=True, max_size=3)


@given(
    documents=st.dictionaries(PATHS | PARTS.map("{}.md".format), TAGS, min_size=2, max_size=6),
    folder=st.none() | FOLDERS,
    tags=TAGS,
)
@example(documents={"a/x.md": ["eu", "e"], "ab/x.md": ["eu"], "a.md": ["eu"]}, folder="a", tags=["eu"])
@example(documents={"a/x.md": ["eu"], "ab/x.md": ["e", "eu"]}, folder=None, tags=["eu", "e"])
def test_what_is_narrowed_is_the_part_of_the_whole_that_passes(tmp_path_factory, documents, folder, tags):
    """Part by part of the folder, tag by tag, whatever signs they have; and nothing of it to who may not read (12.6)."""
    with closing(SqliteKnowledge(tmp_path_factory.mktemp("knowledge"))) as store:
        store.open_base("acme", "hers", ["ada"])
        for path, given_tags in documents.items():
            store.add("acme", "hers", path, b"trains")
            store.tag("acme", "hers", [path], given_tags)
        wanted, parts = set(), [] if folder is None else folder.split("/")
        for path, has in documents.items():
            above = folder_of(path).split("/")
            if above[: len(parts)] == parts and {*tags} <= {*has}:
                wanted.add(path)
        within = DocumentFilter(folder=folder, tags=tags)
        assert {one.path for one in store.search(ADA, "trains", "", within)} == wanted
        assert [one.path for one in store.readable(ADA, "hers", within)] == sorted(wanted)
        assert store.search(BOB, "trains", "", within) == ()
        with pytest.raises(OptionError, match="there is no knowledge base"):
            store.readable(BOB, "hers", within)


@pytest.mark.parametrize(
    ("path", "folder"),
    [
        ("a.md", ""),
        ("/a.md", ""),
        ("docs/a.md", "docs"),
        ("/srv/docs/a.md", "srv/docs"),
        ("../../docs/a.md", "docs"),
        (".docs/a.md", ".docs"),
        ("..docs/a.md", "..docs"),
        ("https://a.example/guide/x", "https://a.example/guide"),
    ],
)
def test_the_folder_of_a_document_can_be_named(store, path, folder):
    """Also of one that was added from elsewhere, or from the web; one that lies in none is in no folder."""
    added = store.add("acme", "hers", path, b"trains")
    assert added.folder == folder
    if folder:
        assert sources(store, ADA, "trains", within=DocumentFilter(folder=folder)) == [f"{path}#L1-L1"]
    assert sources(store, ADA, "trains", within=DocumentFilter(folder="elsewhere")) == []


def test_which_words_decide_is_a_matter_of_the_folder(store, monkeypatch):
    """A word that is frequent in the base, and alone in the folder, finds there what it would find in a base of its own."""
    monkeypatch.setattr(words, "FEW_ROWS", 1)
    for number in range(9):
        store.add("acme", "hers", f"much/{number}.md", b"trains")
    store.add("acme", "hers", "much/rare.md", b"kingfisher")
    store.add("acme", "hers", "few/a.md", b"trains")
    store.add("acme", "hers", "few/b.md", b"boats")
    assert sources(store, ADA, "kingfisher trains") == ["much/rare.md#L1-L1"]
    assert sources(store, ADA, "kingfisher trains", within=DocumentFilter(folder="few")) == ["few/a.md#L1-L1"]


def test_wrong_input_is_told(store):
    """Each with what there is, or what is expected."""
    for call, said in (
        (
            lambda: store.add("acme", "nothing", "a.md", b""),
            "there is no knowledge base 'nothing': expected one of all, hers, none",
        ),
        (lambda: store.add("zeta", "hers", "a.md", b""), "there is no knowledge base 'hers': there is none"),
        (lambda: store.announce("acme", "nothing", []), "there is no knowledge base 'nothing'"),
        (lambda: store.add("acme", "hers", "a\nb", b""), "is not a document path"),
        (lambda: store.add("acme", "hers", "", b""), "is not a document path"),
        (lambda: store.announce("acme", "hers", [("x" * 501, "")]), "is not a document path"),
        (lambda: store.open_base("acme", "hers", [7]), r"readers\[0\] is of type int"),
        (lambda: store.open_base("acme", "hers", [""]), r"readers\[0\] is of type str: expected a user"),
        (lambda: store.tag("acme", "nothing", ["a.md"], ["eu"]), "there is no knowledge base 'nothing'"),
        (lambda: store.tag("acme", "hers", ["a\nb"], ["eu"]), "is not a document path"),
        (lambda: store.search(ADA, "x", limit=0), "limit is 0"),
        (lambda: store.search(ADA, "x", limit=MAX_FOUND_PASSAGES + 1), "limit is 51"),
        (lambda: store.read(ADA, "p-1", around=11), "around is 11: expected a whole number from 0 to 10"),
        (lambda: store.read(ADA, "p-1", around=True), "around is True"),
        (lambda: store.search(STRANGER, "x", "hers"), "there is no knowledge base 'hers': there is none"),
    ):
        with pytest.raises(OptionError, match=said):
            call()
    assert store.read(ADA, "\ud800") == store.read(ADA, "p-1") == store.read(STRANGER, "p-1") == ()
    assert store.search(ADA, "") == store.search(STRANGER, "trains") == ()
    assert store.bases(STRANGER) == store.documents("zeta", "hers") == ()
    assert not store.path_of("zeta").exists()


async def test_names_and_closing(tmp_path):
    """As for memories; a store that was given stays open."""
    assert directory_of_knowledge("sqlite:", tmp_path, {}) == tmp_path / "knowledge"
    for wrong in ("memory:", "", 7):
        assert faults_of_knowledge(wrong)[0].startswith(f"knowledge is {wrong!r}: expected 'sqlite:'")
    with pytest.raises(OptionError):
        directory_of_knowledge("memory:", tmp_path, {})
    async with opened_knowledge("sqlite:", tmp_path, {}) as opened:
        assert opened.bases(ADA) == ()
        async with opened_knowledge(opened, None, {}) as same:
            assert same is opened
        opened.open_base("acme", "all", ["*"])
    async with opened_knowledge(None, None, {}) as nothing:
        assert nothing is None
    assert faults_of_knowledge(opened) == []
    assert "SqliteKnowledge(" in repr(opened)
    with pytest.raises(StoreUnavailable, match="closed"):
        opened.bases(ADA)


@pytest.mark.parametrize(("table", "column"), [("base", "readers"), ("passage", "trail"), ("tagged", "tags")])
def test_a_list_that_was_cut_is_reported_as_damage(store, table, column):
    """It may hold the readers of a base, so nothing is guessed."""
    store.add("acme", "hers", "tea.md", b"# Tea\n\nGreen.")
    store.tag("acme", "hers", ["tea.md"], ["drinks"])
    with closing(apsw.Connection(str(store.path_of("acme")))) as other:
        other.execute(f"UPDATE {table} SET {column} = '[\"'")  # noqa: S608 - of this test
    with pytest.raises(StoreUnavailable, match=r"is damaged .*: move it away, or replace it with a backup"):
        store.search(ADA, "green", "hers", DocumentFilter(tags=("drinks",)))
