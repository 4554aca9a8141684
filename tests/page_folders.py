"""What a reader has in front of them when they come to the commands of a page: documents, sessions that were kept, files of other pages."""

import shutil
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

import trio

import agentrail
from agentrail.cli.store_access import StorePlace, reading
from agentrail.stores.sqlite import SqliteStore
from agentrail.tools import builtin
from tests.pages import ROOT, fences_of

IDLE: Final = "s-853b4f5ad153"
CUT_OFF: Final = "s-0736434e18bf"
"""The sessions that pages name."""


def support_desk(folder: Path) -> None:
    """The program that the page is about."""
    shutil.copy(ROOT / "docs" / "examples" / "support_desk" / "support_desk.py", folder)


def documents(folder: Path) -> None:
    """Two documents, of which one is to be removed."""
    (folder / "docs").mkdir()
    (folder / "docs" / "travel.md").write_text("# Trains\n\nTrains are booked in first class.\n")
    (folder / "docs" / "old.md").write_text("# Coaches\n\nCoaches are not booked any more.\n")


def kept_sessions(folder: Path) -> None:
    """A session that is idle, and one whose process was killed while a command ran: the store as it was at that moment."""
    kept = folder / "data" / "agentrail"
    kept.mkdir(parents=True)
    (folder / "tests" / "scenarios").mkdir(parents=True)
    (folder / "work").mkdir()
    trio.run(_live, folder / "work", folder / "live.db", kept / "sessions.db")


async def _live(work: Path, live: Path, kept: Path) -> None:
    async with agentrail.open_supervisor(store=f"sqlite:{live}", shell_fallback="unconfined") as supervisor:
        cut_off = await supervisor.start_session(
            session_id=CUT_OFF, model="demo:fast", tools=builtin("shell"), working_dir=work
        )
        await cut_off.prompt('shell "sleep 1000"')
        await cut_off.wait_for(agentrail.ToolExecutionStart)
        session = await supervisor.start_session(
            session_id=IDLE, model="demo:fast", tools=builtin("list_dir"), working_dir=work
        )
        for _ in range(3):
            await session.ask('list_dir "."')
        with reading(StorePlace(store=f"sqlite:{live}")) as opened:
            assert isinstance(opened, SqliteStore)
            opened.back_up(kept)
        await cut_off.abort("copied")


def audited_sessions(folder: Path) -> None:
    """The log of six cycles, next to their store."""
    trio.run(_live_audited, folder)


async def _live_audited(folder: Path) -> None:
    store, log = f"sqlite:{folder / 'sessions.db'}", f"file:{folder / 'audit.jsonl'}"
    async with agentrail.open_supervisor(store=store, audit=log) as supervisor:
        session = await supervisor.start_session(
            model="demo:fast", tools=builtin("list_dir"), working_dir=folder
        )
        for _ in range(6):
            await session.ask('list_dir "."')


def files_of_the_command(folder: Path) -> None:
    """All that the commands of the reference look at: those above, and files that the page itself shows."""
    documents(folder)
    kept_sessions(folder)
    audited_sessions(folder)
    shown = {one.body.split()[0]: one.body for one in fences_of("docs/reference/cli.md")}
    (folder / "permissions.toml").write_text(shown["mode"])
    (folder / "event.json").write_text(shown['{"hook":'])
    (folder / "my_app").mkdir()
    (folder / "my_app" / "agents.py").write_text(
        "from agentrail.plugins import SecurityGuard\n\nSTACK = [SecurityGuard]\n"
    )
    skill = folder / ".agents" / "skills" / "release"
    skill.mkdir(parents=True)
    (skill / "SKILL.md").write_text("---\nname: release\ndescription: How we release.\n---\n\nTag last.\n")
    subprocess.run(["git", "init", "-q"], cwd=folder, check=True)
    (folder / "notes.txt").write_text("one\n")
    subprocess.run(["git", "add", "notes.txt"], cwd=folder, check=True)
    (folder / "notes.txt").write_text("two\n")


PREPARED: Final[Mapping[str, Callable[[Path], None]]] = {
    "docs/examples/support_desk/README.md": support_desk,
    "docs/how-to/keep-and-resume-sessions.md": kept_sessions,
    "docs/how-to/fork-and-rewind.md": kept_sessions,
    "docs/how-to/keep-an-audit-log.md": audited_sessions,
    "docs/reference/cli.md": files_of_the_command,
}
"""By page: what is put into the empty directory in which its commands are played."""
