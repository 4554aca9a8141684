"""Sessions of agents of files: what passes the check starts, and comes back in another process with its tools, guards and agents, from any directory."""

import json
import os
import tempfile
from pathlib import Path

import pytest
import trio
from hypothesis import given, strategies as st

from agentrail.abc import name_of
from agentrail.app import ChosenModel
from agentrail.blueprints.blueprint import Blueprint
from agentrail.blueprints.builder import faults_of_building
from agentrail.cli.config_setup import ConfigFiles, read_setup
from agentrail.cli.default_stores import decide_place
from agentrail.cli.resume_command import come_back
from agentrail.cli.resume_option import LATEST
from agentrail.cli.run_options import Choices
from agentrail.cli.run_setup import decide_session, with_origin
from agentrail.cli.session_code import code_of, find_resumable, setup_of
from agentrail.cli.shared_stores import open_equipped, shared_stores
from agentrail.cli.storage_options import KeepingOptions
from agentrail.events import ApprovalRequired
from agentrail.runtime.session_rows import names_for_commands
from agentrail.stores.store_names import open_store
from agentrail.tools import builtin_names
from tests.cli.rig import run_agentrail, run_line

TRUSTED = ConfigFiles(trust_project=True)

_BUNDLES = st.lists(
    st.sampled_from(("files", "shell", "todos", "agents", "ask", "memory", "kb", "web")), unique=True
)
_MODES = st.sampled_from(("default", "plan", "strict", "accept_edits"))
_GUARD = '{ use = "SecurityGuard", options = { blocked_commands = ["halt"] } }'
_PLUGINS = ("Planning", "AutoRecall", "Permissions", "SkillListing", "SkillGuard", "SecurityGuard")
_PROMPTS = (None, "You look.", "You look for ${who}.")


def table(name, **said):
    """A table of a file; what is None is left out, and a table in it is written in a line."""
    rows = [f"{key} = {written(value)}" for key, value in said.items() if value is not None]
    return "\n".join((f"[{name}]", *rows, ""))


def written(value):
    if isinstance(value, dict):
        return f"{{ {', '.join(f'{key} = {written(one)}' for key, one in value.items())} }}"
    return json.dumps(value)


def switch():
    return st.sampled_from((None, True))


@st.composite
def agents(draw, name, below=None):
    plugins = [f'"{one}"' for one in draw(st.lists(st.sampled_from(_PLUGINS), unique=True, max_size=3))]
    if below and '"SecurityGuard"' not in plugins and draw(st.booleans()):
        plugins.append(_GUARD)
    prompt, skills = draw(st.sampled_from(_PROMPTS)), draw(st.none() | st.just(["write-a-skill"]))
    replace = draw(st.none() | st.just({"skills": "Some."})) if skills else None
    text = table(
        f"agents.{name}",
        description="Looks.",
        base=draw(st.sampled_from((None, "coding"))),
        capabilities=draw(_BUNDLES),
        tools=draw(st.none() | st.lists(st.sampled_from(builtin_names()), unique=True, max_size=4)),
        agents=below,
        prompt={key: one for key, one in (("text", prompt), ("replace", replace)) if one}
        if prompt or replace
        else None,
        skills=skills,
        skills_in_prompt=draw(st.none() | st.just(["write-agents-md"])),
        # An agent that says none has that of its leader.
        user_data={"prompt": {"who": "Ada"}} if below or draw(st.booleans()) else None,
        max_turns=draw(st.none() | st.just(7)),
        budget=draw(st.none() | st.just({"max_cost_usd": 1.0})),
        response_format=None if below else draw(st.none() | st.just({"type": "object"})),
        background=None if below else draw(switch()),
        wake=None if below else draw(switch()),
        handoff=None if below else draw(switch()),
    )
    text += f"plugins = [{', '.join(plugins)}]\n" if plugins else ""
    if draw(st.booleans()):
        text += table(f"agents.{name}.permissions", deny=["shell(rm *)"], mode=draw(st.none() | _MODES))
    return text


@st.composite
def files(draw):
    """A file with an agent that leads, and one that works for it."""
    text = "version = 1\n" + draw(agents("lead", below=["scout"])) + draw(agents("scout"))
    if draw(st.booleans()):
        shared = st.lists(st.sampled_from(('"SecurityGuard"', '"Planning"', '"Permissions"')), unique=True)
        text += f"[defaults]\nplugins = [{', '.join(draw(shared))}]\n"
    if draw(st.booleans()):
        text += table("permissions", mode=draw(st.none() | _MODES), ask=["shell(git push *)"])
    return text + (table("memory", auto=True) if draw(st.booleans()) else "")


@given(text=files(), is_trusted=st.sampled_from((True, True, False)))
def test_what_passes_the_check_starts_and_comes_back(text, is_trusted):
    """Whatever an agent, the one that works for it, and permissions say: two of one guard are one, and no process asks for code that files have."""
    counting = TRUSTED if is_trusted else ConfigFiles()
    with tempfile.TemporaryDirectory() as directory:
        place = Path(directory)
        (place / ".git").mkdir()
        (place / "agentrail.toml").write_text(text)
        setup = read_setup(counting, "lead", place)
        assert setup is not None
        assert not faults_of_building(setup.configuration.settings, skills=setup.configuration.read_skills)
        trio.run(started_and_resumed, begun(Choices(cwd=place), setup), setup, counting, place)


def begun(choices, setup=None):
    """The options of a session, as commands make them."""
    chosen = ChosenModel(model="demo:fast", why="it is asked for")
    return with_origin(decide_session(choices, chosen, setup), choices, setup)


async def started_and_resumed(options, setup, counting, place):
    """Start it with one supervisor, and bring it back with another one that knows its store alone."""
    keeping = KeepingOptions(data_dir=place)
    store = open_store("sqlite:", place)
    try:
        async with open_equipped(keeping, setup, store=store) as supervisor:
            session = await supervisor.start_session(options)
            began = await session.status()
            tools = names_for_commands(session)[0]
            await ask_and_approve(session, "hello")
        found = await find_resumable(store, LATEST, counting)
        assert found.setup is not None
        assert found.setup.agent == "lead"
        async with open_equipped(keeping, found.setup, store=store) as supervisor:
            back = (await come_back(supervisor, store, found)).session
            status = await back.status()
            assert names_for_commands(back)[0] == tools
            was, now = ([(one.name, one.options) for one in each.plugins] for each in (began, status))
            assert now == was
            await ask_and_approve(back, "hello again")
    finally:
        store.close()


async def ask_and_approve(session, prompt):
    """Ask, and approve each call for which the drawn permissions ask."""
    async with session.stream(prompt) as events:
        async for event in events:
            if isinstance(event, ApprovalRequired):
                await session.approve(event.approval.id)


# --- as a person meets it

DESK = """version = 1
default_agent = "dev"
[agents.dev]
base = "coding"
[agents.desk]
capabilities = ["memory", "kb"]
tools = ["sleep", "tickets:find_ticket"]
agents = ["dev"]
[permissions]
allow = ["remember", "find_ticket"]
"""

TICKETS = '''from agentrail import tool

@tool(effect_class="pure")
async def find_ticket(number: int) -> str:
    """Find a ticket."""
    return f"ticket {number} is open"
'''


@pytest.fixture
def project(tmp_path):
    """A project with two agents, a directory beside it, and what a command is given there."""
    home = tmp_path / "home"
    for place in (home, tmp_path / "project" / ".git", tmp_path / "elsewhere"):
        place.mkdir(parents=True)
    (tmp_path / "project" / "agentrail.toml").write_text(DESK)
    (tmp_path / "project" / "tickets.py").write_text(TICKETS)
    return tmp_path / "project", {"HOME": str(home), "AGENTRAIL_DATA_DIR": str(tmp_path / "data")}


async def chat(project, *arguments, lines=("/tools",), place=None):
    directory, variables = project
    typed = "".join(f"{line}\n" for line in (*lines, "/quit")).encode()
    model = () if "--model" in arguments else ("--model", "demo:fast")
    place = place or directory
    return await run_agentrail("chat", *model, *arguments, stdin=typed, variables=variables, cwd=place)


async def test_a_chat_of_an_agent_of_files_is_resumed_from_any_directory_as_that_agent(project):
    """Not as the usual one, and with the files of where it works; without them, or with what they may not add, it says what to do."""
    directory, variables = project
    began = await chat(project, "--trust-project", "--agent", "desk", lines=("hello", "/tools"))
    (tools,) = [line for line in began.err.splitlines() if line.startswith("tools: ")]
    assert all(f" {name}" in tools for name in ("recall", "kb_search", "sleep", "find_ticket"))
    for place in (directory, directory.parent / "elsewhere"):
        lines = ("/tools", "/agents")
        back = await chat(project, "--resume", LATEST, "--trust-project", lines=lines, place=place)
        assert back.code == 0, back.err
        assert tools in back.err.splitlines()
        assert "available agents: dev" in back.err
    refused = await chat(project, "--resume", LATEST)
    assert (refused.code, "cannot be resumed without tool 'find_ticket'" in refused.err) == (2, True)
    assert f"{directory} is not trusted, so its files add nothing" in refused.err
    (directory / "agentrail.toml").unlink()
    gone = await chat(project, "--resume", LATEST, "--trust-project")
    assert (gone.code, f"no configuration file applies in {directory}" in gone.err) == (2, True)
    (directory / "agentrail.toml").write_text(DESK.replace(', "tickets:find_ticket"', ""))
    less = await chat(project, "--resume", LATEST, "--trust-project")
    assert "agent 'desk' in the files of" in less.err
    (directory / "agentrail.toml").write_text('version = 1\n[agents.dev]\nbase = "coding"\n')
    other = await chat(project, "--resume", LATEST, "--trust-project")
    assert "no longer define the agent 'desk', which started it; put it back, or name" in other.err
    advised = less.err.split("name an agent that has them: agentrail chat ")[1].split(" --agent NAME")[0]
    (directory / "agentrail.toml").write_text(DESK.replace("[agents.desk]", "[agents.counter]"))
    renamed = await chat(project, *advised.split(), "--agent", "counter", "--trust-project", lines=lines)
    assert tools in renamed.err.splitlines()
    (directory / "agentrail.toml").write_text(DESK.replace(', "tickets:find_ticket"', ""))
    recovered = await run_agentrail("sessions", "recover", began.err.split()[-1], variables=variables)
    assert "0 of 1 sessions came back" in recovered.out
    assert f"{directory} is not trusted" in recovered.out + recovered.err


async def test_a_session_of_the_coding_agent_is_resumed_with_what_defaults_say_of_plugins(project):
    """Plugins of the project's own code come from its files; without them, or without the directory that it works in, it says what is missing and what to do, and no option of the API."""
    directory, _ = project
    (directory / "agentrail.toml").write_text('version = 1\n[defaults]\nplugins = ["notes:Notes"]\n')
    (directory / "notes.py").write_text(
        "from agentrail.plugins import Plugin\n\n\nclass Notes(Plugin):\n    def init(self):\n        return None\n"
    )
    began = await chat(project, "--trust-project", "--coding", lines=("/plugins", "hello"))
    assert began.code == 0, began.err
    back = await chat(project, "--trust-project", "--resume", LATEST, lines=("/plugins",))
    assert back.code == 0, back.err
    assert "notes" in back.err.lower()
    refused = await chat(project, "--resume", LATEST)
    assert (refused.code, "is not trusted" in refused.err) == (2, True)

    began = await chat(project, lines=("hello",), place=directory.parent / "elsewhere")
    (directory.parent / "elsewhere").rmdir()
    gone = await chat(project, "--resume", LATEST)
    words = f"session {began.err.split()[-1]} works in {directory.parent / 'elsewhere'}, which no longer exists: recreate it"
    assert (gone.code, words in gone.err) == (2, True)


AS_ONE = """version = 1
default_agent = "desk"
[agents.desk]
skills = ["write-a-skill"]
agents = ["clerk"]
[agents.clerk]
description = "Pays."
tools = ["shell"]
skills = ["write-agents-md"]
handoff = true
permissions = { deny = ["shell(rm *)"] }
"""


async def test_what_a_chat_lists_is_that_of_the_agent_that_has_taken_it_over(project):
    """Its skills and no others, and who it is; a session without rules can be handed over to one that has some, and then holds them."""
    directory, _ = project
    (directory / "agentrail.toml").write_text(AS_ONE)
    lines = ("/skills", 'handoff_to "clerk"', "/skills", "/agents", "/permissions", "/write-a-skill")
    seen = await chat(project, "--trust-project", lines=lines)
    assert seen.code == 0, seen.err
    told = seen.err.splitlines()
    listed = [line.split(":")[0] for line in told if line.startswith("write-")]
    assert listed == ["write-a-skill", "write-agents-md"]
    assert "it works as clerk" in told
    assert "deny: shell(rm *) (besides)" in told
    assert "/write-a-skill cannot be run here: needs the agent desk" in told


async def test_a_plan_of_files_is_over_once_it_is_approved(project):
    """In the words of a chat: what /permissions says, what runs, and what was named beside the plan."""
    directory, _ = project
    text = 'version = 1\ndefault_agent = "dev"\n[agents.dev]\ntools = ["list_dir", "todo:note"]\npermissions = { mode = "plan" }\n'
    (directory / "agentrail.toml").write_text(
        f'{text}[permissions]\nmode = "accept_edits"\nallow = ["note"]\n'
    )
    (directory / "todo.py").write_text(
        'from agentrail import tool\n\n@tool\ndef note(text: str) -> str:\n    """Note it."""\n    return f"noted {text}"\n'
    )
    lines = ('note "a"', "/permissions", 'exit_plan "go"', "/approve", "/permissions", 'note "b"')
    seen = await chat(project, "--trust-project", lines=lines)
    modes = [line for line in seen.err.splitlines() if line.startswith("mode: ")]
    assert modes == ["mode: plan", *["mode: accept_edits (project)"] * 2]
    assert "finish the plan, and call exit_plan" in seen.err
    assert "noted b" in seen.out
    assert "noted a" not in seen.out


async def test_words_for_a_prompt_count_in_a_project_that_is_not_trusted(project):
    """They are texts as the prompt is; whose the session is, and what code is told, are not, and that is said."""
    directory, variables = project
    said = 'version = 1\n[agents.dev]\nprompt = "You work for ${who}."\nuser_data = { prompt = { who = "Acme" }, user_id = "ada" }\n'
    (directory / "agentrail.toml").write_text(said)
    shown = await run_agentrail("prompt", "show", "--agent", "dev", variables=variables, cwd=directory)
    assert "You work for Acme." in shown.out
    checked = await run_agentrail("config", "check", variables=variables, cwd=directory)
    assert checked.code == 0, checked.err
    assert "user_data of user_id (agentrail.toml:4)" in checked.err + checked.out


async def leave_a_prompt(data_dir, session, prompt):
    """Let a process leave a session that has work to do."""
    store = open_store("sqlite:", data_dir)
    try:
        found = await find_resumable(store, session, TRUSTED)
        async with open_equipped(KeepingOptions(data_dir=data_dir), None, store=store) as supervisor:
            back = await come_back(supervisor, store, found, Choices(model="demo:"))
            await back.session.prompt(prompt)
    finally:
        store.close()


async def test_what_one_chat_remembers_the_next_one_and_the_command_know(project):
    """The command of knowledge bases puts there what a chat looks up; a chat that keeps nothing remembers nothing. A session is recovered with those that its files name, wherever it is called."""
    directory, variables = project
    (directory / "handbook.md").write_text("# Refunds\n\nMoney goes back within nine days.\n")
    added = await run_line("kb add desk handbook.md --reader '*'", variables=variables, cwd=directory)
    assert added.code == 0, added.err
    as_desk = ("--trust-project", "--agent", "desk")
    forgetful = await chat(project, *as_desk, "--store", "memory:", lines=('remember "Bob takes milk."',))
    assert "Noted under" in forgetful.out
    assert not (Path(variables["AGENTRAIL_DATA_DIR"]) / "memories").exists()
    noted = await chat(project, *as_desk, lines=('remember "Ada takes tea."', 'kb_search "money back"'))
    assert "Noted under" in noted.out
    assert "handbook.md#L1-L3" in noted.out
    assert list((Path(variables["AGENTRAIL_DATA_DIR"]) / "memories" / "notes").rglob("NOTES.md"))
    line = ("run", "--model", "demo:fast", *as_desk, 'kb_search "money back"')
    once = await run_agentrail(*line, variables=variables, cwd=directory)
    assert "handbook.md#L1-L3" in once.out + once.err

    (directory / "agentrail.toml").write_text(DESK + '[host]\nmemories = "sqlite:mine"\n')
    began = await chat(project, "--trust-project", "--agent", "desk", lines=("hello",))
    session = began.err.split()[-1]
    await run_agentrail("trust", variables=variables, cwd=directory)
    await leave_a_prompt(Path(variables["AGENTRAIL_DATA_DIR"]), session, 'remember "Ada takes tea."')
    assert not (directory / "mine").exists()
    elsewhere = directory.parent / "elsewhere"
    ran = await run_line(f"sessions recover {session}", variables=variables, cwd=elsewhere)
    assert "1 of 1 sessions came back" in ran.out, ran.err
    assert list((directory / "mine" / "notes").rglob("NOTES.md"))


# --- what stands behind it


def test_stores_are_those_of_the_commands_unless_the_host_of_the_files_names_others(tmp_path, monkeypatch):
    """Paths begin at the file; who keeps nothing remembers nothing; the data directory of the host counts behind the flag and the variable, as for the server; without one there are none."""
    monkeypatch.setenv("AGENTRAIL_DATA_DIR", str(tmp_path / "data"))
    usual = {"memories": "sqlite:", "knowledge": "sqlite:", "data_dir": tmp_path / "data"}
    assert shared_stores(None, None) == usual
    assert shared_stores(KeepingOptions(data_dir=tmp_path), None) == usual | {"data_dir": tmp_path}
    assert shared_stores(KeepingOptions(store="memory:"), None) == usual | {"memories": "memory:"}
    (tmp_path / ".git").mkdir()
    (tmp_path / "agentrail.toml").write_text(
        'version = 1\n[host]\nstore = "sqlite:s.db"\nmemories = "sqlite:mine"\n'
    )
    setup = read_setup(TRUSTED, None, tmp_path)
    assert shared_stores(None, setup) == usual | {"memories": f"sqlite:{tmp_path / 'mine'}"}
    for name in ("AGENTRAIL_DATA_DIR", "XDG_DATA_HOME", "HOME"):
        monkeypatch.delenv(name, raising=False)
    assert shared_stores(None, None) == {}

    (tmp_path / "agentrail.toml").write_text('version = 1\n[host]\ndata_dir = "here"\n')
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("AGENTRAIL_CONFIG", str(tmp_path / "agentrail.toml"))
    setup = read_setup(TRUSTED, None, tmp_path)
    assert shared_stores(None, setup)["data_dir"] == tmp_path / "here"
    assert shared_stores(KeepingOptions(data_dir=tmp_path), setup)["data_dir"] == tmp_path
    assert decide_place("memories", None, tmp_path, os.environ) == ("sqlite:", tmp_path)
    assert decide_place("memories", "sqlite:x", None, os.environ) == ("sqlite:x", None)
    monkeypatch.setenv("AGENTRAIL_DATA_DIR", str(tmp_path / "data"))
    assert shared_stores(None, setup)["data_dir"] == tmp_path / "data"


async def test_a_session_comes_back_into_its_sandbox(tmp_path):
    """What the command line named when it began, unless it names another one now: a session that worked apart is not let out."""
    choices = Choices(cwd=tmp_path, sandbox="memory")
    options = begun(choices)
    store = open_store("sqlite:", tmp_path)
    try:
        async with open_equipped(KeepingOptions(data_dir=tmp_path), store=store) as supervisor:
            await (await supervisor.start_session(options)).ask("hello")
        found = await find_resumable(store, LATEST)
        for flag, wanted in ((None, "memory"), ("local", "local")):
            assert code_of(found.opening, found.setup, Choices(sandbox=flag))["sandbox"] == wanted
        assert setup_of(found.opening, ConfigFiles()) is None
    finally:
        store.close()


OF_FILES = """version = 1
default_agent = "coding"
[agents.coding]
tools = ["sleep"]
[defaults]
tools = ["glob"]
plugins = ["Planning"]
[permissions]
deny = ["shell(rm *)"]
"""


@pytest.mark.parametrize("said", [None, OF_FILES])
async def test_the_coding_agent_asks_and_comes_back_as_itself(project, said):
    """Without files, and beside an agent of files that has its name: their rules hold for it, their tools are not its tools."""
    directory, _ = project
    (directory / "agentrail.toml").unlink()
    if said is not None:
        (directory / "agentrail.toml").write_text(said)
    lines = ("/tools", "clean build", *(("/reject",) if said is None else ()))
    given = ("--trust-project", "--model", "demo:coder")
    began = await chat(project, *given, "--coding", lines=lines)
    assert began.code == 0, began.err
    (tools,) = [line for line in began.err.splitlines() if line.startswith("tools: ")]
    named = [one.strip() for one in tools.removeprefix("tools: ").split(",")]
    assert named == sorted(name_of(tool) for tool in Blueprint.coding().options()["tools"])
    assert ("may shell run" in began.err) is (said is None)
    for place in (directory, directory.parent / "elsewhere"):
        back = await chat(project, *given, "--resume", LATEST, lines=lines, place=place)
        assert back.code == 0, back.err
        assert tools in back.err.splitlines()
        assert ("may shell run" in back.err) is (said is None)
        assert back.out.rstrip().endswith("I leave the old build alone.")
