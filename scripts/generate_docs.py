"""Writes the reference pages that are drawn from the code; with `--check` it only says which of them are stale.

A page is a function from the code to text. The changes of phase are not written by hand either: they are read from the table of
what is legal. The pictures of a cycle and of a chat are drawn from runs.
"""

import enum
import inspect
import json
import re
import sys
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final, get_args

import attrs

from agentrail import actors, errors, events, messages
from agentrail.core.protocol import actions, hooks
from agentrail.core.protocol.effects import Effect
from agentrail.core.protocol.signals import (
    Signal,
)
from agentrail.core.session.state import Phase
from agentrail.core.session.transitions import LEGALITY, Cell, Verdict
from agentrail.core.stack import plugin
from agentrail.core.wire import codec
from agentrail.gateway.app import ALL_ROUTES
from agentrail.gateway.openapi import describe_interface, interface_route
from agentrail.plugins.base import Plugin
from agentrail.runtime.session_options import SessionOptions
from agentrail.testing.scenario import play, read_scenario
from agentrail.testing.scenario_output import GROUPS
from scripts.api_pages import session_api_page, supervisor_api_page
from scripts.chat_picture import draw_chat
from scripts.configuration_page import configuration_page
from scripts.contents_page import contents_page
from scripts.decisions_page import decisions_page
from scripts.error_cures import CURES, IN_EVENTS, IN_RESULTS
from scripts.host_pages import options_page, routes_page
from scripts.journal_page import journal_page
from scripts.names_pages import FOLDER, MODULES, api_page, names_page
from scripts.next_lines import pages_with_next, with_next
from scripts.timeline_picture import draw_timeline
from scripts.wire_page import wire_page

REFERENCE: Final = Path(__file__).parent.parent / "docs" / "reference"
SCENARIOS: Final = Path(__file__).parent.parent / "tests" / "scenarios"
DRAWN: Final = "<!-- Drawn from the code by `make docs`; edit the code. -->"
MAX_EVENT_WIDTH: Final = 110
MIN_SHARED_BY_EVENTS: Final = 3
MIN_SHARED: Final = 10
"""Classes with the same field from which on a page describes it once."""


# --- pages


def session_page() -> str:
    """The phases, the table of what is legal, and the options."""
    rows = [
        f"| signals | {' | '.join(f'`{phase.name}`' for phase in Phase)} |",
        f"|---|{'---|' * len(Phase)}",
    ]
    alike: dict[tuple[str, ...], list[str]] = {}
    for signal, row in LEGALITY.items():
        alike.setdefault(tuple(cell_of(row[phase], phase) for phase in Phase), []).append(
            f"`{signal.__name__}`"
        )
    rows += [f"| {', '.join(signals)} | {' | '.join(cells)} |" for cells, signals in alike.items()]
    arrows = [
        f"| `{a.name}` | `{b.name}` | {', '.join(f'`{kind}`' for kind in sorted(kinds))} |"
        for (a, b), kinds in sorted_arrows()
    ]
    verdicts = [f"- **{verdict.value}**: {enum_doc(verdict)}" for verdict in Verdict]
    return "\n".join(
        [
            "# The session: phases, signals, options",
            "",
            DRAWN,
            "",
            "## Phases",
            "",
            *[f"- `{phase.name}`: {enum_doc(phase)}" for phase in Phase],
            "",
            "| from | to | by |",
            "|---|---|---|",
            *arrows,
            "",
            "A cycle ends in `IDLE`. If a prompt is queued, the next cycle starts in the same step.",
            "",
            "## Transition table",
            "",
            *verdicts,
            "",
            "The phases after an arrow are those to which the step can lead. They include the start of the next queued prompt.",
            "",
            "An outcome of a closed effect is dropped in every phase.",
            "",
            *rows,
            "",
            "## Options of a session",
            "",
            "Pass them as keywords of `start_session`, or as one `SessionOptions`. All faults are reported at once, before anything starts.",
            "",
            "| option | default | meaning |",
            "|---|---|---|",
            *option_rows(),
            "",
        ]
    )


def option_rows() -> Iterator[str]:
    """One row for each option."""
    meanings = dict(fields_in(SessionOptions))
    for attribute in attrs.fields(SessionOptions):
        default = "required" if attribute.default is attrs.NOTHING else f"`{plain(attribute.default)}`"
        yield f"| `{attribute.name}` | {default} | {meanings[attribute.name]} |"


def plain(default: Any) -> str:
    """Write a default as a reader would."""
    return "{}" if isinstance(default, attrs.Factory) else repr(default)  # type: ignore[arg-type]


def events_page() -> str:
    """The events by section, what they carry, and what they look like in a row."""
    lines = [
        "# Events",
        "",
        DRAWN,
        "",
        "All events are frozen msgspec Structs in `agentrail.events`, in the closed union `Event`. `replace` returns a modified copy. *Committed* events have",
        "consecutive numbers per session. *Ephemeral* events, marked with \\*, carry the previous number and are never replayed. `event.meta` is the `Envelope`:",
        "session, number, time, path.",
        "",
        "As JSON, an event is one object: `kind` (its name in snake_case), `seq`, `session_id`, `at_ms` and its own fields. Ephemeral events add `ephemeral`, and",
        "events of sub-agents `session_path`. [events.json](events.json) is the JSON Schema. `agentrail.encode_event` and `agentrail.decode_event` convert. An event of",
        "a newer version becomes an `UnknownEvent`.",
        "",
        "## Timeline of a cycle",
        "",
        "A cycle with three turns, three calls and an approval, from a real run on virtual time. Each dot is an event, and each ring an ephemeral one.",
        "",
        "<picture>",
        '  <source media="(prefers-color-scheme: dark)" srcset="../pictures/cycle-dark.svg">',
        '  <img alt="A cycle over time: bars for the cycle, the turns, the tools and the approval, and dots for the events" src="../pictures/cycle-light.svg">',
        "</picture>",
        "",
        "## Sequences",
        "",
        "Signals are at the margin, and their events below. Each is a file in `tests/scenarios`.",
        "",
    ]
    for title, scenario in SEQUENCES:
        lines += [f"### {title}", "", "```text", *sequence_lines(scenario), "```", ""]
    shared = shared_fields(get_args(events.Event), MIN_SHARED_BY_EVENTS)
    lines += ["## Usual fields", "", "Events list these without a description, unless it differs:", ""]
    lines += [*(f"- `{name}`: {meaning}" for name, meaning in shared.items()), ""]
    for title, union in events.SECTIONS.items():
        lines += [
            f"## {title}",
            "",
            "| event, kind | when |",
            "|---|---|",
            *map(event_row, get_args(union)),
            "",
        ]
        for event in get_args(union):
            usual = [f"`{name}`" for name, meaning in fields_in(event) if shared.get(name) == meaning]
            own = field_lines(event, shared.items())[:-1]
            lines += [f"**`{event.__name__}`**", "", *([f"- {', '.join(usual)}"] if usual else []), *own, ""]
    lines += ["## Values in events and snapshots", ""]
    for value in CARRIED:
        lines += [f"### `{value.__name__}`", "", summary(value), "", *field_lines(value)]
    return "\n".join(lines)


SEQUENCES: Final = (
    ("A plain cycle", "plain_cycle"),
    ("Two tools at once", "parallel_tools_in_call_order"),
    ("An abort during a response", "abort_while_streaming"),
    ("A broken stream", "stream_breaks_off"),
    ("A retried request", "request_retried"),
    ("A fallback model", "fallback_model"),
    ("A steer while tools run", "steer_while_tools_run"),
    ("A question to the user", "question_answered"),
    ("An approved call", "approval_approved"),
    ("A crash and a restart", "restart_in_a_batch"),
)
"""What the page of events shows in a row: a title, and the scenario that is played for it."""

CARRIED: Final = (
    events.Envelope,
    errors.ErrorInfo,
    events.AbortReceipt,
    events.RecoveryDecision,
    events.Approval,
    events.Question,
    events.Todo,
    events.Plan,
    events.PlanStep,
    events.Amount,
    events.UnknownEvent,
)


def sequence_lines(scenario: str) -> Iterator[str]:
    """Play a scenario and give what went in, and below each the events that came out."""
    read = read_scenario((SCENARIOS / f"{scenario}.txt").read_text(encoding="utf-8"))
    text = play(attrs.evolve(read, show=GROUPS))
    for step in re.split(r"^(?=@)", text, flags=re.MULTILINE)[1:]:
        heard, *came = step.splitlines()
        signal = heard.partition(" ")[2].strip()
        if signal.partition(" ")[0].endswith("Query"):
            continue  # asked by the test that the scenario is, and answered without an event
        yield signal
        for event in re.findall(r'Publish ((?:"(?:[^"\\]|\\.)*"|[^";])*)', " ".join(map(str.strip, came))):
            yield f"    {event}" if len(event) <= MAX_EVENT_WIDTH else f"    {event[:MAX_EVENT_WIDTH]} …"


def event_row(event: type) -> str:
    """One event as the row of a table: its name, its kind on the wire, and its summary."""
    star = "\\*" if event in events.EPHEMERAL else ""
    when = summary(event).removesuffix(" Ephemeral.").replace("\n", " ").replace("|", "\\|")
    return f"| `{event.__name__}`{star}, `{events.KINDS[event]}` | {when} |"


def events_schema() -> str:
    """The JSON Schema of all events, with the words of their docstrings."""
    schema = codec.event_schema()
    definitions = schema["$defs"]
    definitions["SubagentEvent"]["properties"]["event"] = {
        "$ref": "#"
    }  # itself, in place of all members once more
    envelope = dict(fields_in(events.Envelope))
    envelope["session_path"] = envelope.pop("path")
    homes = vars(errors) | vars(messages) | vars(events)
    for name, definition in definitions.items():
        of = homes[name]
        definition["description"] = " ".join(summary(of).split())
        said = envelope | dict(fields_in(of)) if of in events.KINDS else dict(fields_in(of))
        for field, rules in definition["properties"].items():
            if field in said:
                rules["description"] = said[field]
    about = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Event",
        "description": "What a session of agentrail publishes, as one JSON object. Drawn from the code by `make docs`.",
    }
    return json.dumps(about | schema, indent=1, ensure_ascii=False)


def openapi_page() -> str:
    """The page of the interface over HTTP, as `/openapi.json` gives it."""
    page = describe_interface((*ALL_ROUTES, interface_route(ALL_ROUTES)))
    return json.dumps(page, indent=1, ensure_ascii=False)


def signals_page() -> str:
    """Every signal with its fields, and every effect. Only the shell reads the fields of effects."""
    shared = shared_fields(get_args(Signal))
    lines = [
        "# Signals and effects",
        "",
        DRAWN,
        "",
        "Signals enter `step`, and effects leave it. [The journal](journal.md) records signals.",
        "",
        "## Signals",
        "",
        "All signals have `at_ms`, those of a caller `signal_id`, and those about an effect `effect_id`:",
        "",
        *(f"- `{name}`: {meaning}" for name, meaning in shared.items()),
        "",
    ]
    for member in get_args(Signal):
        lines += [f"### `{member.__name__}`", "", summary(member), "", *field_lines(member, shared.items())]
    lines += ["## Effects", ""]
    for member in get_args(Effect):
        lines += [f"### `{member.__name__}`", "", summary(member), ""]
    return "\n".join(lines)


def errors_page() -> str:
    """The tree of errors, the code of each, and what each says."""
    about, tree, codes = (inspect.getdoc(errors) or "").split("\n\n")
    known = [
        error
        for error in vars(errors).values()
        if isinstance(error, type) and issubclass(error, errors.AgentrailError)
    ]
    lines = [
        "# Errors",
        "",
        DRAWN,
        "",
    ]
    lines += ["## Codes", "", codes, ""]
    lines += ["| code | class | what to do |", "|---|---|---|"]
    for error in sorted(known, key=lambda error: error.code):
        name = f"`{error.__name__}`"
        shown = name if is_said_by_tree(error) else f"[{name}](#{error.__name__.lower()})"
        lines.append(f"| `{error.code}` | {shown} | {CURES[error.code]} |")
    lines.append("")
    for title, said, entries in CODES_WITHOUT_A_CLASS:
        lines += [f"## {title}", "", said, "", "| code | what happened | what to do |", "|---|---|---|"]
        lines += [f"| `{code}` | {entry.cause} | {entry.cure} |" for code, entry in sorted(entries.items())]
        lines.append("")
    lines += [
        "## The tree",
        "",
        f"{about} Classes with fields or more to say follow it.",
        "",
        "```text",
        inspect.cleandoc(tree),
        "```",
        "",
    ]
    for error in known:
        if is_said_by_tree(error):
            continue
        lines += [f"## `{error.__name__}`", "", f"`code`: `{error.code}`.", "", cause_of(error), ""]
        lines += error_field_lines(error)
    return "\n".join(lines)


def is_said_by_tree(error: type) -> bool:
    """Whether the line of an error in the tree says all of it: it has no field of its own, and its summary is one sentence."""
    return not any(error_field_lines(error)) and not re.search(r"[.:;] ", " ".join(cause_of(error).split()))


def cause_of(error: type) -> str:
    """Return the summary of an error without its remedy, which is in the table of codes."""
    return re.sub(
        r"\s(?:Call|Wait for|Try again|Start it|Watch the|Resize|Use another)\b[^.]*\.(?=\s|$)",
        "",
        summary(error),
    )


def error_field_lines(error: type) -> Iterator[str]:
    """Yield the fields that an error adds to its base class, and a link to the others."""
    base = error.__base__ or error
    inherited = [field for field in fields_in(base) if field[0] != "code"]
    if len(inherited) > 1:
        yield f"Inherits the fields of [`{base.__name__}`](#{base.__name__.lower()})."
        yield ""
    known = {*fields_in(base)} if len(inherited) > 1 else ()
    yield from (line for line in field_lines(error, known) if not line.startswith("- `code`: snake_case"))


CODES_WITHOUT_A_CLASS: Final = (
    (
        "Codes in events",
        "An `AgentError`, a status or a request can also carry these codes, which have no exception class.",
        IN_EVENTS,
    ),
    (
        "Codes in results",
        "Failures of file tools and commands. The model reads the message and can try again. The cycle continues.",
        IN_RESULTS,
    ),
)
"""A heading, what these codes are, and the entries."""


def plugins_page() -> str:
    """Every hook and what it accepts, every action, the context, and what a closed plugin refuses."""
    columns = [action for action in actions.ACTIONS if action not in {actions.Continue, actions.Emit}]
    matrix = [
        f"| hook | {' | '.join(f'`{action.__name__}`' for action in columns)} |",
        f"|---|{'---|' * len(columns)}",
        *(
            f"| `{hook.__name__}` | {' | '.join(row[action].value for action in columns)} |"
            for hook, row in actions.MATRIX.items()
        ),
    ]
    waiting = " and ".join(f"`{hook.__name__}`" for hook in hooks.HOOKS if hook in actions.CAN_WAIT)
    lines = [
        "# Plugins: hooks and actions",
        "",
        DRAWN,
        "",
        "All names are in `agentrail.plugins`. [Write a plugin](../how-to/write-a-plugin.md) shows their use, and the combination of several actions.",
        "",
        "## Which hook accepts which action",
        "",
        "`Continue` and `Emit` are accepted everywhere. ✓ is accepted. – is ignored: the pipeline continues, and `ActionIgnored` is published. *Collected* actions are",
        "kept in the outcome, not applied, and reported as ignored.",
        "",
        *matrix,
        "",
        f"`Request(…, wait=True)` can wait on {waiting}. On every other hook its result is `cannot_wait`.",
        "A `RequestDone` of a waiting hook accepts the actions of that hook.",
        "",
    ]
    sections: tuple[tuple[str, tuple[Any, ...]], ...] = (
        ("Hook events", (*hooks.HOOKS, hooks.RequestDone)),
        ("Actions", actions.ACTIONS),
        ("Requests", get_args(actions.Wanted)),
        ("Request results", get_args(hooks.RequestResult)),
        ("Context and plugin class", (plugin.Context, Plugin)),
    )
    for title, members in sections:
        lines += [f"## {title}", ""]
        shared = shared_fields(members)
        if shared:
            lines += [
                "Every action has these fields, except `Emit`, which has only `emits`:",
                "",
                *(f"- `{name}`: {meaning}" for name, meaning in shared.items()),
                "",
            ]
        for member in members:
            lines += [
                f"### `{member.__name__}`",
                "",
                summary(member),
                "",
                *field_lines(member, shared.items()),
            ]
    return "\n".join(lines)


ACTOR_SECTIONS: Final[Mapping[str, str]] = {
    "Supervisors": """open_supervisor SupervisorFlags Backoff ChildSpec check_child_specs Supervisor Started StopSummary
        ChildInfo ChildCounts Report CrashReport TreeNode render_tree subtree SupervisorInit TaskHandle TaskResult
        open_partitions Partitions""",
    "Actors": """worker machine Start Behaviour Init InitStop Ignore IGNORE MachineStatus ActorHandle Address ActorContext current_actor
        cleanup_scope ActorExit get_state get_status replace_state suspend resume change_code""",
    "Events and transitions of a machine": """MachineEvent Call Cast Info TimedOut Internal RequestFor Transition NextState Keep
        Repeat Stop StopAndReply KEEP TransitionAction Reply ReplyTo Postpone NextEvent StateTimeout EventTimeout NamedTimeout
        CancelTimer UpdateTimer Perform Hibernate Send SELF Watch Unwatch Link Unlink Limits""",
    "Pools": "open_pool PoolFlags Pool PoolJob PoolStatistics",
    "Watching, monitors, links": """watch Watching ChildEvent ChildUp ChildDown ChildRestarted ChildGone monitor Monitor Down
        link unlink ExitSignal""",
    "Names": "Registry Name Entry RegistryEvent Registered Unregistered",
    "Mailboxes": "Overflow MailboxStatistics LaneStatistics DeadLetters dead_letters",
    "Exit reasons": "ExitReason Normal Shutdown Killed Crashed InitFailed NoProcess Stuck is_clean describe",
}
"""What the page of actors shows, in this order; the errors have a page of their own."""


def actors_page() -> str:
    """All that `agentrail.actors` gives, by subject: what it is, its fields or arguments, and its methods."""
    lines = [
        "# Actors",
        "",
        DRAWN,
        "",
        "Import all names from `agentrail.actors`. See [Supervise your own actor](../how-to/supervise-your-own-actor.md),",
        "[Use worker pools and watch children](../how-to/share-work-and-follow-a-child.md), and the [errors](errors.md).",
        "",
    ]
    for title, names in ACTOR_SECTIONS.items():
        lines += [f"## {title}", ""]
        for name in names.split():
            lines += [f"### `{name}`", "", *actor_lines(getattr(actors, name))]
    return "\n".join(lines)


def actor_lines(thing: Any) -> Iterator[str]:
    """One name of the door: a class, a function, or an alias of some."""
    if not (inspect.isclass(thing) or inspect.isfunction(thing)):
        yield from (
            f"`{getattr(thing, '__name__', thing)}`, the only instance of its class."
            if not get_args(thing)
            else one_of(thing),
            "",
        )
        return
    yield from (summary(thing), "")
    described = fields_in(thing) if inspect.isclass(thing) else arguments_of(thing)
    base = base_of(thing)
    if base is not None:
        described = described[len(fields_in(base)) :]
        yield from (f"All attributes of [`{base.__name__}`](#{base.__name__.lower()}), and:", "")
    lines = [f"- `{name}`: {meaning}" for name, meaning in described]
    if inspect.isclass(thing):
        for name, member in vars(thing).items():
            if inspect.isfunction(member) and not name.startswith("_") and inspect.getdoc(member):
                lines.append(f"- `{name}{plain_parameters(member)}`: {summary(member).splitlines()[0]}")
    if lines:
        yield from (*lines, "")


def plain_parameters(method: Callable[..., object]) -> str:
    """Return the parameters of a method, without their types."""
    signature = inspect.signature(method)
    given = [one.replace(annotation=one.empty) for one in list(signature.parameters.values())[1:]]
    return str(signature.replace(parameters=given, return_annotation=signature.empty))


def base_of(thing: Any) -> type | None:
    """Return the public base class whose attributes a class inherits and extends, or None."""
    bases = thing.__mro__[1:] if inspect.isclass(thing) else ()
    return next(
        (
            one
            for one in bases
            if one.__name__ in vars(actors) and 0 < len(fields_in(one)) < len(fields_in(thing))
        ),
        None,
    )


def one_of(alias: Any) -> str:
    """Name what a union or a choice consists of."""
    kinds = (getattr(kind, "__name__", None) or repr(kind) for kind in get_args(alias))
    return f"One of {', '.join(f'`{kind}`' for kind in kinds)}."


def arguments_of(function: Any) -> list[tuple[str, str]]:
    """Names and meanings under `Args:`."""
    section = re.search(r"Args:\n(.*?)(?:\n\n|\Z)", inspect.getdoc(function) or "", re.DOTALL)
    entries = re.findall(
        r"^ {4}\*{0,2}(\w+): (.*?)(?=^ {4}\*{0,2}\w+: |\Z)",
        section[1] if section else "",
        re.DOTALL | re.MULTILINE,
    )
    return [(name, " ".join(meaning.split())) for name, meaning in entries]


PAGES: Final[Mapping[str, Callable[[], str]]] = {
    "actors.md": actors_page,
    "session.md": session_page,
    "session-api.md": session_api_page,
    "supervisor-api.md": supervisor_api_page,
    "events.md": events_page,
    "events.json": events_schema,
    "openapi.json": openapi_page,
    "signals.md": signals_page,
    "journal.md": lambda: journal_page(DRAWN, summary, field_lines),
    "errors.md": errors_page,
    "plugins.md": plugins_page,
    "routes.md": routes_page,
    "wire.md": wire_page,
    "server-options.md": options_page,
    "configuration.md": lambda: configuration_page(DRAWN, fields_in, summary),
    # Behind those above, which they read: a name that has its place there is linked to.
    f"{FOLDER}/README.md": names_page,
    **{f"{FOLDER}/{page}.md": partial(api_page, page) for page in MODULES},
    "../explanation/decisions.md": decisions_page,
    "../README.md": contents_page,
    # Those of people, of which the last line alone is drawn.
    **{f"../{file.removeprefix('docs/')}": partial(with_next, file) for file in pages_with_next()},
    "../pictures/cycle-light.svg": partial(draw_timeline, "light"),
    "../pictures/cycle-dark.svg": partial(draw_timeline, "dark"),
    "../pictures/chat-light.svg": partial(draw_chat, "light"),
    "../pictures/chat-dark.svg": partial(draw_chat, "dark"),
}


# --- reading docstrings


def summary(thing: object) -> str:
    """All of a docstring before its first section, as one paragraph or several."""
    return re.split(r"\n\n?(?=Attributes:|Raises:|Args:)", inspect.getdoc(thing) or "")[0]


def fields_in(thing: type) -> list[tuple[str, str]]:
    """Names and meanings under `Attributes:`, base classes first."""
    found: dict[str, str] = {}
    for base in reversed(thing.__mro__):
        text = base.__dict__.get("__doc__") or ""
        section = re.search(r"Attributes:\n(.*?)(?:\n\n|\Z)", inspect.cleandoc(text), re.DOTALL)
        if section:
            entries = re.findall(r"^ {4}(\w+): (.*?)(?=^ {4}\w+: |\Z)", section[1], re.DOTALL | re.MULTILINE)
            found.update((name, " ".join(meaning.split())) for name, meaning in entries)
    return [(name, meaning) for name, meaning in found.items() if name != "meta"]


def field_lines(thing: type, known: Collection[tuple[str, str]] = ()) -> list[str]:
    """Return one line per meaning, then a blank line. Fields in `known` are described elsewhere on the page."""
    alike: dict[str, list[str]] = {}
    for name, meaning in fields_in(thing):
        if (name, meaning) not in known:
            alike.setdefault(meaning, []).append(f"`{name}`")
    lines = [f"- {', '.join(names)}: {meaning}" for meaning, names in alike.items()]
    return [*lines, ""] if lines else []


def shared_fields(things: Iterable[type], least: int = MIN_SHARED) -> dict[str, str]:
    """Return the fields that at least `least` of several classes describe in the same words."""
    counts = Counter(field for thing in things for field in fields_in(thing))
    shared: dict[str, str] = {}
    for (name, meaning), count in counts.most_common():
        if count >= least:
            shared.setdefault(name, meaning)
    return shared


def enum_doc(member: enum.Enum) -> str:
    """Read the string under a member of an enumeration; Python throws it away, its source does not."""
    source = inspect.getsource(type(member))
    found = re.search(rf'^ +{member.name} = [^\n]*\n +"""(.*?)"""', source, re.MULTILINE | re.DOTALL)
    return found[1] if found else ""


# --- reading the table


def sorted_arrows() -> list[tuple[tuple[Phase, Phase], set[str]]]:
    """Every change of phase that the table knows, and the signals that make it."""
    arrows: dict[tuple[Phase, Phase], set[str]] = {}
    for signal, row in LEGALITY.items():
        for before, cell in row.items():
            for after in cell.followed_by - {before}:
                arrows.setdefault((before, after), set()).add(signal.__name__)
    order = list(Phase)
    return sorted(arrows.items(), key=lambda item: (order.index(item[0][0]), order.index(item[0][1])))


def cell_of(cell: Cell, phase: Phase) -> str:
    """Write a cell of the table: the verdict, and where that may lead, unless it stays."""
    others = ", ".join(f"`{one.name}`" for one in Phase if one in cell.followed_by and one is not phase)
    stays = "" if phase in cell.followed_by else ", always"
    return f"{cell.verdict.value} → {others}{stays}" if others else cell.verdict.value


# --- the command


def main(arguments: list[str]) -> int:
    """Write the pages, or with `--check` name the stale ones; the exit code says whether there were any."""
    stale = []
    for name, page in PAGES.items():
        path = REFERENCE / name
        text = page().rstrip() + "\n"
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            stale.append(name)
            if "--check" not in arguments:
                path.write_text(text, encoding="utf-8")
    if "--check" in arguments and stale:
        print(f"stale: {', '.join(stale)} (from docs/reference); run `make docs`", file=sys.stderr)
        return 1
    print(f"docs/reference: {len(PAGES)} pages drawn, {len(stale)} changed")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
