"""Commands that search compare meanings where files name an embedder: as sessions do, and with clear faults (12b.5)."""

import pytest

from agentrail.blueprints import embedder as embedders
from agentrail.blueprints.configuration import read_configuration
from agentrail.cli.config_command import check_files
from agentrail.cli.exit_codes import Exit
from agentrail.cli.host_config import options_of_host
from agentrail.cli.kb_command import KnowledgePlace, add_documents, search_documents
from agentrail.cli.memory_command import MemoryPlace, search_memories
from agentrail.distribution import install_command
from agentrail.errors import OptionError
from tests.cli.embedding_server import embedding_server, name_embedder


@pytest.fixture
def home(tmp_path, monkeypatch):
    """A home, and the directory in which commands run."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("AGENTRAIL_CONFIG", raising=False)
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    return tmp_path


@pytest.fixture
def asked(home):
    with embedding_server(home) as asked:
        yield asked


def test_passages_are_found_by_meaning_too(home, asked, capfd):
    """Added once and for all; in one ranking with words, which may be compared alone."""
    (home / "work" / "a.md").write_text("# Journeys\n\nTrains in first class.\n")
    (home / "work" / "b.md").write_text("# Pay\n\nOn the first of the month.\n")
    place = KnowledgePlace(knowledge=f"sqlite:{home / 'kb'}")
    assert add_documents("handbook", "a.md", "b.md", reader=("*",), place=place) is Exit.DONE
    assert "2 passages can also be found by meaning." in capfd.readouterr().out
    assert search_documents("railway", place=place) is Exit.DONE
    said = capfd.readouterr()
    assert "a.md#L1-L3" in said.out
    assert "b.md" not in said.out
    assert search_documents("railway month", place=place) is Exit.DONE
    both = capfd.readouterr().out
    assert ("a.md" in both, "b.md" in both) == (True, True)
    assert search_documents("railway", words=True, place=place) is Exit.DONE
    assert "no document readable by a user without a name matches" in capfd.readouterr().err
    assert [len(one["input"]) for one in asked] == [2, 1, 1]
    assert add_documents("handbook", "a.md", place=place) is Exit.DONE
    assert "0 passages can also be found by meaning." in capfd.readouterr().out
    name_embedder(home, model="long")
    assert add_documents("handbook", "a.md", place=place) is Exit.FAILED
    assert "not all can be found by meaning yet: the embedder long at" in capfd.readouterr().err


def test_a_key_is_sent_from_where_files_say_that_it_is(home, asked, capfd, monkeypatch):
    """Never from the file itself; a server gets the same embedder."""
    place = MemoryPlace(memories=f"sqlite:{home / 'm'}")
    name_embedder(home, api_key='{ env = "MY_KEY" }')
    assert search_memories("trains", place=place) is Exit.USAGE
    err = capfd.readouterr().err
    assert "agentrail.toml:5: embedder.api_key: the variable MY_KEY is not set" in err
    with pytest.raises(OptionError, match="MY_KEY is not set"):
        options_of_host(read_configuration({"HOME": str(home)}).settings)
    monkeypatch.setenv("MY_KEY", "s3cret")
    assert search_memories("trains", place=place) is Exit.DONE
    assert [one["key"] for one in asked] == ["Bearer s3cret"]
    made = options_of_host(read_configuration({"HOME": str(home)}).settings)["embedder"]
    assert (made.dimension, made.name.partition(" ")[0]) == (2, "small")
    assert "s3cret" not in repr(made)
    name_embedder(home, api_key='"sk-abcdefghijklmnopqrstuvwxyz"')
    capfd.readouterr()
    assert search_memories("trains", place=place) is Exit.USAGE
    said = capfd.readouterr()
    assert "embedder.api_key" in said.err
    assert "sk-abcdefghijklmnop" not in said.err + said.out


def test_what_cannot_be_an_embedder_is_said_with_its_line(home, capfd):
    """By `config check` and by each command, before anything is read; a search for words is made all the same."""
    place, needs = MemoryPlace(memories=f"sqlite:{home / 'm'}"), "an embedder needs model and dimension"
    both = {"model": "m", "dimension": 2}
    for values, said in (
        ({"model": "m"}, f"agentrail.toml:2: embedder.model: {needs}: dimension is missing"),
        ({"dimension": 2}, "model is missing"),
        ({**both, "dimension": 0}, "agentrail.toml:3: embedder.dimension: 0: expected a whole number >= 1"),
        ({**both, "base_url": "ftp://x"}, "embedder.base_url: 'ftp://x': expected https://"),
        (
            {**both, "base_url": "http://a:b@x"},
            "agentrail.toml:4: embedder.base_url: provider option 'base_url': an address",
        ),
        ({**both, "dimensions": 2}, "dimension"),
    ):
        (home / ".agentrail" / "agentrail.toml").unlink(missing_ok=True)
        name_embedder(home, **values)
        assert check_files() is Exit.FAILED
        assert said in capfd.readouterr().err
        assert search_memories("x", place=place) is Exit.USAGE
        assert said in capfd.readouterr().err
        assert search_memories("x", words=True, place=place) is Exit.DONE


def test_without_numpy_the_extra_is_named(home, monkeypatch, capfd):
    """And nothing is asked."""
    name_embedder(home, model="m", dimension=2, base_url="http://127.0.0.1:9")
    monkeypatch.setattr(embedders, "has_numpy", lambda: False)
    assert search_memories("x", place=MemoryPlace(memories=f"sqlite:{home / 'm'}")) is Exit.USAGE
    assert install_command("embeddings") in capfd.readouterr().err


def test_a_project_that_is_not_trusted_names_none(home, capfd):
    """What is remembered of a user would be sent to its server."""
    text = '[embedder]\nmodel = "m"\ndimension = 2\nbase_url = "https://evil.example"\n'
    (home / "work" / "agentrail.toml").write_text(f"version = 1\n{text}")
    read = read_configuration({"HOME": str(home)}, cwd=home / "work")
    assert not read.settings.embedder
    assert "embedder.base_url" in " ".join(map(str, read.not_granted))
    assert search_memories("x", place=MemoryPlace(memories=f"sqlite:{home / 'm'}")) is Exit.DONE
    assert "words alone" not in capfd.readouterr().err
