"""Files for agents, as a session reads them: upward through a port of their own, and from the working directory on through its sandbox."""

import pytest
import trio

import agentrail
from agentrail import plugins as p
from agentrail.abc import FileBytes
from agentrail.core.protocol.hooks import InstructionsFound, UnreadInstructions
from agentrail.core.values.instruction_order import InstructionFile
from agentrail.errors import SandboxError
from agentrail.messages import UserMessage
from agentrail.otp.exits import keep
from agentrail.outside import current
from agentrail.plugins.memory_loader import MemoryLoader
from agentrail.runtime.parent_instructions import InstructionsAbove
from agentrail.runtime.plugin_requests import decide_found, read_instructions, run_plugin_request
from agentrail.sandboxes.local import LocalSandbox
from agentrail.sandboxes.memory import MemorySandbox
from agentrail.testing.models import FunctionModel, calls, says
from agentrail.tools import builtin

NAMES = ("AGENTS.override.md", "AGENTS.md")


class Above:
    def __init__(self, fails=None):
        self.fails = fails

    def read(self, names):
        """Find a file above whose text is what was asked for."""
        if self.fails is not None:
            raise self.fails
        return InstructionsFound(files=(InstructionFile(path="../AGENTS.md", text=",".join(names)),))


async def answered(sandbox, above=None, below=()):
    port = (
        None if above is None else InstructionsAbove(find=lambda _: above, working_dir="/", outside=current())
    )
    wanted = p.ReadInstructions(names=NAMES, below=below)
    return await run_plugin_request("e1", wanted, lambda: sandbox, None, keep, above=port)


async def test_upward_the_port_is_asked_and_below_the_sandbox():
    """The sandbox ends at the working directory; where there is no port, it is all that there is."""
    sandbox = MemorySandbox({"AGENTS.md": "here", "a/AGENTS.md": "a", "a/b/AGENTS.override.md": "b"})
    assert (await answered(None, Above())).files[0].text == ",".join(NAMES)
    assert [one.path for one in (await answered(sandbox)).files] == ["AGENTS.md"]
    below = await answered(sandbox, Above(), ("a", "a/b", "a/c", "AGENTS.md"))
    assert [(one.path, one.text) for one in below.files] == [
        ("a/AGENTS.md", "a"),
        ("a/b/AGENTS.override.md", "b"),
    ]
    assert below.unread == ()


async def test_one_that_cannot_be_read_keeps_back_no_other():
    """What a sandbox refuses, or raises, is told of that file."""

    class Odd(MemorySandbox):
        async def read(self, path, **options):
            match path:
                case "a/AGENTS.md":
                    msg = "gone"
                    raise SandboxError(msg)
                case "b/AGENTS.md":
                    msg = "a bug"
                    raise RuntimeError(msg)
            return await super().read(path, **options)

    sandbox = Odd({"d/AGENTS.md": "d"})
    await sandbox.upload([FileBytes(path="c/AGENTS.md", content=b"\x00\xff")])
    found = await answered(sandbox, below=("a", "b", "c", "d"))
    assert [one.path for one in found.files] == ["d/AGENTS.md"]
    assert [one.path for one in found.unread] == ["a/AGENTS.md", "b/AGENTS.md", "c/AGENTS.md"]
    assert found.unread[0].reason == "gone"
    assert "a bug" in found.unread[1].reason


async def test_a_port_that_crashes_is_an_answer():
    """With the code that says whose bug it is; and so is a sandbox that cannot be opened."""
    failed = await answered(None, Above(RuntimeError("broken")))
    assert (failed.error.code, "broken" in failed.error.message) == ("instructions_crashed", True)

    def refuse():
        msg = "no such directory"
        raise SandboxError(msg)

    with pytest.raises(SandboxError):
        await read_instructions(p.ReadInstructions(names=NAMES), refuse, None, keep)


def test_what_stands_in_front_and_cannot_be_read_is_told_although_another_was_found():
    """A directory has one file; an override that nobody can read is no reason to go on without a word."""
    override, plain = UnreadInstructions(path="o", reason="r"), InstructionFile(path="a", text="t")
    found = decide_found([["o", "a", "x"]], {"o": override, "a": plain, "x": override})
    assert (found.files, found.unread) == ((plain,), (override,))


@pytest.fixture
def project(tmp_path):
    """A repository with files for agents at the root, at a package where the session works, and below."""
    here = tmp_path / "root" / "package"
    (here / "sub" / "deep").mkdir(parents=True)
    (tmp_path / "root" / ".git").mkdir()
    for folder, text in ((here.parent, "at the root"), (here, "of the package"), (here / "sub", "of sub")):
        (folder / "AGENTS.md").write_text(text)
    (here / "sub" / "deep" / "x.py").write_text("pass")
    (tmp_path / ".agentrail").mkdir()
    (tmp_path / ".agentrail" / "AGENTS.md").write_text("of the user")
    return here


def looking(systems, turns):
    """A model that reads a file again and again, and keeps what it was shown."""

    def answer(request):
        systems.append((request.system or "", request.messages))
        if len(systems) % turns:
            return calls(("read_file", {"path": "sub/deep/x.py"}))
        return says("Done.")

    return FunctionModel(answer)


def joined(messages):
    return [
        block.text
        for one in messages
        if isinstance(one, UserMessage)
        for block in one.content
        if '<agent_memory name="sub/AGENTS.md">\nof sub\n' in block.text
    ]


@pytest.mark.parametrize("sandbox", ["local", "given"])
async def test_upward_in_the_system_prompt_and_below_once_in_the_conversation(project, sandbox):
    """The user's, the root's, the package's, nearer ones later; that of a touched directory once, and never in the prompt (12.5).

    A sandbox that the caller brought is all that such a session sees: what lies above it may be somebody else's.
    """
    seen = []
    options = {"sandbox": LocalSandbox(project)} if sandbox == "given" else {}
    environ = {"HOME": str(project.parents[1])}
    with trio.fail_after(60):
        async with agentrail.open_supervisor(environ=environ) as supervisor:
            session = await supervisor.start_session(
                model=looking(seen, 3),
                working_dir=project,
                tools=builtin("read_file"),
                plugins=[MemoryLoader],
                **options,
            )
            for _ in range(50):
                await session.ask("Look")
                if joined(seen[-1][1]):
                    break
            await session.ask("Look again")
            messages = await session.messages()
    system = seen[-1][0]
    above = [text in system for text in ("of the user", "at the root", "of the package")]
    assert above == [sandbox == "local", sandbox == "local", True]
    if sandbox == "local":
        assert system.index("of the user") < system.index("at the root") < system.index("of the package")
    assert not any("of sub" in one for one, _ in seen)
    assert len(joined(messages)) == 1
    assert "deep/AGENTS.md" not in str(messages)
    if isinstance(options.get("sandbox"), LocalSandbox):
        await options["sandbox"].aclose()
