"""Files of logins to MCP servers: what cannot be one is no login."""

import json

import pytest

from agentrail.tools.mcp.login_files import MAX_LOGIN_BYTES, Login, LoginFile
from tests.pipes import pipe_at

LOGIN = {"tokens": {"access_token": "t"}, "expires_at": 5.0, "client": {"client_id": "c"}}


@pytest.fixture
def file(tmp_path):
    """The file of a login, which can be read."""
    made = LoginFile(tmp_path, "https://a.example/mcp")
    made.write(Login(**LOGIN))
    assert made.read() == Login(**LOGIN)
    return made


@pytest.mark.parametrize(
    "changed",
    [
        {"tokens": None},
        {"tokens": ["t"]},
        {"expires_at": "soon"},
        {"expires_at": []},
        {"client": "c"},
        {"authorization_server": [1]},
        {"wanted_scope": 5},
    ],
)
def test_a_value_of_another_type_makes_it_damaged(file, changed):
    """A login of such values was used, and each connection to its server ended in an error of ours."""
    file.path.write_text(json.dumps(LOGIN | changed))
    assert file.read() is None


@pytest.mark.parametrize("text", ["", "[]", "null", "{}", "[" * 100_000, json.dumps(LOGIN)[:-9]])
def test_a_text_that_is_no_login_is_none(file, text):
    """Cut, empty, or deeper than Python's recursion."""
    file.path.write_text(text)
    assert file.read() is None


def test_a_pipe_in_its_place_is_not_waited_for(tmp_path):
    """Opened, it would wait for its writer."""
    file = LoginFile(tmp_path, "https://a.example/mcp")
    with pipe_at(file.path, json.dumps(LOGIN).encode()):
        assert file.read() is None


def test_a_login_that_could_not_be_read_again_is_not_written(file):
    """It replaced the earlier one, and was read as none: the user had to log in after each restart."""
    with pytest.raises(OSError, match="has more than 1 MiB"):
        file.write(Login(tokens={"access_token": "t" * MAX_LOGIN_BYTES}))
    assert file.read() == Login(**LOGIN)
