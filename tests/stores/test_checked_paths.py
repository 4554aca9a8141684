"""Paths that no file can have, at each place that takes one."""

import pytest

from agentrail.errors import OptionError
from agentrail.stores.data_directory import expand_home
from agentrail.stores.knowledge_sqlite import SqliteKnowledge
from agentrail.stores.memory_store_names import directory_of_knowledge
from agentrail.stores.notes_files import NoteFiles
from agentrail.stores.sqlite import SqliteStore


def _in_data_dir(path):
    return directory_of_knowledge("sqlite:", path, {})


@pytest.mark.parametrize("path", ["a\0b", "a\ud800", 5, b"a", None, "a\0" * 500_000])
@pytest.mark.parametrize(
    ("take", "name"),
    [
        (SqliteStore, "path"),
        (expand_home, "path"),
        (SqliteKnowledge, "directory"),
        (NoteFiles, "directory"),
        (_in_data_dir, "data_dir"),
    ],
)
def test_a_path_that_no_file_can_have_is_refused_with_its_name(take, name, path):
    """A path that no file can have is refused at the call, with the name of the argument and the value."""
    if take is _in_data_dir and path is None:
        path = 5  # None means "not set" there
    with pytest.raises(OptionError, match=rf"^{name} is .*expected a path") as caught:
        take(path)
    assert len(str(caught.value)) < 300
