"""Each program of README and docs ends by itself, whatever the model does: it fails, it is aborted, or it says nothing for ever.

The code of a page is run as it stands there, on virtual time, with another model behind every session. What it asserts of its
own model does not hold then, so a program may end with an error of ours or of its own; what it may not do is wait for ever.
"""

import ast
import re
import runpy
import textwrap
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import pytest
import trio
import trio.testing

import agentrail
from agentrail import app, blocking
from agentrail.core.protocol.request import TextDelta
from agentrail.errors import AgentrailError, Authentication, SessionDown
from agentrail.runtime import assembly, model_lookup
from agentrail.runtime.session_handle import Session
from agentrail.runtime.supervisor import SessionSupervisor
from agentrail.testing.clock import FakeClock
from tests.thinned import paired, sampled

pytestmark = [pytest.mark.experience("X-001")]

HOW: Final = ("fails", "is aborted", "is silent")
ROOT: Final = Path(__file__).parents[2]
BLOCK: Final = re.compile(r"(<!-- skip: next -->\n+)?^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
ASKS: Final = re.compile(
    r"\b(start_session|open_session|open_nameless)\((.|\n)*(?<!trio)\.(ask|run|stream|prompt)\(|\bcall_tool\("
)
# Installed by `make examples` alone, whose tests hold those programs to the same.
FRAMEWORKS: Final = re.compile(r"^from (fastapi|starlette|hypercorn)\b", re.MULTILINE)
# Servers and collectors are programs that do not run here, and the client of `mcp` leaves generators behind where it is cancelled.
OTHERS: Final = re.compile(r"McpServer\(|OpenTelemetry\(exporter=\"|^from mcp import Client$", re.MULTILINE)
PROGRAM: Final = re.compile(r"\A(async )?with (.|\n)*\bsession\.(ask|run|stream|subscribe)\(")
IN_A_DOCSTRING: Final = re.compile(r"(?:^ {4}.*\n|^\n)+", re.MULTILINE)
# What a program has, and hardly any module: each worker looks through all of them before its first test.
PERHAPS: Final = re.compile(
    r"^ {4,}(async )?with (.|\n)*\bsession\.(ask|run|stream|subscribe)\(", re.MULTILINE
)

BOUND_SECONDS: Final = 4 * 3600
"""Of virtual time: a silent model is given up in minutes, also when it is asked again and again."""
STEP_SECONDS: Final = 60
STEP_REALLY: Final = 0.002
"""Virtual time does not wait for threads, so each of its minutes leaves them a moment."""
ABORT_EACH_SECONDS: Final = 1.0
HANGS_REALLY_SECONDS: Final = 60
MANY_TIMES_AS_FAST: Final = 20_000.0
"""Where other threads ask, nothing says when all wait, so time is fast and jumps nowhere."""


class Hung(BaseException):  # past every `except Exception` of an example
    """A program waited for ever."""


class OtherModel:
    """A provider that looks like another one, and behaves badly."""

    def __init__(self, provider: Any, how: str, opened: list[str]) -> None:
        self._provider = provider
        self._how = how
        self._opened = opened

    def __getattr__(self, name: str) -> Any:
        return getattr(self._provider, name)

    @asynccontextmanager
    async def open_stream(self, request):
        """Open a stream that does what this model does."""
        self._opened.append(request.model)
        await trio.lowlevel.checkpoint()
        if self._how == "fails":
            message = "unknown key"
            raise Authentication(message)

        async def chunks():
            if self._how == "is aborted":
                yield TextDelta("Well, ")
            await trio.sleep_forever()

        stream = chunks()
        try:
            yield stream
        finally:
            await stream.aclose()


class World:
    """Where the programs of a page run: every model is another one, time is virtual, and operators abort."""

    def __init__(self, how: str) -> None:
        self.how = how
        self.opened: list[str] = []
        self.sessions: list[Session] = []

    def enter(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Put it in the place of the real one."""
        find, start, run = model_lookup.find_provider, SessionSupervisor._start, trio.run  # noqa: SLF001 - all doors lead through it

        def find_other(*given: Any) -> tuple[str, Any]:
            name, provider = find(*given)
            return name, OtherModel(provider, self.how, self.opened)

        async def start_noted(supervisor: SessionSupervisor, *given: Any, **options: Any) -> Session:
            session = await start(supervisor, *given, **options)
            self.sessions.append(session)
            return session

        def run_bounded(main: Callable[..., Awaitable[Any]], *given: Any, **options: Any) -> Any:
            is_threaded = threading.current_thread() is not threading.main_thread()
            clock = (
                trio.testing.MockClock(rate=MANY_TIMES_AS_FAST, autojump_threshold=float("inf"))
                if is_threaded
                else FakeClock()
            )
            return run(self._bounded, main, given, **{"clock": clock, **options})

        def open_in_memory(store: Any, *given: Any) -> Any:
            # A disk answers in real time, of which hours pass here in a moment.
            return open_store("memory:" if isinstance(store, str) else store, *given)

        open_store = app.opened_store  # type: ignore[attr-defined]  # all supervisors open theirs by this name
        monkeypatch.setattr(app, "opened_store", open_in_memory)
        monkeypatch.setattr(assembly, "find_provider", find_other)
        monkeypatch.setattr(model_lookup, "find_provider", find_other)
        monkeypatch.setattr(SessionSupervisor, "_start", start_noted)
        monkeypatch.setattr(trio, "run", run_bounded)

    async def _bounded(self, main: Callable[..., Awaitable[Any]], given: tuple[Any, ...]) -> Any:
        # What it raises goes past the nursery, which would wrap it: examples catch what is documented.
        raised: BaseException | None = None
        result = None
        hung = False

        async def keep_time() -> None:
            nonlocal hung
            for _ in range(BOUND_SECONDS // STEP_SECONDS):
                await trio.sleep(STEP_SECONDS)
                time.sleep(STEP_REALLY)  # noqa: ASYNC251 - of the real time, for threads
            hung = True
            nursery.cancel_scope.cancel()

        async with trio.open_nursery() as nursery:
            if threading.current_thread() is threading.main_thread():
                nursery.start_soon(keep_time)
            if self.how == "is aborted":
                nursery.start_soon(self._abort_all)
            try:
                result = await main(*given)
            except trio.Cancelled:
                raise
            except BaseException as error:  # noqa: BLE001 - raised below
                raised = error
            nursery.cancel_scope.cancel()
        if hung:
            message = f"it waited for {BOUND_SECONDS / 3600:g} hours, and longer"
            raise Hung(message)
        if raised is not None:
            raise raised
        return result

    async def _abort_all(self) -> None:
        while True:
            await trio.sleep(ABORT_EACH_SECONDS)
            for session in tuple(self.sessions):
                with suppress(SessionDown):
                    await session.abort("an operator wants it", wait=False)


def pages() -> Iterator[Path]:
    for page in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))):
        code = "\n".join(code for _, code in programs_in(page))
        others = OTHERS.search(code)
        if ASKS.search(code) and not others and all(map(find_spec, FRAMEWORKS.findall(code))):
            yield page


def programs_in(page: Path) -> Iterator[tuple[int, str]]:
    """The examples of a page that run in the tests, with their lines."""
    text = page.read_text(encoding="utf-8")
    for found in BLOCK.finditer(text):
        if found[1] is None:
            yield text.count("\n", 0, found.start(2)) + 1, found[2]


def run_page(page: Path) -> list[str]:
    """Run the code of a page, statement by statement, and say what each raised that ended otherwise than it says."""
    names: dict[str, Any] = {"__name__": "example"}
    ended: list[str] = []
    for line, code in programs_in(page):
        for statement in ast.parse(code).body:
            ast.increment_lineno(statement, line - 1)
            compiled = compile(ast.Module([statement], []), str(page), "exec", dont_inherit=True)
            try:
                exec(compiled, names)  # noqa: S102 - our own pages
            except Exception as error:  # noqa: BLE001 - looked at by the caller
                if not _is_an_end(error):
                    ended.append(f"{page.name}:{statement.lineno}: {error!r:.300}")
    return ended


def run_in_thread(function: Callable[[], object]) -> None:
    """Run what blocks in a thread, which may be left behind."""
    thread = threading.Thread(target=function, daemon=True)
    thread.start()
    thread.join(HANGS_REALLY_SECONDS)
    assert not thread.is_alive(), "it waits for ever"


def docstrings() -> Iterator[tuple[str, str]]:
    """Programs in what is said of modules, classes and functions: where they stand, and their text."""
    for path in sorted((ROOT / "agentrail").rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        if not PERHAPS.search(text):
            continue
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                for found in IN_A_DOCSTRING.finditer(f"{ast.get_docstring(node) or ''}\n"):
                    code = textwrap.dedent(found[0]).strip()
                    if PROGRAM.search(code):
                        yield f"{path.stem}.{getattr(node, 'name', '')}", code


async def run_fragment(code: str) -> None:
    """Run a program that may need a session, and a package, that it does not make."""
    names: dict[str, Any] = {"agentrail": agentrail}
    exec(f"async def main(session):\n{textwrap.indent(code, '    ')}\n", names)  # noqa: S102 - our own docstrings
    async with agentrail.open_session(model="demo:fast") as session:
        await names["main"](session)


def _is_an_end(error: BaseException) -> bool:
    if isinstance(error, BaseExceptionGroup):
        return all(map(_is_an_end, error.exceptions))
    # A name is missing where the statement that gives it raised before.
    return isinstance(error, AgentrailError | AssertionError | NameError | trio.TooSlowError)


@pytest.mark.parametrize(
    ("page", "how"),
    sampled(paired(list(pages()), HOW)),
    ids=lambda value: str(value.relative_to(ROOT)) if isinstance(value, Path) else None,
)
def test_each_example_ends_when_its_model(page, how, monkeypatch, tmp_path):
    """With its result, an error of ours or an assertion of its own; never not at all."""
    world = World(how)
    world.enter(monkeypatch)
    monkeypatch.chdir(tmp_path)
    ended = []
    if "blocking.Supervisor" in page.read_text(encoding="utf-8"):
        run_in_thread(lambda: ended.extend(run_page(page)))
    else:
        ended = run_page(page)
    assert ended == []
    assert world.opened, "no model was asked: the test would prove nothing"


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize(("where", "code"), [pytest.param(*one, id=one[0]) for one in docstrings()])
def test_each_docstring_ends_when_its_model(where, code, how, monkeypatch):
    """Programs in docstrings are copied like those of pages."""
    world = World(how)
    world.enter(monkeypatch)
    if re.search(r"^\s*async ", code, re.MULTILINE):
        with suppress(AgentrailError):
            trio.run(run_fragment, code)
    else:

        def run() -> None:
            with suppress(AgentrailError):
                exec(code, {"blocking": blocking})  # noqa: S102 - our own docstrings

        run_in_thread(run)
    assert world.opened, where


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("name", ["structured_answer", "support_bot"])
def test_each_program_ends_when_its_model(name, how, monkeypatch, capsys):
    """The ones of docs/examples that are started with a question: they say why there is no answer."""
    world = World(how)
    world.enter(monkeypatch)
    program = runpy.run_path(str(ROOT / "docs" / "examples" / name / f"{name}.py"))
    trio.run(program["main"], "Where is my kettle?")
    assert world.opened
    assert capsys.readouterr().out.startswith("No ")


HANGS: Final = """
async def main():
    async with agentrail.open_session(model="demo:fast") as session:
        async with session.subscribe() as events:
            await session.prompt("What is the weather in Lisbon?")
            async for event in events:
                if isinstance(event, agentrail.AgentEnd):
                    break

trio.run(main)
"""


@pytest.mark.parametrize(
    "how", [pytest.param(how, marks=() if how == "is silent" else pytest.mark.check) for how in HOW]
)
def test_an_example_that_hangs_is_noticed(how, monkeypatch):
    """The first page had this one, and hung against a server that answers 404."""
    World(how).enter(monkeypatch)
    with pytest.raises(Hung):
        exec(HANGS, {"agentrail": agentrail, "trio": trio})  # noqa: S102 - it stands above
