"""`agentrail chat` in tmux: a terminal that we did not write, which wraps anew what stands above when it is resized."""

import shutil
import subprocess
import sys
from functools import partial

import pytest
import trio

from tests.cli.rig import wait_until
from tests.forked import ROOT, environment

pytestmark = [
    pytest.mark.check,
    pytest.mark.skipif(
        shutil.which("tmux") is None, reason="tmux is not installed: scripts/install_console_tools.sh"
    ),
]


class Tmux:
    def __init__(self, directory):
        self._socket = str(directory / "tmux")

    def run(self, *arguments):
        return subprocess.run(
            ["tmux", "-S", self._socket, "-f", "/dev/null", *arguments],
            capture_output=True, text=True, check=True, env=environment(TERM="xterm-256color"),
        ).stdout  # fmt: skip

    def text(self):
        """All that the window shows, with what scrolled away, lines that wrapped joined."""
        return self.run("capture-pane", "-p", "-J", "-S", "-")

    async def wait_for(self, wanted):
        with trio.fail_after(60):
            await wait_until(lambda: wanted in self.text())


@pytest.fixture
def tmux(tmp_path):
    """A tmux that is gone behind the test."""
    made = Tmux(tmp_path)
    yield made
    subprocess.run(["tmux", "-S", str(tmp_path / "tmux"), "kill-server"], check=False, capture_output=True)


async def test_a_conversation_in_tmux(tmux, tmp_path):
    """A paste with its brackets is one prompt; a resize leaves no rows of the editor behind; Ctrl-Z and leaving give the shell back."""
    chat = f"{sys.executable} -m agentrail chat --model demo:fast --tools none --data-dir {tmp_path}"
    start = partial(tmux.run, "new-session", "-d", "-x", "100", "-y", "30", "-c", str(ROOT), "sh")
    start()
    tmux.run("send-keys", f"cd {ROOT} && {chat}", "Enter")
    await tmux.wait_for("model demo:fast (--model)")
    await tmux.wait_for("\n>")
    lines = "\n".join(["/quit", *map(str, range(39))])
    tmux.run("set-buffer", lines)
    tmux.run("paste-buffer", "-p")
    await tmux.wait_for("[pasted text 1, 40 lines]")
    tmux.run("send-keys", "Enter")
    await tmux.wait_for("You said: /quit")
    with trio.fail_after(
        15
    ):  # what is being written when a terminal wraps anew is left behind above, by all that draw so
        await wait_until(lambda: tmux.text().rstrip().endswith("\n>"))
    tmux.run("resize-window", "-x", "40", "-y", "20")
    tmux.run("send-keys", "hello", "Enter")
    await tmux.wait_for("You said: hello")
    for stops in range(
        1, 4
    ):  # what goes on for a moment behind the stop gives the shell a terminal that echoes nothing: a race
        tmux.run("send-keys", "C-z")
        with trio.fail_after(60):
            await wait_until(lambda stops=stops: tmux.text().count("Stopped") == stops)
        tmux.run("send-keys", f"echo hears $(({stops} + 40))", "Enter")
        await tmux.wait_for(f"\nhears {stops + 40}")
        tmux.run("send-keys", "fg", "Enter")
        with trio.fail_after(60):
            await wait_until(lambda: tmux.text().rstrip().endswith("\n>"))
    tmux.run("send-keys", "-l", "still there?")
    await tmux.wait_for("> still there?")
    tmux.run("send-keys", "C-c", "C-d")
    await tmux.wait_for("is kept: agentrail chat --resume")
    assert tmux.text().count("You said") == 2
    assert "[pasted text" not in tmux.text()
