"""One registry of commands: names, sources, what cannot be run and why (12.10)."""

import re
from types import SimpleNamespace

import attrs
import pytest
import trio
from hypothesis import given, strategies as st

import agentrail
from agentrail.blueprints.command_files import MAX_COMMAND_FILES, read_commands
from agentrail.commands import (
    CommandAnswer,
    CommandDesk,
    CommandFacts,
    CommandFile,
    CommandRegistry,
    SlashCommand,
    TypedCommand,
    commands_of_files,
    read_command,
    read_typed,
)
from agentrail.commands.command_output import show_calls_behind, show_spent, show_turns
from agentrail.commands.command_registry import MAX_REGISTERED
from agentrail.commands.markdown import MAX_COMMAND_BYTES
from agentrail.core.journal.turn_index import CallBehind, PastTurn
from agentrail.core.values.source_prompt import SourcePrompt
from agentrail.errors import CommandError, OptionError, UnknownCommand
from agentrail.messages import CallId, TokenUsage
from agentrail.plugins import Permissions
from agentrail.runtime.session_rows import names_for_commands
from agentrail.testing.models import ScriptedModel, calls, says
from agentrail.tools import builtin
from tests.commands.desk import Told

NAMES = (
    *("help", "status", "compact", "model", "tools", "agents", "skills", "memory", "plan", "cost"),
    *("fork", "rewind", "export", "permissions", "abort", "tree", "quit"),
)


async def greet(call):
    return CommandAnswer(lines=(f"Hello {call.text}.",))


def command(name, **more):
    return SlashCommand(name=name, description="Says hello.", run=greet, **more)


def file(path, text="Do it.", source="project", **more):
    data = text if isinstance(text, bytes) else text.encode()
    return CommandFile(name=f"commands/{path}", path=path, data=data, source=source, **more)


def test_all_that_are_built_in_are_there():
    """As 12.10 lists them; none of them can be taken, in any case, by whoever brings commands."""
    names = [one.name for one in CommandRegistry().commands]
    assert set(NAMES) <= set(names)
    assert len(set(names)) == len(names)
    for name in names:
        with pytest.raises(OptionError, match=f"/{name} is built in"):
            CommandRegistry().with_commands(command("mine"), command(name))
        assert f"/{name} is built in" in read_command(file(f"{name.upper()}.md"))


def test_a_registry_is_a_value():
    """With more it is another one; a later command of a name takes the place of the first; others are in order of their names."""
    first = CommandRegistry().with_commands(command("z"), command("a"), left_out=["x"])
    second = first.with_commands(command("a", source="skill"), left_out=["y"])
    assert [one.name for one in second.commands[-2:]] == ["a", "z"]
    assert (second.find("/A").source, first.find("a").source) == ("skill", "blueprint")
    assert second.left_out == ("x", "y")
    assert CommandRegistry().commands == first.commands[:-2]
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        first.commands = ()
    with pytest.raises(OptionError, match="are too many"):
        first.with_commands(*(command(f"c{number}") for number in range(MAX_REGISTERED)))
    mine = attrs.evolve(command("skills"), source="skills")
    assert CommandRegistry().replacing(mine).find("skills") is mine
    with pytest.raises(OptionError, match="/other is not built in"):
        CommandRegistry().replacing(command("other"))
    for wrong in ({"name": "A"}, {"name": "a/b"}, {"name": 3}, {"name": "a", "run": None}):
        with pytest.raises(OptionError, match="the command"):
            SlashCommand(**{"description": "x", "run": greet, **wrong})
    with pytest.raises(OptionError, match=r"run of the command 'a' is <function .* \(`async def`\)"):
        SlashCommand(name="a", description="x", run=lambda call: CommandAnswer())


async def test_prompts_of_sources_are_commands_where_their_names_are_free():
    """11.4: one that cannot be typed is left out, one that is taken too, and no more than the limit are there."""

    async def expand(text):
        await trio.lowlevel.checkpoint()
        return f"Words: {text}"

    def prompt(name):
        return SourcePrompt(source="s", name=name, description="Asks.", arguments="[x]", expand=expand)

    mine = SlashCommand(name="s:mine", description="Mine.", run=expand)
    registry = CommandRegistry().with_commands(mine)
    joined = registry.with_prompts([prompt("s:ask"), prompt("s:mine"), prompt("s:")])
    assert joined.find("s:mine") is mine
    assert {one.name for one in joined.commands} - {one.name for one in registry.commands} == {"s:ask"}
    assert registry.with_prompts([prompt("s:mine")]) is registry
    answer = await joined.run("/S:Ask", "a b", CommandDesk(session=Told()))
    assert (answer.prompt, joined.find("s:ask").source) == ("Words: a b", "s")
    assert (
        len(registry.with_prompts(prompt(f"s:p{n}") for n in range(MAX_REGISTERED)).commands)
        == MAX_REGISTERED
    )
    wanted = {"help": "", "/HELP": "", "s:ask": "s", "/S:ask": "s", "s:mine": None, "status": None}
    assert {name: registry.source_in(name) for name in wanted} == wanted


def test_a_line_is_a_command_as_a_whole_or_not_at_all():
    """Other words that begin with a slash, such as paths, are words."""
    for line, name, text in (
        ("/help", "help", ""),
        ("  /Help  me\nplease ", "help", "me\nplease"),
        ("/git:commit -m x", "git:commit", "-m x"),
    ):
        assert read_typed(line) == TypedCommand(name=name, text=text)
    for line in ("/etc/hosts is wrong", "/", "//", "/ help", "help", "", "/é", "say /help"):
        assert read_typed(line) is None, line


def test_an_unknown_name_gets_the_nearest():
    """Matched as a whole, without regard to case."""
    registry = CommandRegistry().with_commands(command("git:commit"))
    for typed, near in (("halp", "help"), ("/GIT:COMMT", "git:commit"), ("helper", "help")):
        with pytest.raises(UnknownCommand, match=f"did you mean /{near}") as caught:
            registry.find(typed)
        assert (caught.value.near, caught.value.name) == (near, typed.removeprefix("/").lower())
    with pytest.raises(UnknownCommand, match="/help lists all commands") as caught:
        registry.find("x" * 100_000)
    assert len(str(caught.value)) < 200


@given(st.text(max_size=30))
def test_no_line_breaks_the_reader(line):
    """Whatever is typed is a command with a name that could be one, or other words."""
    typed = read_typed(line)
    if typed is not None:
        assert line.strip().lower().startswith(f"/{typed.name}")
        assert typed.text in line


async def test_what_cannot_be_run_says_why():
    """Where nobody sits at a terminal, without a session, as another agent."""
    registry = CommandRegistry().with_commands(command("mine", agent="coder"))
    rows = {row.name: row for row in registry.rows(CommandDesk())}
    assert rows["help"].available
    assert (rows["status"].available, rows["status"].why_not) == (False, "needs a session")
    assert rows["quit"].why_not == "only at a terminal, in agentrail chat"
    with_session = CommandDesk(session=Told())
    assert registry.find("mine").why_not(with_session) == "needs the agent coder"
    assert registry.find("mine").why_not(attrs.evolve(with_session, agent="coder")) is None
    at_terminal = attrs.evolve(with_session, at_terminal=True, agent="coder")
    assert [row.name for row in registry.rows(at_terminal) if not row.available] == []
    with pytest.raises(CommandError, match="/status cannot be run here: needs a session"):
        await registry.run("status", "", CommandDesk())
    with pytest.raises(CommandError, match="it is handled by the chat interface"):
        await registry.run("approve", "", at_terminal)
    assert (await registry.run("quit", "", at_terminal)).leaves
    assert (await registry.run("MINE", "Ada", at_terminal)).lines == ("Hello Ada.",)
    assert await registry.run_line("words", at_terminal) is None
    answer = await registry.run_line("/mine Bob", at_terminal)
    assert answer is not None
    assert answer.lines == ("Hello Bob.",)


def test_a_file_becomes_a_command():
    """Its path is its name; front matter says the rest, and may be left out."""
    text = "---\ndescription: Commits.\nargument-hint: '[what]'\nagent: coder\n---\n\nCommit $1.\n"
    made = read_command(file("Git/commit.md", text))
    assert (made.name, made.description) == ("git:commit", "Commits.")
    assert (made.arguments, made.agent) == ("[what]", "coder")
    assert (made.source, made.in_history, made.background) == ("project", True, False)
    bare = read_command(file("x.md", f"\n## {'Fix ' * 60}\nnow\n"))
    assert bare.description.startswith("Fix Fix")
    assert len(bare.description) == 100


def test_a_file_that_is_wrong_is_left_out_with_its_line():
    """And the others are there all the same."""
    for path, text, said in (
        ("a b.md", "x", "is not a command name"),
        (f"{'a/' * 9}b.md", "x", "is not a command name"),
        ("x.md", " \n", "there is no prompt"),
        ("x.md", "---\ndescription: x\n---\n", "there is no prompt"),
        ("x.md", "---\ndescription: x\n", ":1: the front matter has no end"),
        (
            "x.md",
            "---\ndescripton: x\n---\ny",
            ":2: descripton: unknown key, did you mean 'description'",
        ),
        ("x.md", "---\nzzz: x\n---\ny", "expected one of description, argument-hint, agent, model"),
        ("x.md", "---\nargument-hint: [a]\n---\ny", "as a list: put it in quotes"),
        ("x.md", "---\ndescription: ''\n---\ny", "expected a text of 1 to 500"),
        ("x.md", b"\xff", "expected UTF-8"),
        ("x.md", b"x" * (MAX_COMMAND_BYTES + 1), "at most 64 KiB"),
    ):
        commands, left_out = commands_of_files([file(path, text), file("good.md")])
        assert [one.name for one in commands] == ["good"]
        (told,) = left_out
        assert said in told
        assert told.startswith("commands/")


async def test_a_file_of_the_project_stands_in_front_of_one_of_the_user():
    """Of two in one place that differ in case alone the second is left out; a model counts where it is granted."""
    twice = [
        file("a.md", "project"),
        file("a.md", "user", source="user"),
        file("B.md", "first"),
        file("b.md", "second"),
    ]
    with_model = file("m.md", "---\nmodel: demo:fast\n---\nx", granted=False)
    commands, left_out = commands_of_files([*twice, with_model])
    by_name = {one.name: one for one in commands}
    assert (by_name["a"].source, by_name["b"].description) == ("project", "first")
    (told,) = left_out
    assert told == "commands/b.md: /b is already defined in another file: names are case-insensitive"
    desk = CommandDesk(session=Told())
    answer = await CommandRegistry().with_commands(*commands).run("m", "", desk)
    assert (answer.prompt, answer.model) == ("x", None)
    assert "is not used: the project is not trusted" in answer.lines[0]
    (granted,), _ = commands_of_files([file("m.md", "---\nmodel: demo:fast\n---\nx")])
    assert (await CommandRegistry().with_commands(granted).run("m", "", desk)).model == "demo:fast"


def test_files_are_found_and_links_are_not_followed(tmp_path):
    """The nearest directory above, up to a `.git`; those of the user besides; what cannot be read is left out and said."""
    home, project = tmp_path / "home", tmp_path / "project"
    below = project / "src" / "deep"
    below.mkdir(parents=True)
    folder, own = project / ".agentrail" / "commands", home / ".agentrail" / "commands"
    (folder / "git").mkdir(parents=True)
    own.mkdir(parents=True)
    secret = tmp_path / "secret.md"
    secret.write_text("SECRET")
    (folder / "git" / "commit.md").write_text("Commit.")
    (folder / "note.txt").write_text("no command")
    (folder / "leak.md").symlink_to(secret)
    (folder / "out").symlink_to(tmp_path)
    (own / "commit.md").write_text("---\nmodel: demo:\n---\nMine.")
    (own / "help.md").write_text("Mine.")
    environ = {"HOME": str(home)}
    registry = read_commands(environ, cwd=below)
    built_in = len(CommandRegistry().commands)
    assert [(one.name, one.source) for one in registry.commands[built_in:]] == [
        ("commit", "user"),
        ("git:commit", "project"),
    ]
    assert len(registry.left_out) == 2
    assert "leak.md cannot be read: it is a symbolic link" in registry.left_out[0]
    assert (
        registry.left_out[1] == "~/.agentrail/commands/help.md: /help is built in: give the file another name"
    )
    (project / "src" / ".git").mkdir()
    assert [one.name for one in read_commands(environ, cwd=below).commands[built_in:]] == ["commit"]
    assert [one.source for one in read_commands({}, cwd=home).commands[built_in:]] == ["project"]
    assert read_commands({}, cwd=tmp_path).commands == CommandRegistry().commands
    assert [one.source for one in read_commands(environ, cwd=home).commands[built_in:]] == ["user"]
    (home / "elsewhere").mkdir()
    linked = tmp_path / "linked"
    (linked / ".agentrail").mkdir(parents=True)
    (linked / ".agentrail" / "commands").symlink_to(folder)
    assert (
        "is a symbolic link: put the files into a real directory" in read_commands({}, cwd=linked).left_out[0]
    )
    for number in range(MAX_COMMAND_FILES + 1):
        (own / f"c{number}.md").write_text("x")
    deep = own.joinpath(*"abcdefghi")
    deep.mkdir(parents=True)
    (deep / "deep.md").write_text("x")
    many = read_commands(environ, cwd=below)
    assert len(many.commands) == built_in + MAX_COMMAND_FILES
    assert (
        f"has {MAX_COMMAND_FILES + 3} files: only the first {MAX_COMMAND_FILES} are read" in many.left_out[0]
    )


async def test_what_the_built_in_commands_say_of_a_session():
    """Each of them, of a session that has something to tell."""
    model = ScriptedModel(
        [
            calls(("write_todos", {"todos": [{"id": "t", "content": "tidy", "status": "in_progress"}]})),
            says("- [x] look\n  - result: a mess\n- [~] tidy"),
            says("again"),
        ]
    )
    async with agentrail.open_supervisor(store="memory:") as supervisor:
        session = await supervisor.start_session(
            model=model,
            tools=builtin("write_todos", "read_file"),
            plugins=[(Permissions, {"mode": "plan", "allow": ["write_todos"]})],
            session_id="s",
        )
        await session.ask("Look, and tidy.")
        tools, agents, sections = names_for_commands(session)
        registry = CommandRegistry()

        async def tree():
            return "a\nb"

        facts = CommandFacts(
            tools=tools, agents=agents, sections=(*sections, ("agent_memory", 7), ("skills", 9))
        )
        desk = CommandDesk(session=session, facts=facts)

        async def told(name, text="", on=desk):
            return "\n".join((await registry.run(name, text, on)).lines)

        helped = await told("help")
        assert "/status: show what the session is doing" in helped
        assert "/quit: stop everything and exit, like Ctrl-D [not here: only at a terminal" in helped
        assert (await told("status")).startswith("idle · model scripted")
        assert await told("tools") == "tools: read_file, write_todos"
        assert await told("agents") == "no agents are available"
        assert await told("skills") == "the skills are listed to the model in about 9 tokens"
        assert await told("memory") == "agent_memory: about 7 tokens, sent with each request"
        assert ("mode", 38) in sections or dict(sections)["mode"] > 20
        assert await told("plan") == "plan:\n  [x] look\n      result: a mess\n  [~] tidy\ntodos:\n  [~] tidy"
        assert (await told("cost")).startswith("cost: $0.0000\nread: 20 tokens")
        assert await told("permissions") == "mode: plan\nallow: write_todos"
        assert (await told("model")).startswith("the model is scripted")
        assert await told("abort") == "nothing runs"
        assert (await told("tree")).startswith("s: idle · scripted")
        assert await told("tree", on=attrs.evolve(desk, tree=tree)) == "a\nb"
        assert "Look, and tidy." in await told("export")
        assert await told("compact", "too long") == "the conversation is compacted before the next request"
        assert (await told("fork")).endswith("continues from here; this session stays as it is")
        assert re.search(
            r"^1  > Look, and tidy.* · .+\n.*/rewind \d+ goes back", await told("rewind"), re.DOTALL
        )
        assert (
            await told("rewind", "1")
            == "back at the end of turn 1; effects outside the session are not undone"
        )
        for wrong in ("x", "0", "-1", "²", "9" * 10):
            with pytest.raises(CommandError, match="takes the number of a turn"):
                await registry.run("rewind", wrong, desk)
        bare = await supervisor.start_session(model=model, session_id="bare")
        empty = CommandDesk(session=bare)
        assert await told("tools", on=empty) == "the model has no tools"
        assert (
            await told("skills", on=empty)
            == "this session has no skills: name them for its agent, as in skills = ['*']"
        )
        assert await told("memory", on=empty) == "no memory is sent with requests"
        assert await told("plan", on=empty) == "there is no plan and there are no todos"
        assert await told("permissions", on=empty) == "there are no rules: the session's plugins decide"
        assert await told("export", on=empty) == "the conversation is empty"


async def test_what_they_do_to_a_session():
    """A model is asked for, a cycle is stopped; what the session does not take is raised as it is."""
    quiet = dict.fromkeys(("approvals", "questions", "client_calls", "queued"), ())
    quiet |= {"tearing_down": False, "turn": 0}
    rests = SimpleNamespace(phase="idle", model="demo:", running_tools=(), children=(), **quiet)
    child = SimpleNamespace(session_id="s.1", agent="scout", status=None)
    other = SimpleNamespace(session_id="s.2", agent=None, status=rests)
    running = [
        SimpleNamespace(name=name, detached=name == "shell", survivor=False, stopping=name == "read_file")
        for name in ("shell", "read_file", "grep")
    ]
    plugins = tuple(SimpleNamespace(name=name, options={}) for name in ("Other", "Permissions"))
    waits = {"approvals": ("a",), "questions": ("q",), "client_calls": (), "queued": ("p",)}
    works = {"session_id": "s", "phase": "executing_tools", "agent": "desk", "model": "demo:fast", "turn": 2}
    below = {"running_tools": running, "children": (child, other), "plugins": plugins}
    status = SimpleNamespace(**works, **waits, **below, tearing_down=True)
    rules = (
        SimpleNamespace(tool="shell", command_family="git log", breaks=False),
        SimpleNamespace(tool="edit_file", command_family=None, breaks=False),
        SimpleNamespace(words="breakpoint: every call needs an approval", breaks=True),
    )
    session = Told(status=status, rules=rules)
    desk = CommandDesk(session=session, facts=CommandFacts(agents=("scout",)))
    registry = CommandRegistry()
    (told,) = (await registry.run("model", "demo:fast", desk)).lines
    assert told == "the model is demo:fast from the next request on"
    assert (await registry.run("abort", "wrong way", desk)).lines == ("stopped",)
    await registry.run("abort", "", desk)
    (told,) = (await registry.run("break", "shell", desk)).lines
    assert told == "calls of shell wait for an approval; /unbreak ends it"
    (told,) = (await registry.run("unbreak", "", desk)).lines
    assert told == "the breakpoint is gone; calls that it stopped still wait"
    assert [one for one in session.asked if one[0] != "status"] == [
        ("switch_model", ("demo:fast",), {}),
        ("abort", ("wrong way",), {}),
        ("abort", ("by the user",), {}),
        ("break_on", ("shell",), {}),
        ("unbreak", ("*",), {}),
    ]
    assert (await registry.run("agents", "", desk)).lines == (
        "it works as desk",
        "available agents: scout",
        "running: scout, s.1",
        "running: an agent, s.2, idle",
    )
    assert (await registry.run("tree", "", desk)).lines == (
        "s: executing_tools, turn 2 · demo:fast · being stopped · 2 wait for users · 1 prompts wait",
        "  → shell, in the background",
        "  → read_file, being stopped",
        "  → grep",
        "  s.1 (scout): not known",
        "  s.2: idle · demo:",
    )
    assert (await registry.run("permissions", "", desk)).lines == (
        "mode: default, without rules",
        "always allowed: shell(git log)",
        "always allowed: edit_file",
        "breakpoint: every call needs an approval",
    )
    (spent, *_) = show_spent(TokenUsage(cost_usd=None, estimated=True))
    assert spent == "cost: unknown: a price is missing (partly estimated)"


def test_turns_are_listed_with_what_was_asked_and_what_stays_done_is_named():
    """Those that the conversation has, the latest last and at most thirty; a call that may have changed something, with how it ended."""
    assert show_turns(()) == ("no turn has finished: there is nothing to go back to",)
    turns = [PastTurn(number=number, record=number, asked="a " * 60, said="b") for number in range(1, 41)]
    turns += [PastTurn(number=41, record=41), PastTurn(number=42, record=42, counts=False)]
    lines = show_turns(turns)
    assert (len(lines), lines[0], lines[-2]) == (32, "… and 11 before these", "41  no words")
    assert lines[-1] == "/rewind 41 goes back to the end of turn 41"
    assert lines[1] == f"12  > {('a ' * 60)[:47]}… · b"
    call = CallBehind(
        number=1, call_id=CallId("c"), name="shell", effect_class="once", outcome="done", summary="ls"
    )
    assert show_calls_behind([call]) == ("  done: shell ls",)
    assert show_calls_behind([call] * 32)[-1] == "  … and 2 more"
