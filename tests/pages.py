"""What stands in the fences of README and docs, and what runs it.

Programs in Python are run by Sybil, commands by `tests.consoles`, the rest by the test that is named here. What none can run has its
reason here, and none is left out in silence.
"""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from attrs import frozen

ROOT: Final = Path(__file__).parents[1]
PAGES: Final = ("README.md", "CONTRIBUTING.md", *sorted(
    one.relative_to(ROOT).as_posix() for one in (ROOT / "docs").rglob("*.md")
))  # fmt: skip
SHOWN_ONLY: Final = frozenset({"text"})
"""Fences of pictures, of what is seen, and of files that are prose; `make lint-repository` reads the last."""

_FENCE: Final = re.compile(
    r"(?P<skip><!-- skip: next[^>]*-->\n+)?^ *```(?P<kind>\w*)\n(?P<body>.*?)^ *```$",
    re.MULTILINE | re.DOTALL,
)


@frozen
class Fence:
    page: str
    kind: str
    body: str
    is_skipped: bool = False


def fences_of(page: str) -> Iterator[Fence]:
    text = (ROOT / page).read_text(encoding="utf-8")
    for found in _FENCE.finditer(text):
        yield Fence(page, found["kind"], found["body"], is_skipped=found["skip"] is not None)


_EXAMPLES: Final = "docs/examples"
RUN_BY: Final[Mapping[str, Mapping[str, str]]] = {
    f"{_EXAMPLES}/coding/README.md": {
        "console": f"{_EXAMPLES}/coding/tests/test_coding.py::test_the_page_shows_what_happens"
    },
    f"{_EXAMPLES}/help_desk/README.md": {
        "console": f"{_EXAMPLES}/help_desk/tests/test_help_desk.py::test_the_page_shows_what_happens"
    },
    f"{_EXAMPLES}/killed_nodes/README.md": {
        "console": f"{_EXAMPLES}/killed_nodes/tests/test_killed_nodes.py::test_killed_nodes_lose_nothing"
    },
    f"{_EXAMPLES}/research/README.md": {
        "console": f"{_EXAMPLES}/research/tests/test_research.py::test_the_page_shows_what_happens",
        "py": f"{_EXAMPLES}/research/tests/test_research.py::test_the_page_quotes_the_program",
    },
    "docs/how-to/behind-fastapi.md": {
        "python": "scripts/repository_rules.py::examples",
        "console": f"{_EXAMPLES}/web_server/tests/test_web_server.py::test_the_command_of_the_page",
    },
    "docs/how-to/authenticate-users.md": {
        "javascript": "tests/repo/test_commands_of_pages.py::test_a_page_of_a_browser_reads_a_stream_as_the_how_to_says"
    },
    "docs/how-to/run-evals-in-ci.md": dict.fromkeys(
        ("console", "toml", "json", "yaml"), "tests/cli/test_eval.py::test_the_steps_of_the_page_run_as_they_stand"
    ),
    "docs/how-to/before-you-change-a-prompt.md": {
        "console": "tests/evals/test_journals_command.py::test_the_commands_of_the_page_say_what_it_shows"
    },
    "docs/how-to/keep-an-audit-log.md": {
        "json": "tests/telemetry/test_audit.py::test_the_page_explains_each_field_of_a_line"
    },
    "docs/how-to/operate-postgresql.md": {
        "sql": "tests/stores/test_operated_postgres.py::test_the_statements_of_the_page"
    },
    "docs/how-to/metrics-and-alerts.md": {
        "yaml": "tests/telemetry/test_alerts.py::test_promtool_accepts_the_configuration_of_the_page"
    },
    "docs/how-to/use-it-from-copilotkit.md": {
        "ts": "tests/gateway/protocols/test_ag_ui_client.py::test_the_page_of_the_how_to_works",
    },
    "docs/how-to/use-it-from-usechat.md": {
        "ts": "tests/repo/test_commands_of_pages.py::test_a_page_of_usechat_leaves_out_what_was_discarded",
        "tsx": "tests/gateway/protocols/chat.mjs",  # the same transport and client, without React
    },
    **{
        f"docs/how-to/{page}.md": {"toml": "scripts/repository_rules.py::shown_files"}
        for page in ("configure-agents", "look-things-up", "reach-the-web", "see-what-your-agents-do", "use-mcp-servers", "remember-across-sessions", "use-skills")
    },
    "docs/reference/cli.md": {
        "toml": "scripts/repository_rules.py::shown_files",
        "json": "scripts/repository_rules.py::shown_files",
    },
}  # fmt: skip
"""By page and language: which test runs these fences, where neither Sybil nor the player does."""

_NEEDS_A_KEY: Final = "it asks a vendor, with a key: the same command runs on `demo:`"
_NEEDS_OLLAMA: Final = "it asks Ollama: tests/providers ask servers that speak its format"
_NEEDS_A_PERSON: Final = "it is a conversation: tests/cli/terminal has them, typed at a terminal"
_NEEDS_A_MACHINE: Final = "it changes the machine: tests/repo/test_operations.py has the file read, by its own program where that is there"
_NEEDS_A_COLLECTOR: Final = (
    "it sends to a collector: tests/telemetry and tests/cli/test_telemetry.py have a stand-in"
)
_ANOTHER_MACHINE: Final = "it is about a server elsewhere: tests/cli runs the command against one here"

NOT_PLAYED: Final[Mapping[str, Mapping[str, str]]] = {
    "README.md": {
        "make run": "scripts/as_a_stranger.sh runs it in CI, in a fresh clone",
        "make test": "scripts/as_a_stranger.sh runs it in CI, in a fresh clone",
        "agentrail demo": "two minutes: tests/cli/test_demo_tour.py gives the tour",
        "agentrail chat": _NEEDS_A_PERSON,
    },
    "CONTRIBUTING.md": {
        "make test": "CI does, .ci/run",
        "make check": "CI does, .ci/run",
    },
    "docs/examples/README.md": {"": "make examples does that to each program, in `make nightly`"},
    "docs/how-to/be-told-by-webhooks.md": {
        "curl -s localhost:8700": "the program of the page sends the same message without a network"
    },
    "docs/how-to/behind-a-proxy.md": {"": "tests/repo/test_operations.py serves behind nginx"},
    "docs/how-to/deploy.md": {"": _NEEDS_A_MACHINE},
    "docs/how-to/find-what-holds-the-loop.md": {
        "": "the program is the reader's: tests/runtime/test_loop_watch.py holds the words"
    },
    "docs/how-to/install-the-compiled-build.md": {"": "scripts/compiled_test.sh installs it, in CI, and tests/test_builds.py holds what doctor says"},
    "docs/how-to/keep-and-resume-sessions.md": {"agentrail chat": _NEEDS_A_PERSON},
    "docs/how-to/run-on-many-machines.md": {
        "": "it needs PostgreSQL and an ordinary user: tests/cli/test_serve_nodes.py has its steps"
    },
    "docs/how-to/run-tools-elsewhere.md": {
        "docker build": _NEEDS_A_MACHINE,
        'agentrail run "Run the tests': "it needs Docker: tests/sandboxes/remote has the container's command without",
    },
    "docs/how-to/see-what-your-agents-do.md": {"": _NEEDS_A_COLLECTOR},
    "docs/how-to/talk-in-a-terminal.md": {
        "agentrail chat": _NEEDS_A_PERSON,
        "AGENTRAIL_TOKEN=… agentrail chat": _ANOTHER_MACHINE,
    },
    "docs/how-to/test-a-plugin-stack.md": {
        "agentrail check-plugins": "the stack is the reader's: tests/cli/test_check_plugins.py has some"
    },
    "docs/how-to/simulate-your-own-tools.md": {
        "agentrail simulate": "many lives: tests/cli/test_simulate.py lives worlds of a file, and tests/simulation continues sessions of a store"
    },
    "docs/tutorial/find-a-bug-with-a-seed.md": {
        "agentrail simulate": "many lives: tests/cli/test_simulate.py has such a counter found, and its file played again"
    },
    "docs/reference/benchmarks.md": {"": "minutes: `make nightly` runs `make bench-quick`"},
    "docs/reference/cli.md": {
        "agentrail eval": "its files are on another page: tests/cli/test_eval.py runs it, and evals",
        'agentrail run "Think about it"': _NEEDS_A_KEY,
        'agentrail run "Hi"': _NEEDS_OLLAMA,
        "agentrail demo": "two minutes: tests/cli/test_demo_tour.py gives the tour",
        "agentrail check-plugins": "half a minute: tests/cli/test_check_plugins.py runs it with fewer examples",
        "agentrail simulate": "many lives: tests/cli/test_simulate.py has such worlds and files",
        "agentrail nodes": _ANOTHER_MACHINE,
        "agentrail store migrate --store postgres": _ANOTHER_MACHINE,
        "agentrail store restored --store postgres": _ANOTHER_MACHINE,
        "agentrail telemetry export": _NEEDS_A_COLLECTOR,
        "agentrail serve my_app:app": "it would listen on all addresses; docs/tutorial/serve-your-agents.md serves an application",
        "agentrail top": _ANOTHER_MACHINE,
        "agentrail sandbox serve": "its port may be taken; docs/how-to/run-tools-elsewhere.md serves on another one",
        "agentrail memory forget m-": "the id of a memory is drawn; tests/cli/test_memory.py forgets one",
    },
    "docs/tutorial/use-a-real-model.md": {
        "export ANTHROPIC_API_KEY": _NEEDS_A_KEY,
        'agentrail run "What does the Makefile here do?" --model anthropic': _NEEDS_A_KEY,
        "ollama": _NEEDS_OLLAMA,
        'agentrail run "What does the Makefile here do?" --model openai-chat': _NEEDS_OLLAMA,
        "export OPENAI_BASE_URL": _NEEDS_OLLAMA,
        "export AGENTRAIL_MODEL": _NEEDS_OLLAMA,
        'agentrail run "And what does it test?"': _NEEDS_OLLAMA,
    },
}  # fmt: skip
"""By page: how a command begins that is not played, and why; `""` is all of the page."""


def why_not_played(page: str, command: str) -> str | None:
    """Say why a command of a page is not played; None for one that is."""
    return next((why for begin, why in NOT_PLAYED.get(page, {}).items() if command.startswith(begin)), None)
