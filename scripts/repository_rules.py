"""Rules of pages and source files that need no test run: `python -m scripts.repository_rules`, which `make lint-repository` calls.

Prints each fault and exits with 1 if there is one. A rule is a generator of faults, listed in `RULES`.
"""

# ruff: noqa: PLR2004, SIM905 - numbers and lists of words of pages

import ast
import datetime
import gc
import inspect
import io
import json
import re
import shlex
import shutil
import subprocess
import sys
import tokenize
import tomllib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from importlib import import_module, metadata
from itertools import groupby
from pathlib import Path
from typing import Any, Final, get_args

import attrs
import msgspec
from cyclopts import CycloptsError, ValidationError
from packaging.requirements import Requirement

import agentrail
import agentrail.cli
from agentrail.abc.store import StoredSnapshot
from agentrail.blueprints.builder import built_in_plugins
from agentrail.cli import command_tree
from agentrail.cli.resume_option import fill_in_latest
from agentrail.cli.serve_options import ServeFlags
from agentrail.commands.markdown import CommandFile, read_command
from agentrail.commands.slash_command import SlashCommand
from agentrail.config.config_file import read_agent, read_permissions, read_toml
from agentrail.config.skill_file import read_skill
from agentrail.core.journal.record import OWN_KINDS, RECORD_VERSION, Record
from agentrail.core.protocol.effects import Effect
from agentrail.core.protocol.signals import Signal
from agentrail.core.wire.codec import SIGNAL_KINDS
from agentrail.distribution import NAME, PUBLISHED
from agentrail.errors import AgentrailError, ToolDefinitionError
from agentrail.events import KINDS, Event
from agentrail.gateway.app import OWN_OPTIONS, ROUTES
from agentrail.gateway.error_responses import ERROR_ANSWERS
from agentrail.gateway.socket_calls import socket_commands
from agentrail.gateway.sse_frames import DoneReason
from agentrail.host.host_options import HostOptions
from agentrail.host.quotas import Limits
from agentrail.runtime.session_handle import Session
from agentrail.runtime.supervisor import SessionSupervisor
from agentrail.tools import builtin
from agentrail.wire.server_frames import CloseCode
from scripts import api_pages, decisions_page, journal_page
from scripts.docsite import pages
from scripts.docsite.nav import ROOT, read_nav
from scripts.generate_docs import ACTOR_SECTIONS, fields_in
from scripts.module_survey import nodes_of
from scripts.names_pages import names_of_module, public_names
from scripts.operation_rules import operation_files
from scripts.source_rules import (
    PACKAGE,
    SOURCE_RULES,
    Faults,
    imported_from,
    lacking,
    modules,
    project,
    text_of,
    unlike,
)
from tests.consoles import FENCE as CONSOLE_FENCE, steps_in
from tests.pages import NOT_PLAYED, PAGES, RUN_BY, SHOWN_ONLY, Fence, fences_of

DOCS: Final = ROOT / "docs"
REFERENCE: Final = DOCS / "reference"
EXAMPLES: Final = DOCS / "examples"
FENCE: Final = re.compile(r"^ *```.*?^ *```$", re.MULTILINE | re.DOTALL)
DRAWN: Final = "<!-- Drawn from"


# --- files


@cache
def repository_files() -> tuple[Path, ...]:
    """Return the files that git has or would add; without git, all files that no tool made."""
    if shutil.which("git") and (ROOT / ".git").exists():
        command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
        listed = subprocess.run(command, cwd=ROOT, capture_output=True, check=True).stdout.decode()  # noqa: S603 - git
        return tuple(path for name in listed.split("\0") if name and (path := ROOT / name).is_file())
    made = {"__pycache__", "build", "dist", "bench-results"}
    return tuple(
        path
        for path in ROOT.rglob("*")
        if path.is_file()
        and not any(
            (part.startswith(".") and part != ".ci") or part in made for part in path.relative_to(ROOT).parts
        )
    )


PRIVATE: Final = re.compile(
    rb"/wo[r]k/|shared/[s]pec|pyp[i]\.org|files\.pythonhos[t]ed\.org|registry\.npm[j]s\.org|deb\.debia[n]\.org|proxy\.gola[n]g\.org"
)
"""Paths of one machine, and hosts of registries, which the ordinary clients know."""


def private_places() -> Faults:
    """Find paths of one machine and hosts of registries."""
    for path in repository_files():
        if found := PRIVATE.search(path.read_bytes()):
            yield f"{path.relative_to(ROOT)}: names {found[0].decode()}"


def unlisted_folders() -> Faults:
    """Find folders in the root that CONTRIBUTING.md does not list, such as what a trial left there."""
    listed = (ROOT / "CONTRIBUTING.md").read_text()
    folders = {path.relative_to(ROOT).parts[0] for path in repository_files() if path.parent != ROOT}
    yield from (
        f"{folder}/ is in no row of CONTRIBUTING.md"
        for folder in sorted(folders)
        if f"| `{folder}/`" not in listed
    )


# --- pages


def readers_pages() -> list[str]:
    """Return all Markdown files for readers, from the root."""
    below = [one.relative_to(ROOT).as_posix() for one in DOCS.rglob("*.md") if one != DOCS / "README.md"]
    root = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md", "CODE_OF_CONDUCT.md")
    return [*root, *(one for one in below if not re.match(r"docs/examples/[^/]+/[^/]+/", one))]


@cache
def headings_of(text: str) -> set[str]:
    """Return the anchors of a page."""
    return {pages.github_anchor(one) for one in re.findall(r"^#+ (.+)$", FENCE.sub("", text), re.MULTILINE)}


def links_in(text: str) -> list[str]:
    """Return the links of a page within the repository."""
    found = re.findall(r"\]\(([^)\s]+)\)", re.sub(r"`[^`\n]*`", "x", FENCE.sub("", text)))
    return [one for one in found if not one.startswith(("http:", "https:", "mailto:"))]


def broken_links() -> Faults:
    """Find links to missing files and headings."""
    for page in map(ROOT.joinpath, {*readers_pages(), *(str(one) for one in DOCS.rglob("*.md"))}):
        for target in links_in(text_of(page)):
            path, _, anchor = target.partition("#")
            found = (page.parent / path).resolve() if path else page
            if not found.exists() or (
                anchor and found.suffix == ".md" and anchor not in headings_of(text_of(found))
            ):
                yield f"{page.relative_to(ROOT)}: links to {target}, which does not exist"


def order_of_pages() -> Faults:
    """Compare the pages with the order of the site, and look for titles and first sentences."""
    order = read_nav()
    yield from unlike("pages in mkdocs.yml", [page.file for page in order], readers_pages())
    if len({page.file for page in order}) < len(order):
        yield "mkdocs.yml: lists a page twice"
    parts = [part for part, _ in groupby(page.parts[0] for page in order)]
    if parts != "Start Build Serve Operate Test Understand Reference".split():
        yield f"mkdocs.yml: the parts are {parts}"
    for page in order:
        text = text_of(ROOT / page.file)
        if not (pages.title_of(text) and pages.first_sentence(text)):
            yield f"{page.file}: needs a title and a first sentence"
    readme = text_of(ROOT / "README.md").partition("## Next steps")[2]
    if pages.target_of(next(pages.links_in(readme)), "README.md") != order[1].file:
        yield f"README.md: the first of its next steps should be {order[1].file}"


MIN_CHARACTERS: Final = 60
MAX_EQUAL_WORDS: Final = 14


def paragraphs_of(text: str) -> list[str]:
    """Return the paragraphs of sentences of a page: no code, tables or headings."""
    text = re.sub(r"^ *```.*?^ *```$|<!--.*?-->", "", text, flags=re.MULTILINE | re.DOTALL)
    found = (" ".join(one.split()) for one in re.split(r"\n\s*\n|\n(?=- )", text))
    return [one for one in found if len(one) >= MIN_CHARACTERS and one[0] not in "|#<"]


def runs_of_words(text: str) -> set[str]:
    """Return every run of that many words of a page, without its code, pictures and links."""
    text = re.sub(r"^ *```.*?^ *```$|<[^>]+>|\]\([^)]*\)", "", text, flags=re.MULTILINE | re.DOTALL)
    words = re.findall(r"[\w']+", text.lower())
    return {" ".join(words[at : at + MAX_EQUAL_WORDS]) for at in range(len(words) - MAX_EQUAL_WORDS + 1)}


def repeated_text(texts: Mapping[str, str]) -> Faults:
    """Find paragraphs that occur twice, and pages that share a long run of words."""
    counted = Counter(paragraph for text in texts.values() for paragraph in paragraphs_of(text))
    yield from (f"this paragraph occurs twice: {one}" for one, count in counted.items() if count > 1)
    places: dict[str, str] = {}
    for name, text in texts.items():
        if "/decisions/" in name:  # records repeat names
            continue
        twins = {places[run] for run in runs_of_words(text) if places.setdefault(run, name) != name}
        yield from (f"{twin} and {name} share {MAX_EQUAL_WORDS} words in a row" for twin in sorted(twins))


def repeated_pages() -> Faults:
    """Find repeated text in all pages that are not drawn from the code."""
    texts = {name: text_of(ROOT / name) for name in readers_pages()}
    yield from repeated_text({name: text for name, text in texts.items() if DRAWN not in text})


def imports_of_the_core() -> Faults:
    """Find pages and docstrings that send a reader to the core."""
    for page in (ROOT / "README.md", *DOCS.rglob("*.md")):
        if re.search(r"^\s*(>>> )?(from|import) agentrail\.core\b", text_of(page), re.MULTILINE):
            yield f"{page.relative_to(ROOT)}: imports from agentrail.core"
    for name, source in modules().items():
        is_outside = not name.startswith("core/") and not name.endswith("__init__.py")
        if is_outside and any("agentrail.core." in text for text in docstrings_in(source)):
            yield f"agentrail/{name}: a docstring names agentrail.core"


def docstrings_in(source: str) -> Iterator[str]:
    """Yield the docstrings of a module if it may have such a name."""
    for node in nodes_of(source) if "agentrail.core." in source else ():
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield ast.get_docstring(node, clean=False) or ""


def gallery() -> Faults:
    """Compare the gallery, and the page that compares lengths, with the programs of docs/examples."""
    text = text_of(EXAMPLES / "README.md")
    for name in sorted(one.name for one in EXAMPLES.iterdir() if (one / "pyproject.toml").is_file()):
        row = rf"^\| .*\]\({name}/.*\[tests\]\({name}/tests/test_{name}\.py\) \|$"
        if not re.search(row, text, re.MULTILINE):
            yield f"docs/examples/README.md: has no row with the tests of {name}"
    counted = re.findall(r"\]\((\w+/\w+\.py|\w+/README\.md)\), (\d+) lines", text)
    lengths = [
        (EXAMPLES, page.replace("README.md", f"{page.partition('/')[0]}.py"), n) for page, n in counted
    ]
    side_by_side = DOCS / "explanation"
    compared = re.findall(r"\[(\d+) lines\]\((\S+)\)", text_of(side_by_side / "side-by-side.md"))
    lengths += [(side_by_side, program, lines) for lines, program in compared]
    if len(compared) != 9:
        yield "docs/explanation/side-by-side.md: expected three programs of three libraries"
    for folder, program, lines in lengths:
        if int(lines) != len(text_of((folder / program).resolve()).splitlines()):
            yield f"{program}: does not have {lines} lines"


def examples() -> Faults:
    """Hold the programs of docs/examples to the public doors, and the first three to forty lines."""
    public = {"agentrail", "agentrail.plugins", "agentrail.host", "agentrail.gateway"}
    of_agents = {
        f"agentrail.{one}" for one in "blueprints tools tools.exit_plan stores.knowledge_sqlite".split()
    }
    of_agents |= {f"agentrail.{one}" for one in "abc events messages testing.models".split()}
    for program in sorted(EXAMPLES.glob("*/*.py")):
        allowed = public | of_agents if program.parent.name in {"coding", "help_desk", "research"} else public
        if not imported_from(text_of(program)) <= allowed:
            yield f"{program.relative_to(ROOT)}: imports from {imported_from(text_of(program)) - allowed}"
        is_short = program.stem in {"structured_answer", "support_bot", "web_server"}
        if is_short and len(text_of(program).splitlines()) > 40:
            yield f"{program.relative_to(ROOT)}: has more than 40 lines"
    for name in ("web_server", "on_starlette"):
        program = EXAMPLES / "web_server" / f"{name}.py"
        if f"```python\n{text_of(program)}```" not in text_of(DOCS / "how-to" / "behind-fastapi.md"):
            yield f"docs/how-to/behind-fastapi.md: does not show {name}.py word for word"


def unrun(fences: Iterable[Fence]) -> Faults:
    """Find programs of pages that neither Sybil nor a test of the list in `tests/pages.py` runs."""
    for one in fences:
        is_read = one.page != "CONTRIBUTING.md" and not one.page.startswith("docs/examples/")
        is_run = one.kind == "python" and is_read and not one.is_skipped
        if one.kind not in {*SHOWN_ONLY, "console", *RUN_BY.get(one.page, {})} and not is_run:
            yield f"{one.page}: nothing runs this fence of {one.kind or 'no language'}: {one.body[:60]!r}"


def programs_of_pages() -> Faults:
    """Find programs that nothing runs, and lines of `tests/pages.py` about fences, tests or commands that no longer exist."""
    fences = [one for page in PAGES for one in fences_of(page)]
    yield from unrun(fences)
    kinds = {(one.page, one.kind) for one in fences}
    for page, run_by in RUN_BY.items():
        for kind, test in run_by.items():
            path, _, name = test.partition("::")
            if (page, kind) not in kinds or (name and f"def {name}(" not in text_of(ROOT / path)):
                yield f"tests/pages.py: {page} has no fence of {kind}, or there is no {test}"
    for page, left in NOT_PLAYED.items():
        steps = [
            step.command
            for one in fences
            if one.page == page and one.kind == "console"
            for step in steps_in(one.body)
        ]
        for begin in left:
            if not any(one.startswith(begin) for one in steps):
                yield f"tests/pages.py: {page} has no command that begins with {begin!r}"


def heads_of(page: str) -> list[str]:
    """Return the Markdown files with a head that a page shows."""
    shown = [one.body for one in fences_of(page) if "---\n" in one.body]
    return [re.split(r"^(?=---$)", one, maxsplit=1, flags=re.MULTILINE)[1] for one in shown]


def shown_files() -> Faults:
    """Read the files that pages show: configuration, tokens, permissions, an agent, a skill and a slash command."""
    for one in (
        one
        for page in PAGES
        if page not in {"docs/reference/cli.md", "docs/how-to/run-evals-in-ci.md"}  # the second shows an eval
        for one in fences_of(page)
        if one.kind == "toml"
    ):
        yield from (f"{one.page}: {fault}" for fault in read_toml("agentrail.toml", one.body).faults)
    shown = {
        one.body.split()[0]: one.body
        for one in fences_of("docs/reference/cli.md")
        if one.kind in {"toml", "json"}
    }
    yield from unlike("files in cli.md", shown, ["[[token]]", "mode", '{"hook":'])
    (token,) = tomllib.loads(shown["[[token]]"])["token"]
    yield from unlike("a token in cli.md", token, ["digest", "tenant", "user", "scopes", "expires"])
    yield from map(str, read_permissions("permissions.toml", shown["mode"]).faults)
    if json.loads(shown['{"hook":'])["hook"] != "BeforeTool":
        yield "cli.md: expected an event of BeforeTool"
    (agent,), (skill,) = heads_of("docs/how-to/configure-agents.md"), heads_of("docs/how-to/use-skills.md")
    yield from map(str, read_agent("reviewer.md", "reviewer", agent).faults)
    read = read_skill("SKILL.md", "release", skill)
    yield from map(str, (*read.faults, *read.warnings))
    (command,) = heads_of("docs/how-to/write-slash-commands.md")
    file = CommandFile(name="commit.md", path="git/commit.md", data=command.encode(), source="project")
    if not isinstance(read_command(file), SlashCommand):
        yield "docs/how-to/write-slash-commands.md: its command cannot be read"


def commands_in(text: str) -> Iterator[str]:
    """Yield the commands of ours on a page, without those that it shows refused."""
    for kind, body in CONSOLE_FENCE.findall(text):
        for step in steps_in(body) if kind == "console" else ():
            found = re.search(r"(?:^|\$\(|\| )agentrail ([^|>)]*)", step.command)
            is_refused = any(line.startswith("agentrail: ") for line in step.shown)
            if found and not (is_refused and "added to" not in step.shown[0]):
                yield found[1].strip()


def wrong_command(command: str) -> str:
    """Return what the command line has against a command; a file of the reader's may be missing."""
    arguments = fill_in_latest(shlex.split(command))
    try:
        command_tree.app.parse_args(arguments, print_error=False, exit_on_error=False)
    except CycloptsError as error:
        return "" if isinstance(error, ValidationError) and "does not exist" in str(error) else str(error)
    return ""


def shown_commands() -> Faults:
    """Parse every command on a page, also where it needs a builder, a service or another machine."""
    for page in PAGES:
        for command in commands_in(text_of(ROOT / page)):
            if fault := wrong_command(command):
                yield f"{page}: agentrail {command}: {fault}"


def promises() -> Faults:
    """Look for seven promises, each with a link to a file of tests."""
    promised = re.split(r"^## (?=\d\. )", text_of(DOCS / "explanation" / "promises.md"), flags=re.MULTILINE)[
        1:
    ]
    if [one[0] for one in promised] != list("1234567"):
        yield "docs/explanation/promises.md: expected promises 1 to 7"
    for promise in promised:
        shown = re.findall(r"\]\(\.\./\.\./((?:property_)?tests/\S+\.py)\)", promise)
        if not any("def test_" in text_of(ROOT / one) for one in shown):
            yield f"docs/explanation/promises.md: names no test: {promise[:40]}"


def readme_counts() -> Faults:
    """Compare the numbers of the README with the code."""
    readme = text_of(ROOT / "README.md")
    tools: list[str] = []
    try:
        builtin("none of them")
    except ToolDefinitionError as error:
        tools = str(error).partition("There are: ")[2].split(", ")
    counts = {"kinds": re.findall(r"(\d+) kinds of events", readme)}
    for what in ("Plugins", "Tools"):
        counts[what] = re.findall(rf"^- \*\*{what}\*\*: .*?(\d+) are built in", readme, re.MULTILINE)
    wanted = {"kinds": len(KINDS), "Plugins": len(built_in_plugins()), "Tools": len(tools)}
    for what, count in wanted.items():
        if counts[what] != [f"{count}"]:
            yield f"README.md: counts {counts[what]} of {what}, and there are {count}"


def decision_records() -> Faults:
    """Check numbers, dates, titles and lengths of the records of decisions."""
    found = [
        one
        for page in sorted(decisions_page.FOLDER.glob("*.md"))
        for one in decisions_page.read_records(text_of(page))
    ]
    counted = Counter(one.number for one in found)
    yield from (
        f"decision {number}: its number is given twice" for number, count in counted.items() if count > 1
    )
    for one in found:
        try:
            datetime.date.fromisoformat(one.date)
        except ValueError:
            yield f"decision {one.number}: {one.date} is not a date"
        if int(one.number) > decisions_page.LAST_NUMBER:
            yield f"decision {one.number}: raise LAST_NUMBER in scripts/decisions_page.py"
        if len(one.text.split()) > decisions_page.MAX_WORDS:
            yield f"decision {one.number}: has more than {decisions_page.MAX_WORDS} words"
        if not re.match(r"[A-Z`\"].*[^.]$", one.title):
            yield f"decision {one.number}: its title should begin with a capital and end without a period"


# --- the reference


def rows_of(page: str) -> set[str]:
    """Return the code at the beginning of each row and heading of a page."""
    text = text_of(REFERENCE / page)
    first = re.findall(r"^(?:\| (?:\d+ \| )?\[?|#+ |\*\*)`([^`]+)`", text, re.MULTILINE)
    codes = re.findall(r"^\| \d+ \| (`[^|]+) \|", text, re.MULTILINE)  # of one status, with one remedy
    return {*first, *(code for cell in codes for code in re.findall(r"`([^`]+)`", cell))}


def error_classes(root: type[AgentrailError]) -> Iterator[type[AgentrailError]]:
    """Yield an error and all errors below it."""
    yield root
    for below in root.__subclasses__():
        yield from error_classes(below)


def reference() -> Faults:
    """Look for each event, signal, effect, error, route, code, frame and option in the reference."""
    spans = [span for page in REFERENCE.rglob("*.md") for span in re.findall(r"`([^`\n]+)`", text_of(page))]
    named = {word for span in spans for word in re.findall(r"[A-Za-z_][\w-]*", span)}
    for union in (Event, Signal, Effect):
        yield from lacking("union members in the reference", named, [one.__name__ for one in get_args(union)])
    yield from lacking("kinds in the reference", named, KINDS.values())
    errors = {one.__name__: one for one in error_classes(AgentrailError)}
    public = {name for name, one in errors.items() if one.__module__.startswith("agentrail.errors.")}
    yield from lacking("errors in the reference", named, public)
    for event in get_args(Event):
        fields = [field.name for field in msgspec.structs.fields(event) if field.name != "meta"]
        if [name for name, _ in fields_in(event)] != fields:
            yield f"{event.__name__}: its docstring should describe {fields}, in this order"
    served: dict[str, set[str]] = {
        "routes.md": {f"{one.method} {one.path.replace(':path', '')}" for one in ROUTES}
        | {row.code or code for code, row in ERROR_ANSWERS.items()},
        "wire.md": {*get_args(DoneReason), *socket_commands(ROUTES)}
        | {"hello", "subscribe", "unsubscribe", "ping", "welcome", "subscribed", "reply", "event", "pong"}
        | {"lag", "closing"},
        "server-options.md": {*OWN_OPTIONS, *(one.name for one in attrs.fields(HostOptions) if one.init)}
        | {one.name for one in attrs.fields(Limits)}
        | {f"--{one.name.replace('_', '-')}" for one in attrs.fields(ServeFlags)},
    }
    for page, wanted in served.items():
        yield from lacking(page, rows_of(page), wanted)
    closes = re.findall(r"^\| (\d{4}) \|", text_of(REFERENCE / "wire.md"), re.MULTILINE)
    yield from unlike("close codes in wire.md", closes, [f"{code.value}" for code in CloseCode])
    shown = [name for names in ACTOR_SECTIONS.values() for name in names.split()]
    yield from unlike("ACTOR_SECTIONS", shown, {*names_of_module("agentrail.actors")} - errors.keys())


NUMBERS: Final = "one two three four five six seven eight nine".split()
ALIASES: Final = frozenset({"replay", "store"})
"""Commands that are a short name of another command."""


def commands() -> Faults:
    """Compare the page of the command with the commands."""
    names = {name for name in agentrail.cli.app if not name.startswith("-")}
    text = text_of(REFERENCE / "cli.md")
    yield from lacking("rows of cli.md", rows_of("cli.md"), names)
    headings = "".join(re.findall(r"^## .*$", text, re.MULTILINE))
    described = re.findall(r"`(?:agentrail )?([\w-]+)`", headings)
    yield from lacking("sections of cli.md", described, names - ALIASES)
    ((tens, ones),) = re.findall(
        r"^`agentrail` has (twenty|thirty)(?:-(\w+))? commands\.", text, re.MULTILINE
    )
    if len(names) != {"twenty": 20, "thirty": 30}[tens] + (NUMBERS.index(ones) + 1 if ones else 0):
        yield f"cli.md: there are {len(names)} commands"


def calls() -> Faults:
    """Compare the sections of the pages of calls with the classes, and look for docstrings of public names."""
    tables: dict[type, Iterable[str]] = {
        Session: api_pages.SESSION.values(),
        SessionSupervisor: api_pages.SUPERVISOR.values(),
    }
    for kind, sections in tables.items():
        shown = [name for names in sections for name in names.split()]
        yield from unlike(kind.__name__, shown, api_pages.public_names(kind))
    for kind, listed in api_pages.GIVEN.items():
        shown = [name for name in listed.split() if not name.startswith("_")]
        yield from unlike(kind.__name__, shown, api_pages.public_names(kind) - api_pages.OF_A_SUBSCRIPTION)
    for one in public_names():
        thing = getattr(import_module(one.module), one.name)
        is_code = inspect.isroutine(thing) or inspect.isclass(thing)
        if is_code and thing.__module__.startswith("agentrail"):
            yield from undocumented(f"{one.module}.{one.name}", thing)


def undocumented(name: str, thing: Any) -> Faults:
    """Yield a public name without a docstring, and its public members without one."""
    if not inspect.getdoc(thing):
        yield f"{name}: has no docstring"
    functions: list[tuple[str, Any]] = inspect.getmembers(thing, inspect.isfunction)
    for member, value in functions + inspect.getmembers(thing, inspect.isdatadescriptor):
        code = value.fget if isinstance(value, property) else value
        is_ours = inspect.isfunction(code) and (code.__module__ or "").startswith("agentrail")
        if is_ours and not member.startswith("_") and not inspect.getdoc(value):
            yield f"{name}.{member}: has no docstring"


def journals() -> Faults:
    """Look for each kind, field, outline and version in the page of journals."""
    page = text_of(REFERENCE / "journal.md")
    yield from unlike("OWN_BODIES in scripts/journal_page.py", journal_page.OWN_BODIES, OWN_KINDS)
    yield from unlike("WHEN in scripts/journal_page.py", journal_page.WHEN, OWN_KINDS)
    yield from unlike("kinds of signals", SIGNAL_KINDS, get_args(Signal))
    for kind, tag in SIGNAL_KINDS.items():
        is_linked = f"- `{tag}`: [`{kind.__name__}`]" in page
        if is_linked is (kind.__name__ in journal_page.NOT_RECORDED) or f"`{kind.__name__}`" not in page:
            yield f"journal.md: expected {kind.__name__} as a record, or as one that is not recorded"
    for described in (Record, StoredSnapshot, *journal_page.OWN_BODIES.values()):
        fields = fields_in(described)
        yield from unlike(described.__name__, [name for name, _ in fields], described.__struct_fields__)
        yield from (
            f"journal.md: lacks `{name}`" for name, text in fields if f"- `{name}`: {text}" not in page
        )
    source = text_of(PACKAGE / "core" / "journal" / "recorded_steps.py")
    written = re.findall(r'return f?"([a-z_]+)(?:[ "])', source) + re.findall(r'join\(\("([a-z_]+)"', source)
    yield from unlike("OUTLINES", [form.partition(" ")[0] for form in journal_page.OUTLINES], written)
    if page.count(f"| {RECORD_VERSION} |") != 3:
        yield f"journal.md: expected version {RECORD_VERSION} three times"


# --- names


OLD_NAMES: Final = frozenset(
    """
    Crew Fallen Letter Means Pulse Slots Tab Work Held OpenErrand Errand RunErrand CancelErrand ErrandFinished
    look_of hear_rest hear_at_once somebody_listens judge_call judge_again judge_answer judge_exit judge_failed_start
    start_judged finish_judged say_goodbye break_off NOBODY
    """.split()
)
"""Former names of classes and functions."""

OLD_WORDS: Final = re.compile(r"\b(?:some|no)body\b|\bwhoever\b|errand", re.IGNORECASE)
STORED: Final = re.compile(
    r"nobody (?:approved this call within|knows what this request may|knows how long the answer|waits for this|waited for it any)|`nobody`"
)
"""Text of journals and scenarios, which keeps its words, and the user of Unix."""


def old_words(page: str, text: str) -> list[str]:
    """Return the former words and names of a text, without stored text."""
    spans = [word for span in re.findall(r"`[^`\n]+`", text) for word in re.findall(r"\w+", span)]
    if page.endswith(".py") and not OLD_NAMES.isdisjoint(re.findall(r"\w+", text)):
        tokens = tokenize.generate_tokens(io.StringIO(text).readline)
        spans += [one.string for one in tokens if one.type == tokenize.NAME]
    return [*OLD_WORDS.findall(STORED.sub("", text)), *sorted(OLD_NAMES.intersection(spans))]


def former_words() -> Faults:
    """Find former words and names in the package and the pages."""
    files = [one for folder in (PACKAGE, DOCS) for one in folder.rglob("*") if one.suffix in {".py", ".md"}]
    for path in sorted([ROOT / "README.md", *files]):
        if found := old_words(path.name, text_of(path)):
            yield f"{path.relative_to(ROOT)}: {', '.join(found)}"


# --- the distribution


def release_files() -> Faults:
    """Compare version, Pythons and files of a release."""
    version, classifiers = project()["project"]["version"], project()["project"]["classifiers"]
    cited = re.findall(r"^version: (.+)$", text_of(ROOT / "CITATION.cff"), re.MULTILINE)
    if not (agentrail.__version__ == version and cited == [version]):
        yield f"versions differ: {agentrail.__version__}, {version}, {cited}"
    if f"\n## {version}\n" not in text_of(ROOT / "CHANGELOG.md"):
        yield f"CHANGELOG.md: has no section {version}"
    build = project()["tool"]["hatch"]["build"]["targets"]
    included = build["sdist"]["include"]
    yield from (
        f"the sdist includes {one}"
        for one in included
        if not (ROOT / one.lstrip("/")).exists() or "tests" in one
    )
    hook = f"/{build['wheel']['hooks']['custom']['path']}"
    yield from lacking("files of the sdist", included, [hook, "/scripts/compiling.py", "/agentrail"])
    pythons = [one.rpartition(" ")[2] for one in classifiers if re.search(r":: 3\.\d+$", one)]
    if project()["project"]["requires-python"] != f">={pythons[0]}" or len({*classifiers}) < len(classifiers):
        yield "pyproject.toml: requires-python and the classifiers should agree, each once"
    script = text_of(ROOT / "scripts" / "test_pythons.sh")
    yield from lacking("Pythons of scripts/test_pythons.sh", re.findall(r"\b3\.\d+\b", script), pythons)
    if f"The tests run on {', '.join(pythons[:-1])} and {pythons[-1]}" not in text_of(
        DOCS / "tutorial" / "install.md"
    ):
        yield "docs/tutorial/install.md: should name the Pythons of the classifiers"


INSTALLS: Final = re.compile(
    r"(?:pipx? install|pip download|pip wheel|pipx run|uvx|uv (?:add|pip install|tool install|tool run)|poetry add|pdm add)"
    rf"(?:[ \t]+[-\w=.]+)*[ \t]+[\"'\\]*{NAME}(?![-\w/])|\b{NAME}\\?\[[a-z]"
)
"""A command or a requirement that would install this project by name: until it is published, that is another project."""


def installs_by_name() -> Faults:
    """Find installations by name; only metadata may name the project, by the name of the distribution."""
    own = {
        ROOT / "tests" / one
        for one in ("test_distribution.py", "repo/test_scripts.py", "repo/test_repository_rules.py")
    }
    for path in repository_files():
        if path.name == "pyproject.toml":
            one = tomllib.loads(text_of(path))["project"]
            groups = [one.get("dependencies", ()), *one.get("optional-dependencies", {}).values()]
            for line in (line for group in groups for line in group if line.startswith("agentrail")):
                if not re.fullmatch(rf"{NAME}(\[[\w,]+\])?", line):
                    yield f"{path.relative_to(ROOT)}: depends on {line}"
        elif not PUBLISHED and path not in own and path.suffix not in {".png", ".woff2", ".ico", ".gz"}:
            found = INSTALLS.findall(path.read_text(encoding="utf-8", errors="replace"))
            yield from (f"{path.relative_to(ROOT)}: installs a stranger: {one}" for one in found)


MAX_PACKAGES: Final = 32
MAX_BYTES: Final = 60_000_000


def base_install() -> Faults:
    """Count packages and bytes of an installation without extras."""
    found: dict[str, metadata.Distribution] = {}
    wanted = [Requirement(one) for one in project()["project"]["dependencies"]]
    while wanted:
        one = wanted.pop()
        name = re.sub(r"[-_.]+", "-", one.name).lower()
        if name in found or not (one.marker is None or one.marker.evaluate({"extra": ""})):
            continue
        found[name] = metadata.distribution(name)
        below = [Requirement(line) for line in found[name].requires or ()]
        extras = one.extras or {""}
        wanted += [
            Requirement(f"{it.name}[{','.join(it.extras)}]" if it.extras else it.name)
            for it in below
            if it.marker is None or any(it.marker.evaluate({"extra": extra}) for extra in extras)
        ]
    if len(found) > MAX_PACKAGES:
        yield f"the base install has {len(found)} packages, at most {MAX_PACKAGES}: {sorted(found)}"
    size = sum(file.size or 0 for one in found.values() for file in one.files or ())
    if not 10_000_000 < size < MAX_BYTES:
        yield f"the base install has {size} bytes, at most {MAX_BYTES}"
    heavy = {"numpy", "lxml", "trafilatura", "hypothesis", "pytest", "starlette", "hypercorn", "pydantic"}
    yield from (
        f"the base install has {one}" for one in (heavy | {"trio-websocket", "wsproto"}) & found.keys()
    )


RULES: Final[tuple[Callable[[], Faults], ...]] = (
    private_places, unlisted_folders, broken_links, order_of_pages, repeated_pages, imports_of_the_core, gallery, examples, programs_of_pages,
    shown_files, shown_commands, promises, readme_counts, decision_records, reference, commands, calls, journals, former_words, release_files,
    installs_by_name, base_install, operation_files, *SOURCE_RULES,
)  # fmt: skip


def main() -> int:
    """Print all faults, and return the exit code."""
    found = [f"{rule.__name__}: {fault}" for rule in RULES for fault in rule()]
    sys.stdout.writelines(f"{fault}\n" for fault in found)
    return 1 if found else 0


if __name__ == "__main__":
    gc.disable()  # the trees have no cycles, and to look through them takes a third of the time
    sys.exit(main())
