"""`agentrail config check`, `init` and `trust`, and agents of files in `run`, `chat` and `doctor`."""

import sys

import psutil  # type: ignore[import-untyped]
import pytest
import trio

from agentrail import tool
from agentrail.app import ChosenModel
from agentrail.blueprints.builder import build_blueprint
from agentrail.blueprints.configuration import read_configuration
from agentrail.cli.config_command import TEMPLATE, show_configuration, show_setting
from agentrail.cli.config_setup import CommandSetup
from agentrail.cli.run_options import Choices
from agentrail.cli.run_setup import decide_session, with_approvals
from agentrail.errors import OptionError
from agentrail.plugins import HumanApproval, Permissions, SecurityGuard
from agentrail.tools import builtin
from tests.cli.rig import run_agentrail, run_in, write

KEY = "sk-proj-abcdefghijklmnop1234"
AGENT = '[agents.scout]\nmodel = "demo:fast"\nprompt = "You look."\nmax_turns = 7\n'


def setup_of(place, agent=None, *, trusted=True, **variables):
    """What files say, as a command has it."""
    environ = {"HOME": str(place / "home"), **variables}
    read = read_configuration(environ, cwd=place / "project", trust_project=trusted).check()
    return CommandSetup(configuration=read, agent=agent, blueprint=build_blueprint(read.settings, agent))


async def test_init_leaves_no_part_of_a_file_on_a_full_disk(place):
    """The next attempt would otherwise say that there is one already."""
    project = place / "project"
    limited = ("sh", "-c", 'ulimit -f 1; exec "$@"', "sh", sys.executable, "-P", "-m", "agentrail", "init")
    ran = await trio.run_process(limited, cwd=project, capture_stderr=True, check=False)
    assert (ran.returncode, b"cannot be written: File too large" in ran.stderr) == (1, True)
    assert list(project.iterdir()) == []


async def test_what_init_writes_passes_the_check(place):
    """It is written once, narrows until it is trusted, and its agent runs."""
    ran = await run_in(place, "init")
    assert (ran.code, (place / "project" / "agentrail.toml").read_text()) == (0, TEMPLATE)
    again = await run_in(place, "init")
    assert (again.code, "already exists" in again.err) == (2, True)
    checked = await run_in(place, "config", "check")
    assert checked.code == 0
    assert "is not trusted" in checked.err.splitlines()[0]
    assert "the tool grep (agentrail.toml:18)" in checked.err
    trusted = await run_in(place, "trust")
    assert (trusted.code, "it grants:\n  the tool glob (agentrail.toml:18)" in trusted.out) == (0, True)
    checked = await run_in(place, "config", "check")
    assert (checked.code, checked.err) == (0, "")
    assert "list_dir, read_file, glob, grep" in checked.out


@pytest.mark.blueprint("G-002")
@pytest.mark.blueprint("G-003")
async def test_check_says_all_faults_with_their_lines_and_no_key(place):
    """G-002, G-003: of syntax, types, names and code at once, a line each; exit code 1; the key is in no output of any command."""
    write(
        place,
        f'[agents.a]\nmax_turn = 3\ntools = ["no.such:x", "shel"]\n[providers.openai]\napi_key = "{KEY}"\n[agents.b]\nagents = ["b"]\n',
    )
    write(place, "---\ndescription: x\n---\n", "project/.agentrail/agents/a.md")
    ran = await run_in(place, "config", "check", "--trust-project")
    assert (ran.code, ran.out) == (1, "")
    said = sorted(line.split(": ")[1] for line in ran.err.splitlines())
    assert said == sorted(
        [".agentrail/agents/a.md:1", *(f"agentrail.toml:{line}" for line in (2, 3, 3, 5, 7))]
    )
    assert f"{KEY[:8]}" not in ran.err
    for line in ("run hi", "chat", "trust", "doctor --model demo:", "config check"):
        other = await run_in(place, *line.split(), "--debug")
        assert other.code in {1, 2}
        assert KEY[:8] not in other.out + other.err
        assert "agentrail.toml:2: agents.a.max_turn" in other.out + other.err
        assert "Traceback" not in other.err


@pytest.mark.blueprint("G-026")
async def test_an_untrusted_project_grants_itself_nothing(place):
    """G-026: no code of it is imported and no command of it runs; the first line says what is not granted; its `deny` holds."""
    canary = place / "project" / "canary"
    write(place, f"open({str(canary)!r}, 'w').close()\n", "project/evil.py")
    write(
        place,
        'default_agent = "wild"\n[defaults]\nplugins = ["evil:Guard"]\nmodel = "openai-chat:x"\n[agents.wild]\n'
        'tools = ["shell", "read_file", "evil:tool"]\nbase = "coding"\n[providers.openai-chat]\nbase_url = "http://127.0.0.1:9/v1"\n'
        'api_key = { env = "HOME" }\n',
    )
    unconfined = ("--shell-fallback", "unconfined")
    ran = await run_in(place, "run", 'shell "touch canary"', *unconfined, AGENTRAIL_MODEL="demo:fast")
    first = ran.err.splitlines()[0]
    for refused in ("evil:Guard", "model = openai-chat:x", "the tool shell", "evil:tool", "base = coding"):
        assert refused in first
    assert "providers.openai-chat.base_url" in first
    assert "model demo:fast (AGENTRAIL_MODEL is set)" in ran.err
    checked = await run_in(place, "config", "check")
    assert (checked.code, checked.err.splitlines()[0]) == (0, first)
    assert not canary.exists()
    write(place, '[permissions]\nmode = "bypass"\ndeny = ["shell(rm *)"]\nallow = ["shell(*)"]\n')
    shown = (await run_in(place, "config", "check")).out
    assert "shell(rm *)" in shown
    assert "shell(*)" not in shown
    assert "bypass" not in shown
    with_shell = ("--model", "demo:fast", "--tools", "shell", *unconfined)
    denied = await run_in(place, "run", 'shell "rm canary"', *with_shell)
    assert "the rule shell(rm *)" in denied.out + denied.err
    write(place, '[agents.a]\ntools = ["evil:tool"]\n')
    assert (await run_in(place, "config", "check", "--trust-project")).code == 1
    assert canary.exists()  # so the canary sings where it is let


async def test_the_name_of_a_directory_draws_nothing_when_it_is_trusted(place):
    """It comes from others, and `trust` is what a user reads before a decision."""
    write(place, "version = 1\n", "project/a\x1b[2J/agentrail.toml")
    ran = await run_agentrail(
        "trust", variables={"HOME": str(place / "home")}, cwd=place / "project" / "a\x1b[2J"
    )
    assert ran.out.startswith(f"{place}/project/a?[2J is trusted")


MARK = "86399.026"
"""How long the server of tools of the next test would sleep: told from all other processes by that."""


def processes_of_mark():
    return [
        one.pid for one in psutil.process_iter(["cmdline"]) if MARK in " ".join(one.info["cmdline"] or ())
    ]


@pytest.mark.blueprint("G-026")
async def test_an_untrusted_project_starts_nothing_of_its_own(place):
    """G-026, whole: it allows `shell(*)`, sets `bypass`, imports a tool from its directory and starts an MCP server. None of it happens, its `deny` holds.

    Modules and servers leave a file where they run, and the server would sleep for a day, so that it is among the processes.
    """
    sung = place / "project" / "sung"
    serving = f'["sh", "-c", "touch {sung}; exec sleep {MARK}"]'
    write(place, f"open({str(sung)!r}, 'w').close()\ntool = None\n", "project/evil.py")
    write(
        place,
        'default_agent = "wild"\n[permissions]\nmode = "bypass"\nallow = ["shell(*)"]\ndeny = ["shell(rm *)"]\n'
        f'[agents.wild]\ntools = ["read_file", "evil:tool"]\nmcp = ["canary"]\n[mcp.canary]\ncommand = {serving}\nstart = "eager"\n'
        '[mcp]\nimport = [".mcp.json"]\n',
    )
    given = ("--model", "demo:fast", "--tools", "shell", "--shell-fallback", "unconfined")
    # What a user says for themselves is no word for the project.
    bypassing = "--dangerously-bypass-permissions"
    with trio.fail_after(60):
        allowed = await run_in(place, "run", 'shell "touch made"', *given, bypassing)
        denied = await run_in(place, "run", 'shell "rm agentrail.toml"', *given, bypassing)
    first = allowed.err.splitlines()[0]
    for refused in (
        "allow shell(*)",
        "the mode bypass",
        "the tool evil:tool",
        "mcp canary",
        "the MCP server canary",
    ):
        assert refused in first
    assert "no user can be asked in this run" in allowed.out
    assert not (place / "project" / "made").exists()
    assert "the rule shell(rm *)" in denied.out + denied.err
    assert (place / "project" / "agentrail.toml").exists()
    assert not sung.exists()
    assert processes_of_mark() == []
    # Trusted, what cannot be read is said with its line, and a check starts nothing.
    checked = await run_in(place, "config", "check", "--trust-project")
    assert checked.code == 1
    assert ".mcp.json cannot be read: No such file or directory" in checked.err
    assert processes_of_mark() == []


async def test_an_agent_of_a_file_runs(place):
    """Named, or the one that the file names; trusted for once, or for good until a file changes."""
    write(place, f'default_agent = "scout"\n{AGENT}')
    ran = await run_in(place, "run", "hi", "--agent", "scout", "--trust-project")
    assert (ran.code, "model demo:fast (agentrail.toml:3)" in ran.err) == (0, True)
    assert (await run_in(place, "trust")).code == 0
    ran = await run_in(place, "run", "hi")
    assert (ran.code, ran.err.splitlines()[0]) == (0, "model demo:fast (agentrail.toml:3)")
    ran = await run_in(place, "run", "hi", "--model", "demo:fast", AGENTRAIL_MODEL="demo:")
    assert "model demo:fast (--model)" in ran.err
    chatted = await run_in(place, "chat", "--agent", "scout", "--store", "memory:", stdin=b"hi\n")
    assert (chatted.code, "model demo:fast (agentrail.toml:3)" in chatted.err) == (0, True)
    looked = await run_in(place, "doctor", AGENTRAIL_MODEL="demo:")
    assert "agentrail.toml; agent scout" in looked.out
    assert "demo: (AGENTRAIL_MODEL is set)" in looked.out
    assert "demo:fast (agentrail.toml:3)" in (await run_in(place, "doctor")).out
    assert (await run_in(place, "trust", "--forget")).code == 0
    assert "not trusted" in (await run_in(place, "doctor")).out


FAR = "http://127.0.0.1:1"
WRONG = (
    ("run hi --agent x", "there is no agent 'x': no configuration file was found, agentrail init writes one"),
    ("run hi --config no.toml", "there is no such file"),
    ("run hi --config .", "Is a directory"),
    ("config check --config no.toml", "there is no such file"),
    (f"chat --agent x --resume y --connect {FAR}", "--agent cannot be combined with --resume"),
    (
        "chat --resume y --approve shell --tools shell",
        "--tools, --approve cannot be combined with --resume (a resumed session keeps its settings): leave them out",
    ),
    (
        "chat --coding --agent x --tools shell",
        "--agent, --tools cannot be combined with --coding (it has its own tools): leave them out",
    ),
    (
        "chat --coding --resume y",
        "--coding cannot be combined with --resume (a resumed session keeps its settings)",
    ),
    (f"chat --coding --connect {FAR}", "--coding cannot be combined with --connect"),
    (
        f"chat --connect {FAR} --approve shell",
        "--approve cannot be combined with --connect (the profile on the server decides): leave it out",
    ),
    (
        f"chat --connect {FAR} --model demo: --store sqlite:x --config y",
        "--model, --config, --store cannot be combined with --connect",
    ),
    ("config chek", "chek"),
)


async def test_wrong_usage_is_said_before_anything_else(place):
    """Exit code 2, a sentence. No file is no error; nothing can be trusted then."""
    for line, said in WRONG:
        ran = await run_in(place, *line.split())
        assert (ran.code, said in ran.err, "Traceback" in ran.err) == (2, True, False), line
    checked = await run_in(place, "config", "check")
    assert (checked.code, "agentrail init writes one" in checked.out) == (0, True)
    trusted = await run_in(place, "trust")
    assert (trusted.code, "nothing to trust" in trusted.err) == (1, True)
    assert "no agentrail.toml here or above" in (await run_in(place, "doctor")).out


# --- what stands in front of what


def test_a_secret_that_is_not_there_is_said_with_its_line(place):
    """When the provider is used, and not before."""
    write(place, '[providers.openai]\napi_key = { env = "MY_KEY" }\n')
    setup = setup_of(place)
    decide_session(Choices(), ChosenModel(model="demo:", why=""), setup, {})
    with pytest.raises(OptionError, match=r"^agentrail.toml:2: .*MY_KEY is not set"):
        decide_session(Choices(), ChosenModel(model="openai:x", why=""), setup, {})
    secret = {"MY_KEY": KEY}
    options = decide_session(Choices(), ChosenModel(model="openai:x", why=""), setup, secret)
    assert KEY not in f"{options} {options.provider_opts}"
    shown = "\n".join(show_configuration(setup.configuration, secret))
    assert '{ env = "MY_KEY" } (set)' in shown
    assert KEY not in shown
    assert "(not set)" in "\n".join(show_configuration(setup.configuration, {}))


def test_every_kind_of_value_is_shown(place):
    """In one line, without what may be a secret."""
    write(place, "You\n", "project/p.md")
    write(
        place,
        'default_agent = "a"\n[agents.a]\nprompt = { file = "p.md" }\nplugins = ["SecurityGuard", { use = "HumanApproval", '
        'options = { timeout_seconds = 0 } }]\nbudget = { max_cost_usd = 1.5 }\nuser_data = { note = "x" }\n'
        '[agents.a.permissions]\nmode = "plan"\n[providers.openai]\nheaders = { x = "y", token = { file = "t" } }\napi_key = { file = "k" }\n',
    )
    read = setup_of(place).configuration
    shown = "\n".join(show_configuration(read, {"AGENTRAIL_MODEL": "demo:"}))
    for wanted in ('{ file = "p.md" }', "SecurityGuard, HumanApproval (timeout_seconds = 0)", "max_cost_usd 1.5", "note = x",
                   'x = …, token = { file = "t" }', '{ file = "k" }', "AGENTRAIL_MODEL is set", "permissions of its own", "plan"):  # fmt: skip
        assert wanted in shown
    assert show_setting("password", "hunter2") == "…"


@tool
async def pay(amount: int) -> str:
    """Pay."""
    return f"paid {amount}"


def test_what_changes_something_in_a_chat_waits_for_the_user_unless_something_asks_already():
    """`chat --tools edit_file,shell` has no other guard; `--approve`, and a plugin of the agent, are nearer words."""
    tools = (*builtin("edit_file", "read_file", "shell", "python", "write_file", "task", "remember"), pay)
    ((kind, given),) = with_approvals((), None, tools)
    assert (kind, given) == (
        HumanApproval,
        {"require_approval_for": ["edit_file", "pay", "python", "shell", "write_file"]},
    )
    assert with_approvals((), "none", tools) == ()
    assert with_approvals((), None, builtin("read_file")) == ()
    ((_, given),) = with_approvals((), None, builtin("read_file"), has_mcp=True)
    assert given["require_approval_for"] == ["mcp__*"]
    assert with_approvals((), "none", tools, has_mcp=True) == ()
    assert with_approvals((SecurityGuard,), None, tools)[0] is SecurityGuard
    for guard in (Permissions, Permissions(), (Permissions, {"mode": "plan"}), HumanApproval):
        assert with_approvals((guard,), None, tools) == (guard,)
    ((_, given),) = with_approvals((), "shell", tools)
    assert given["require_approval_for"] == ["shell"]

    quiet = (HumanApproval, {"timeout_seconds": 5})
    assert with_approvals((SecurityGuard, quiet), None) == (SecurityGuard, quiet)
    guard, (kind, given) = with_approvals((quiet, SecurityGuard), "shell")
    assert (guard, kind, given["require_approval_for"]) == (SecurityGuard, HumanApproval, ["shell"])
