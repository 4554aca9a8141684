"""What files say of memory: read, joined, narrowed, and made into the plugins of the agents that have the capability."""

import pytest

from agentrail.blueprints.builder import build_blueprint
from agentrail.blueprints.configuration import read_configuration
from agentrail.plugins import AutoRecall, WorkingNotes

AGENTS = """
[agents.helper]
capabilities = ["memory"]

[agents.other]
tools = ["read_file"]
"""


def read(home, project, user, **given):
    """What holds in the project of a home directory."""
    for folder, text in (("proj", project), (".agentrail", user)):
        (home / folder).mkdir()
        (home / folder / "agentrail.toml").write_text(text)
    return read_configuration({"HOME": str(home)}, cwd=home / "proj", **given)


@pytest.mark.parametrize(
    ("user", "project", "is_trusted", "wanted"),
    [
        ("", "", False, False),
        ("[memory]\nauto = true", "", False, True),
        ("[memory]\nauto = true", "[memory]\nauto = false", False, False),
        ("", "[memory]\nauto = true", True, True),
        ("", "[memory]\nauto = true", False, False),
    ],
)
def test_memory_auto_is_of_who_may_say_it(tmp_path, user, project, is_trusted, wanted):
    """The nearer file counts, and an untrusted project may only switch it off: memories of a user are not its business (12.7)."""
    held = read(tmp_path, project, AGENTS + user, trust_project=is_trusted).check()
    plugins = build_blueprint(held.settings, "helper").options()["plugins"]
    assert (AutoRecall in plugins) == wanted
    assert WorkingNotes in plugins
    assert "plugins" not in build_blueprint(held.settings, "other").options()
    refused = [str(one) for one in held.not_granted]
    assert refused == (
        ["memory.auto = True (agentrail.toml:2)"] if "true" in project and not is_trusted else []
    )
