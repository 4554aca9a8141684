"""Files of a directory: which hold, who trusts them, what they build."""

import os
import re
import sys

import pytest
import trio

import agentrail
from agentrail import Budget, OptionError
from agentrail.abc.held_secrets import keys_in
from agentrail.blueprints import Blueprint
from agentrail.blueprints.builder import build_blueprint, faults_of_building, provider_options
from agentrail.blueprints.command_files import read_commands
from agentrail.blueprints.config_discovery import MAX_AGENT_FILES, find_files, find_imported, read_bytes
from agentrail.blueprints.configuration import read_configuration
from agentrail.blueprints.trust_store import digests_of, read_trust, write_trust
from agentrail.config.config_file import MAX_CONFIG_BYTES
from agentrail.core.session.state_codec import encode_session
from agentrail.plugins import HumanApproval, SecurityGuard
from agentrail.providers.http_provider import current_key
from agentrail.providers.options import ProviderOptions
from agentrail.testing.models import ScriptedModel, calls, says
from agentrail.tools import builtin


@pytest.fixture
def home(tmp_path):
    """A home directory, with a project two levels below it."""
    (tmp_path / "home" / "proj" / "deep").mkdir(parents=True)
    return tmp_path / "home"


def write(path, text):
    """Write a file, with the directories above it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def read(home, cwd=None, **given):
    environ = {"HOME": str(home), **given.pop("environ", {})}
    return read_configuration(environ, cwd=cwd or home / "proj", **given)


def names(found):
    return [one.name for one in (*found.project, *found.user)]


# --- finding


def test_files_are_looked_for_upwards(home):
    """Up to the home directory or a `.git`; the user's own stand behind them."""
    deep = home / "proj" / "deep"
    environ = {"HOME": str(home)}
    assert find_files(None, environ, deep).directory is None
    write(home.parent / "agentrail.toml", "")
    assert find_files(None, environ, deep).directory is None
    write(home / "agentrail.toml", "")
    assert find_files(None, environ, deep).directory == home
    (home / "proj" / ".git").mkdir()
    assert find_files(None, environ, deep).directory is None
    write(home / "proj" / "agentrail.toml", "")
    write(home / "proj" / ".agentrail" / "agents" / "b.md", "")
    write(home / "proj" / ".agentrail" / "agents" / "a.md", "")
    write(home / "proj" / ".agentrail" / "agents" / "a.txt", "")
    write(home / ".agentrail" / "agentrail.toml", "")
    write(home / ".agentrail" / "agents" / "c.md", "")
    found = find_files(None, environ, deep)
    agents = "~/proj/.agentrail/agents"
    assert names(found) == [
        "~/proj/agentrail.toml",
        f"{agents}/a.md",
        f"{agents}/b.md",
        "~/.agentrail/agentrail.toml",
        "~/.agentrail/agents/c.md",
    ]
    assert names(find_files(None, {}, home / "proj"))[0] == "agentrail.toml"


def test_a_directory_of_agents_alone_is_a_project_too(home):
    """But that of the home directory is the user's own."""
    write(home / ".agentrail" / "agents" / "c.md", "")
    assert find_files(None, {"HOME": str(home)}, home / "proj").project == ()
    write(home / "agentrail.toml", "")
    assert names(find_files(None, {"HOME": str(home)}, home)) == ["agentrail.toml", ".agentrail/agents/c.md"]
    write(home / "proj" / ".agentrail" / "agents" / "d.md", "")
    assert find_files(None, {"HOME": str(home)}, home / "proj" / "deep").directory == home / "proj"


def test_a_file_that_is_named_comes_first(home):
    """By the flag, then by the variable; one that is not there is said."""
    flag, variable = write(home / "x" / "f.toml", ""), write(home / "y" / "v.toml", "")
    write(home / "proj" / "agentrail.toml", "")
    environ = {"HOME": str(home), "AGENTRAIL_CONFIG": "~/y/v.toml"}
    assert find_files(flag, environ, home).project[0].path == flag.resolve()
    assert find_files(None, {**environ, "AGENTRAIL_CONFIG": str(variable)}, home).why == "AGENTRAIL_CONFIG"
    (home / "proj" / "deep" / "agentrail.toml").mkdir()
    for wrong, variables, place, said in (
        (home / "no.toml", environ, home, "there is no such file"),
        (None, {"AGENTRAIL_CONFIG": str(home)}, home, "Is a directory"),
        (None, {"HOME": str(home)}, home / "proj" / "deep", "agentrail.toml cannot be read: Is a directory"),
        (None, {"HOME": f"/{'x' * 300}"}, home, "cannot be read: File name too long"),
    ):
        with pytest.raises(OptionError, match=said):
            find_files(wrong, variables, place)


def test_hidden_files_of_editors_are_neither_agents_nor_commands(home):
    """A lock of Emacs is a link to nowhere, and macOS keeps `._` files: neither stops a command while a user edits."""
    project = home / "proj"
    for folder in (".agentrail/agents", ".agentrail/commands", ".claude/agents"):
        write(project / folder / "a.md", "---\ndescription: A\n---\nBe A.\n")
        (project / folder / ".#a.md").symlink_to("user@host.1")
        (project / folder / "._a.md").write_bytes(b"\0\5\x16\7\xff")
    found = find_files(None, {"HOME": str(home)}, project)
    assert [one.key for one in found.project] == [".agentrail/agents/a.md"]
    imported = find_imported(project, {"agents": ["claude"]}, scope="project", cwd=project, home=home)
    assert [one.key for one in imported] == [".claude/agents/a.md"]
    commands = read_commands({"HOME": str(home)}, cwd=project)
    assert "a" in {one.name for one in commands.commands}
    assert commands.left_out == ()


def test_what_is_no_ordinary_file_is_not_read(home):
    """A pipe would never end, a link may lead anywhere, a long file is read no further than needed, and a crowd not at all."""
    os.mkfifo(home / "pipe")
    with pytest.raises(OptionError, match="is not a regular file"):
        read_bytes(home / "pipe")
    (home / "link").symlink_to(write(home / "f", "x" * 50))
    assert read_bytes(home / "link") == b"x" * 50
    with pytest.raises(OptionError, match="it is a symbolic link"):
        read_bytes(home / "link", follow=False)
    assert len(read_bytes(home / "f", most=10)) in range(11, 51)
    with pytest.raises(OptionError, match="cannot be read: No such file"):
        read_bytes(home / "none")
    with pytest.raises(OptionError, match=r"a\\x00b' cannot be read: write a path without NUL"):
        read_bytes(home / "a\0b")
    for number in range(MAX_AGENT_FILES + 1):
        write(home / "proj" / ".agentrail" / "agents" / f"{number}.md", "")
    with pytest.raises(OptionError, match="expected at most 1000"):
        find_files(None, {}, home / "proj")


def test_a_path_that_is_none_is_left_out(home):
    """Files of a project that nobody trusts stop no command, whatever they name."""
    write(home / "proj" / "agentrail.toml", '[mcp]\nimport = ["a\\u0000b"]\n')
    found = read(home)
    assert found.faults == ()
    assert "a?b:1: the file is left out: " in str(found.notes[0])


def test_faults_of_all_files_are_said_together(home):
    """Of bytes, syntax, types and names."""
    write(home / "proj" / "agentrail.toml", 'default_agent = "x"\n[agents.a]\nmax_turn = 1\n')
    write(home / "proj" / ".agentrail" / "agents" / "b.md", "no head")
    (home / "proj" / ".agentrail" / "agents" / "c.md").write_bytes(b"\xff")
    write(home / ".agentrail" / "agentrail.toml", "a = \n")
    found = read(home)
    assert [str(fault).split(": ")[0] for fault in found.faults] == [
        *("agentrail.toml:3", ".agentrail/agents/b.md:1", ".agentrail/agents/c.md:1"),
        *("~/.agentrail/agentrail.toml:1", "agentrail.toml:1"),
    ]
    with pytest.raises(OptionError, match="unknown key"):
        found.check()


def test_faults_of_an_agent_of_markdown_have_their_lines(home):
    """12.11: rules that cannot be read, and a plugin that there is not: all at once, when its leader is built."""
    folder = home / "proj" / ".agentrail" / "agents"
    write(folder / "lead.md", "---\ndescription: Leads.\nagents: [scout]\n---\nYou lead.\n")
    write(
        folder / "scout.md",
        '---\ndescription: Looks.\nplugins: [OutputFilters]\npermissions:\n  deny: ["shell("]\n---\nYou look.\n',
    )
    with pytest.raises(OptionError) as refused:
        build_blueprint(read(home, trust_project=True).check().settings, "lead")
    said = "\n".join(refused.value.faults)
    assert "scout.md:5: agents.scout.permissions.deny[0]" in said
    assert "did you mean 'OutputFilter'" in said


# --- trust


def test_trust_covers_the_code_that_files_name(home):
    """A named module, and what it imports from beside it: one that changes or comes ends the trust, and no other file does."""
    environ, place = {"HOME": str(home)}, home / "proj"
    write(
        place / "agentrail.toml",
        '[defaults]\ntools = ["trust_tools:mine"]\nplugins = [{ use = "trust_kit.guard:G" }]\n',
    )
    tools = write(place / "trust_tools.py", "try:\n    import trust_helper\nexcept ImportError: pass\n")
    write(place / "trust_kit" / "guard.py", "from . import part\n")
    part = write(place / "trust_kit" / "part.py", "")
    files = read_configuration(environ, cwd=place, to_trust=True).files
    assert {*digests_of(files)} == {
        "agentrail.toml",
        "trust_tools.py",
        "trust_kit/guard.py",
        "trust_kit/part.py",
    }
    write_trust(read_trust(environ).with_directory(str(place.resolve()), digests_of(files)), environ)
    assert read(home).trusted
    write(place / "other.py", "")
    assert read(home).trusted
    for path in (tools, part):
        was = path.read_text()
        path.write_text(f"{was}# changed\n")
        assert not read(home).trusted
        path.write_text(was)
        assert read(home).trusted
    write(place / "trust_helper.py", "raise SystemExit\n")
    assert not read(home).trusted
    assert read(home).settings.defaults["tools"].plain == ()


def test_a_notice_is_one_line_however_much_is_asked_for(home):
    """Eight are named, and how many more there are."""
    write(home / "proj" / "agentrail.toml", f"[permissions]\nallow = {[f'x{n}' for n in range(50)]}\n")
    notice = read(home).notice
    assert notice is not None
    assert (notice.count("allow x"), notice.endswith(" and 42 more"), "\n" in notice) == (8, True, False)
    write(home / "proj" / "agentrail.toml", "")
    assert (read(home).notice or "").endswith("and do only that")
    (home / "proj" / "agentrail.toml").unlink()
    assert read(home).notice is None


def test_a_list_of_trust_that_cannot_be_had_is_said(home):
    """Damaged, no text, or no home to keep it in."""
    write(home / "proj" / "agentrail.toml", "")
    for data in (b"{", b"\xff"):
        (home / ".agentrail").mkdir(exist_ok=True)
        (home / ".agentrail" / "trust.json").write_bytes(data)
        with pytest.raises(OptionError, match="is not a list of trusted directories"):
            read(home)
    with pytest.raises(OptionError, match="HOME is not set"):
        write_trust(read_trust({}), {})
    (home / "file").touch()
    with pytest.raises(OptionError, match="cannot be written"):
        write_trust(read_trust({}), {"HOME": str(home / "file")})


# --- building

TOML = """\
[defaults]
max_retries = 1
[agents.scout]
description = "Looks."
model = "demo:"
prompt = "You look."
tools = ["read_file", "tests.blueprints.made_for_tests:look_up"]
plugins = ["SecurityGuard", { use = "HumanApproval", options = { require_approval_for = ["shell"] } }]
fallback_models = ["demo:fast"]
max_turns = 5
max_retries = 0
max_output_tokens = 100
budget = { max_total_tokens = 50_000 }
"""
MARKDOWN = """\
---
description: Looks.
model: demo:
tools: [read_file, "tests.blueprints.made_for_tests:look_up"]
fallback_models:
- demo:fast
max_turns: 5
max_retries: 0
max_output_tokens: 100
budget:
  max_total_tokens: 50000
---

You look.
"""


def in_python():
    from tests.blueprints.made_for_tests import look_up  # noqa: PLC0415 - as a file would

    return Blueprint(
        "scout",
        description="Looks.",
        model="demo:",
        system_prompt="You look.",
        tools=[*builtin("read_file"), look_up],
        plugins=[SecurityGuard, (HumanApproval, {"require_approval_for": ["shell"]})],
        fallback_models=["demo:fast"],
        max_turns=5,
        max_retries=0,
        budget=Budget(max_total_tokens=50_000),
        max_output_tokens=100,
    )


async def states_of(blueprint):
    """The states of a session that calls a tool and answers, as text: after the start, and after the cycle."""
    model = ScriptedModel([calls(("look_up", {"what": "x"})), says("X.")])
    async with agentrail.open_supervisor() as supervisor:
        session = await supervisor.start_session(
            blueprint, model=model, session_id="same", fallback_models=()
        )
        cell = supervisor._find_cell("", "same")  # noqa: SLF001 - to see what no reader sees
        before = encode_session(cell.state)
        with trio.fail_after(60):
            assert (
                await session.ask(
                    "What is x?",
                )
                == "X."
            )
        return [without_times(one) for one in (before, encode_session(cell.state))]


def without_times(encoded):
    """What a clock and the minting of ids have given is taken out; all else is compared."""
    return re.sub(r'("[a-z_]*_ms":|"at":)\d+|"ref":"[^"]*"', r"\g<1>", encoded.decode())


@pytest.mark.blueprint("G-001")
async def test_the_same_content_starts_equal_sessions(home):
    """G-001: from TOML, from Markdown and from Python; equal values, and states that are equal step by step."""
    write(home / "proj" / "agentrail.toml", TOML)
    from_toml = build_blueprint(read(home, trust_project=True).settings, "scout")
    write(
        home / "proj" / "agentrail.toml",
        "[defaults]\nmax_retries = 1\nplugins = ['SecurityGuard', "
        "{ use = 'HumanApproval', options = { require_approval_for = ['shell'] } }]\n",
    )
    write(home / "proj" / ".agentrail" / "agents" / "scout.md", MARKDOWN)
    from_markdown = build_blueprint(read(home, trust_project=True).settings, "scout")
    assert from_toml == from_markdown == in_python()
    first, second, third = [await states_of(one) for one in (from_toml, from_markdown, in_python())]
    assert first == second == third
    assert "You look." in first[0]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('[agents.a]\ntools = [\n"raed_file"]', "agentrail.toml:3: agents.a.tools[0]: no built-in tool is named 'raed_file': did you mean 'read_file'?"),
        ('[agents.a]\ntools = ["no.such:x"]', "agentrail.toml:2: agents.a.tools[0]: the tool cannot be used: there is no module 'no.such'"),
        ('[agents.a]\ntools = ["tests.blueprints.made_for_tests:look_upp"]', "has no 'look_upp', did you mean 'look_up'"),
        ('[agents.a]\ntools = ["tests.blueprints.made_for_tests:not_a_tool"]', "is not a tool: it has no name"),
        ('[agents.a]\ntools = [":x"]', "':x' is not package.module:NAME"),
        ('[agents.a]\nplugins = ["SecurtyGuard"]', "no built-in plugin is named 'SecurtyGuard': did you mean 'SecurityGuard'"),
        ('[agents.a]\nplugins = ["tests.blueprints.made_for_tests:not_a_tool"]', "agents.a.plugins[0]: "),
        ('[agents.a]\nplugins = [{ use = "HumanApproval", options = { x = 1 } }]', "agents.a.plugins[0]: plugin 'HumanApproval': init"),
        ('[agents.a]\ncapabilities = ["shel"]', "no built-in capability is named 'shel': did you mean 'shell'?"),
        ('[agents.a]\nmodel = "anthropc:x"', "agentrail.toml:2: agents.a.model: there is no provider 'anthropc'"),
        ('[agents.a]\nfallback_models = [\n"demo"]', "agentrail.toml:3: agents.a.fallback_models[0]: 'demo' is not a model string"),
        ("[agents.a]\nmax_turns = 0", "agentrail.toml:2: agents.a.max_turns: max_turns is 0: expected a whole number >= 1"),
        ("[agents.a]\nbudget = {}", "agentrail.toml:2: agents.a.budget: budget limits nothing"),
        ("[agents.a]\nbudget = { max_cost_usd = -1 }", "agentrail.toml:2: agents.a.budget: budget.max_cost_usd is -1"),
        ('[agents.a]\nprompt = { file = "no.md" }', "agentrail.toml:2: agents.a.prompt: "),
        ('[agents.a]\nprompt = { file = "a\\u0000b" }', "cannot be read: write a path without NUL"),
        ('[agents.a]\nprompt = { file = "bad.md" }', "is not UTF-8"),
        ('[agents.a]\nprompt = { file = "long.md" }', "is too large"),
        ('[agents.a]\nagents = ["b"]\n[agents.b]\ndescription = "x"\nmax_retries = 1', "agents.a: agent 'b': max_retries cannot be set here"),
        ('[agents.a]\nagents = ["b"]\n[agents.b]\ndescription = "b"\nagents = ["c"]\n[agents.c]\ndescription = "c"', "agent 'b' works for 'a', but has agents of its own"),
        ('[agents.a]\nagents = ["b"]\n[agents.b]', "agents.a: agent 'b': description is empty"),
        ("[providers.opnai]\ntimeout = 1", "agentrail.toml:2: providers.opnai.timeout: there is no provider 'opnai': did you mean 'openai'"),
        ('[providers.openai]\nbase_url = "x"', "agentrail.toml:2: providers.openai.base_url: provider option 'base_url'"),
        ('[defaults]\nsandbox = "moon"', "agentrail.toml:2: defaults.sandbox: sandbox is 'moon'"),
    ],
)  # fmt: skip
def test_what_cannot_be_built_is_said_with_its_line(home, text, said):
    """Names, code, values, files: by who says them."""
    (home / "proj" / "bad.md").write_bytes(b"\xff")
    (home / "proj" / "long.md").write_bytes(b"x" * (MAX_CONFIG_BYTES + 1))
    write(home / "proj" / "agentrail.toml", text)
    found = read(home, trust_project=True)
    assert found.faults == ()
    faults = [str(one) for one in faults_of_building(found.settings)]
    assert len(faults) == 1, faults
    assert said in faults[0]
    if "agents.a" in text:
        with pytest.raises(OptionError) as caught:
            build_blueprint(found.settings, "a")
        assert list(caught.value.faults) == faults


def test_a_module_beside_the_file_is_found(home, monkeypatch):
    """Once, however many agents name it; one that fails to import says so, also when it leaves the interpreter."""
    monkeypatch.setattr(sys, "path", [*sys.path])
    write(
        home / "proj" / "beside_the_file.py",
        "from agentrail.tools import builtin\nmine = builtin('glob')[0]\n",
    )
    write(home / "proj" / "leaves_at_once.py", "raise SystemExit(3)\n")
    write(
        home / "proj" / "agentrail.toml",
        '[agents.a]\ntools = ["beside_the_file:mine"]\n[agents.bad]\ntools = ["leaves_at_once:x"]\n',
    )
    write(home / "proj" / ".agentrail" / "agents" / "c.md", "---\ntools: beside_the_file:mine\n---\n")
    settings = read(home, trust_project=True).settings
    for name in ("a", "c"):
        assert [one.name for one in build_blueprint(settings, name).options()["tools"]] == ["glob"]
    with pytest.raises(OptionError, match=r"module 'leaves_at_once' cannot be imported: .*SystemExit"):
        build_blueprint(settings, "bad")
    with pytest.raises(OptionError, match="there is no agent 'bat': did you mean 'bad'"):
        build_blueprint(settings, "bat")


async def test_a_key_in_a_file_is_read_again_for_each_request(home):
    """It is renewed while a server runs; while it is missing or empty, the last key stays. No record may have either."""
    file = home / "proj" / "key.txt"
    write(file, "first\n")
    write(home / "proj" / "agentrail.toml", '[providers.openai]\napi_key = { file = "key.txt" }\n')
    settings = read(home, trust_project=True).settings
    options = provider_options(settings, "openai:x", {})
    known = ProviderOptions.parse(options)
    for content, key in (("first", "first"), ("second\n", "second"), ("", "second"), (None, "second")):
        file.unlink() if content is None else file.write_text(content)
        assert await current_key(known, missing="there is none") == key
        assert [secret.reveal() for secret in keys_in(options)] == [key]
    write(file, "a\u0001b")
    with pytest.raises(
        OptionError, match=r"agentrail.toml:2: providers.openai.api_key: .*no header can carry"
    ):
        provider_options(settings, "openai:x", {})


def test_secrets_are_looked_up_where_they_are_needed(home):
    """In the environment or a file, for the provider of the model alone; a variable of the provider's own wins."""
    write(home / "proj" / "key.txt", "  from-a-file\n")
    write(home / "proj" / "empty.txt", "\n")
    write(
        home / "proj" / "agentrail.toml",
        '[providers.openai]\napi_key = { env = "MY_KEY" }\nbase_url = "http://h/v1"\n'
        'headers = { plain = "p", x-token = { file = "key.txt" } }\n[providers.anthropic]\napi_key = { file = "empty.txt" }\n',
    )
    settings = read(home, trust_project=True).settings
    options = provider_options(settings, "openai:x", {"MY_KEY": "k"})
    assert options["api_key"].reveal() == "k"
    assert (options["base_url"], options["headers"]) == (
        "http://h/v1",
        {"plain": "p", "x-token": "from-a-file"},
    )
    won = provider_options(settings, "openai:x", {"OPENAI_API_KEY": "e", "OPENAI_BASE_URL": "u"})
    assert set(won) == {"headers"}
    assert provider_options(settings, "demo:", {}) == {}
    with pytest.raises(
        OptionError, match=r"^agentrail.toml:2: providers.openai.api_key: the variable MY_KEY is not set"
    ):
        provider_options(settings, "openai:x", {})
    with pytest.raises(OptionError, match=r"empty.txt is empty: write the secret"):
        provider_options(settings, "anthropic:x", {})
