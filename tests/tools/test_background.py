"""What a command in the background has printed is kept until it is read, and no more of it than may be."""

import trio
from attrs import evolve
from hypothesis import example, given, strategies as st

from agentrail.abc import MAX_BACKGROUND_COMMANDS, BackgroundCommand, BackgroundCommands
from agentrail.abc.background import MAX_ENDED_COMMANDS, MAX_UNREAD_BYTES
from agentrail.tools import builtin
from tests.tools.rig import CTX

LEFT_OUT = "bytes left out"


def in_trio(test):
    """Run a plain test inside of Trio, whose clock a command reads."""

    async def main():
        await trio.lowlevel.checkpoint()
        test()

    trio.run(main)


@given(
    pieces=st.lists(
        st.tuples(st.sampled_from((1, 7, 9_000, 120_000)), st.booleans(), st.sampled_from("aé\n")), max_size=6
    )
)
@example(pieces=[(120_000, True, "a")])
def test_all_that_was_printed_is_read_or_counted(pieces):
    """In whatever pieces it comes: each byte is in one reading or in the number of those that are left out, and none is in two."""

    def check():
        command = BackgroundCommand("sh-1", "serve")
        came = read = 0
        for size, looks, char in pieces:
            command.take(f"{char}".encode() * size)
            came += len(char.encode()) * size
            if looks:
                read += counted(command.read())
        command.close("exit code 0")
        command.close("stopped")
        text = command.read()
        read += counted(text)
        assert "exit code 0" in text.splitlines()[-1]
        assert read <= came
        # Line ends that close a text, one half of a character that was cut, and nothing else.
        if not any(char == "\n" for _, _, char in pieces):
            assert came - read <= 2 * len(pieces)

    in_trio(check)


def counted(text):
    """Count what a reading shows or says that it leaves out, and that it shows no more than may be kept."""
    *lines, _ = text.split("\n")
    left_out = 0
    if lines and LEFT_OUT in lines[0]:
        left_out = int(lines.pop(0).split()[1].replace(",", ""))
    shown = len("\n".join(lines).encode())
    assert shown <= MAX_UNREAD_BYTES
    return shown + left_out


def test_those_that_have_ended_are_remembered_for_a_while():
    """Eight that run and the last eight that have ended; an id is given once."""

    def check():
        commands = BackgroundCommands()
        ended = []
        for number in range(MAX_ENDED_COMMANDS + 3):
            begun = commands.begin(f"{number:08}-rest", f"c{number}")
            begun.close("stopped")
            ended.append(begun.id)
        for number in range(MAX_BACKGROUND_COMMANDS):
            assert commands.begin("the same operation", f"runs {number}") is not None
        assert commands.begin("one more", "runs") is None
        assert ended[0] == "sh-00000000"
        assert all(commands.find(one) is not None for one in ended[-MAX_ENDED_COMMANDS:])
        assert commands.find(ended[0]) is None
        assert len({one.id for one in commands.running}) == MAX_BACKGROUND_COMMANDS
        assert "sh-the same-8 (runs 7)" in commands.explain_unknown(ended[0])

    in_trio(check)


async def test_what_cannot_be_begun_or_ended_is_said(autojump_clock):
    """A command that is none, a session that could not read it, an id of nothing, and one that does not go."""
    shell, output, stop = builtin("shell", "shell_output", "shell_stop")
    for command, ctx, said in (
        ("\ud800", CTX, "lone surrogate"),
        ("ls", evolve(CTX, tools=("shell",)), "there is no shell_output"),
        ("ls", CTX, "created by hand"),
    ):
        refused = await shell.execute({"command": command, "background": True}, ctx)
        assert said in refused.text
        assert not CTX.commands.running
    stuck = evolve(CTX, commands=BackgroundCommands())
    begun = stuck.commands.begin("stuck", "serve")
    late = await stop.execute({"id": begun.id}, stuck)
    assert late.text.startswith("sh-stuck was told to stop but is still running")
    assert begun.scope.cancel_called
    for tool in (output, stop):
        assert "Running: sh-stuck (serve)." in (await tool.execute({"id": "x"}, stuck)).text
