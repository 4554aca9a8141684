"""What several files say together."""

import pytest
from hypothesis import given, strategies as st

from agentrail.config.config_file import ConfigFile, read_agent, read_toml
from agentrail.config.settings import (
    NO_SETTINGS,
    PolicySettings,
    Settings,
    faults_of_agent_names,
    join_files,
    merge_settings,
    read_servers,
)
from agentrail.errors import OptionError


def project(text: str) -> ConfigFile:
    return read_toml("agentrail.toml", text, folder="/p")


def user(text: str) -> ConfigFile:
    return read_toml("~/.agentrail/agentrail.toml", text, scope="user", folder="/h")


def joined(*files: ConfigFile) -> Settings:
    """What the project's and the user's files say together, without faults."""
    first, faults = join_files([one for one in files if one.scope == "project"])
    second, more = join_files([one for one in files if one.scope == "user"])
    assert (*faults, *more) == ()
    return merge_settings(first, second)


def test_two_agents_of_one_name_are_a_fault():
    """In two files of one scope; both places are named."""
    _, faults = join_files([project("\n[agents.a]\n"), read_agent("a.md", "a", "---\ndescription: x\n---\n")])
    assert [str(one) for one in faults] == [
        "a.md:1: agents.a: an agent with this name exists in agentrail.toml:2: choose another name"
    ]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            'default_agent = "codr"\n[agents.coder]\n',
            "agentrail.toml:1: default_agent: there is no agent 'codr': did you mean 'coder'?",
        ),
        (
            'default_agent = "x"\n',
            "agentrail.toml:1: default_agent: there is no agent 'x': no configuration file describes one, add [agents.NAME] to agentrail.toml",
        ),
        ('[agents.a]\nagents = ["a"]\n', "agentrail.toml:2: agents.a.agents[0]: agent 'a' names itself"),
        (
            '[agents.a]\nagents = [\n"zzz"]\n',
            "agentrail.toml:3: agents.a.agents[0]: agent 'a': there is no agent 'zzz': expected one of: a",
        ),
        (
            '[agents.x]\nagents = ["a"]\n[agents.a]\nagents = ["b"]\n[agents.b]\nagents = ["c"]\n[agents.c]\nagents = ["a"]\n',
            "agentrail.toml:3: agents.a: the agents name each other in a circle, a → b → c → a",
        ),
    ],
)
def test_names_of_agents_are_looked_at(text, said):
    """An unknown one, the agent's own, and circles: each with its agent."""
    found = [str(one) for one in faults_of_agent_names(joined(project(text)))]
    assert len(found) == 1
    assert found[0].startswith(said)


def test_of_many_unknown_agents_the_first_have_a_guess():
    """Each guess reads all names: a file of nothing else would take minutes."""
    text = "".join(f'[agents.agent{at}]\nagents = ["agenx{at}"]\n' for at in range(40))
    found = [one.said for one in faults_of_agent_names(joined(project(text)))]
    assert len(found) == 40
    assert [one for one in found if "did you mean" in one] == found[:20]
    assert found[39] == "agent 'agent39': there is no agent 'agenx39'"


@given(
    st.dictionaries(st.sampled_from("abcdef"), st.lists(st.sampled_from("abcdef"), max_size=3, unique=True))
)
def test_circles_are_found_where_there_are_any(below):
    """A circle is said exactly where some agent can be reached from itself."""
    lines = [f"[agents.{name}]\nagents = [{', '.join(map(repr, names))}]" for name, names in below.items()]
    settings = joined(project("\n".join(lines)))
    found = [one for one in faults_of_agent_names(settings) if "circle" in one.said]
    known = {name: {one for one in names if one in below and one != name} for name, names in below.items()}
    reached = {name: set(names) for name, names in known.items()}
    for _ in below:
        reached = {
            name: names | {far for one in names for far in reached[one]} for name, names in reached.items()
        }
    assert bool(found) is any(name in names for name, names in reached.items())


def test_servers_are_read_with_the_lines_of_their_faults():
    """An agent would else run without the tools that its author believes it has. The nearer file wins as a whole."""
    written = (
        '[mcp.a]\nurl = "https://a.example"\ncomand = ["x"]\n[mcp.b]\ncommand = "x"\n[mcp.d]\nurl = "https://near.example"\n'
        '[agents.b]\nmcp = ["c", "d", "cc"]\n'
    )
    far = '[mcp.c]\ncommand = ["c"]\n[mcp.d]\ncommand = ["d"]\n'
    settings, faults = read_servers(joined(project(written), user(far)))
    assert list(map(str, faults)) == [
        "agentrail.toml:3: mcp.a.comand: unknown key, did you mean 'command'",
        "agentrail.toml:5: mcp.b.command: expected a list, got the text 'x'",
        "agentrail.toml:9: agents.b.mcp[2]: agent 'b': there is no MCP server 'cc': did you mean 'c'?",
    ]
    assert {name: (one.value.url, one.scope) for name, one in settings.mcp.items()} == {
        "c": (None, "user"),
        "d": ("https://near.example", "project"),
    }
    assert read_servers(NO_SETTINGS) == (NO_SETTINGS, ())


def test_files_with_servers_are_named_below_the_directory():
    """`mcp.import` is no server; each path that leads elsewhere, or is none, is a fault."""
    read = project('[mcp]\nimport = [".mcp.json", "../x.json", 7]\n[mcp.a]\ncommand = ["a"]\n')
    said = 'mcp.import: expected files below the directory, such as [".mcp.json"], got'
    assert [str(one) for one in read.faults] == [
        f"agentrail.toml:2: {said} the text '../x.json'",
        f"agentrail.toml:2: {said} 7",
    ]
    settings, _ = join_files([read])
    assert list(settings.mcp) == ["a"]
    assert settings.imports["mcp"].plain == (".mcp.json",)
    table = project('[mcp.import]\ncommand = ["a"]\n')
    assert [str(one) for one in table.faults] == [f"agentrail.toml:1: {said} a table"]
    assert join_files([table])[0].imports == {}


def test_what_files_say_of_a_host_is_joined_value_by_value():
    """Each limit for itself; a list takes the place of another one."""
    settings = joined(
        project('[host]\nport = 1\nprofiles = ["a"]\n[host.limits]\nmax_streams = 5\n'),
        user(
            '[host]\nport = 2\nconsole = false\nprofiles = ["b"]\nlimits = { max_streams = 9, calls_burst = 3 }\n'
        ),
    )
    assert {name: (one.plain, str(one.place)) for name, one in settings.host.items()} == {
        "port": (1, "agentrail.toml:2"),
        "profiles": (("a",), "agentrail.toml:3"),
        "limits.max_streams": (5, "agentrail.toml:5"),
        "console": (False, "~/.agentrail/agentrail.toml:3"),
        "limits.calls_burst": (3, "~/.agentrail/agentrail.toml:5"),
    }


def test_rules_that_are_not_a_sequence_are_named():
    """By the constructor."""
    with pytest.raises(OptionError, match=r"deny is 5: expected a sequence, each Sourced"):
        PolicySettings(deny=5)
