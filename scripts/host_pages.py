"""The pages on a server: its routes with what they take and give, its options, and what each error is answered with.

All of it follows from what the server itself is made of: the page of the interface, the table of answers, the docstrings
of options. What is said in words stands here once, and what is a number is read.
"""

import inspect
import json
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from http import HTTPStatus
from typing import Any, Final

import attrs

from agentrail.cli.serve_options import SERVE_KEYS, SERVE_VARIABLES, ServeFlags, ServeOptions, flag_of
from agentrail.config.schema import HostForm
from agentrail.gateway.app import OWN_OPTIONS, ROUTES, create_app
from agentrail.gateway.error_responses import ERROR_ANSWERS
from agentrail.gateway.openapi import describe_interface, interface_route
from agentrail.host.agent_profiles import AgentProfile, ProfileContext
from agentrail.host.host_options import HostOptions
from agentrail.host.quotas import Limits
from scripts.names_pages import public_names

DRAWN: Final = "<!-- Drawn from the code by `make docs`; edit the code. -->"

NO_SCOPE: Final = "–"
USER_HEADER: Final = "X-Agentrail-User"
REPEAT_HEADER: Final = "Idempotency-Key"
MIN_USUAL: Final = 3
"""Objects with the same description of a field from which on the page describes it once."""

MIN_BASE: Final = 4
"""Fields of an object from which on another one with the same fields refers to it."""

MANY: Final = 1 << 31
"""A bound above this one is none to a reader."""

ON_THE_PAGE_OF_EVENTS: Final = frozenset(
    {
        "Event",
        "AbortReceipt",
        "Amount",
        "Approval",
        "ErrorInfo",
        "Plan",
        "PlanStep",
        "Question",
        "RecoveryDecision",
        "Todo",
    }
)
"""Schemas that the page of events describes."""

ON_THE_PAGE_OF_THE_INTERFACE: Final = frozenset(
    {"ConsoleInfo", "ExplainedStep", "HostPluginList", "SpanPage", "StateReply", "TracePage", "TreePage"}
)
"""Schemas of the console's views, which only `openapi.json` describes."""

ON_A_PAGE_OF_NAMES: Final = frozenset({"PendingClientCall", "Status", "TokenUsage", "WaitingFor"})
"""Schemas without a tag of public classes, which the page of their class describes."""

_REFS: Final = "#/components/schemas/"


# --- routes


def routes_page() -> str:
    """Each route: what it is for, what it takes, what it gives; then what these hold, and what each error is answered with."""
    page = describe_interface((*ROUTES, interface_route(ROUTES)))
    schemas = page["components"]["schemas"]
    operations = [
        (method.upper(), path, operation)
        for path, methods in page["paths"].items()
        for method, operation in methods.items()
    ]
    lines = [
        "# Routes",
        "",
        DRAWN,
        "",
        "The HTTP routes of a server made by `create_app`, also as [openapi.json](openapi.json) and at `GET /openapi.json`.",
        "Bodies are JSON objects with the type `application/json`. Unknown fields are refused with the nearest known name. [The wire](wire.md) describes streams and the socket.",
        "",
        "| route | action | scope |",
        "|---|---|---|",
        *(
            f"| [`{method} {path}`](#{anchor(method, path)}) | {operation['summary']} | {scope_of(operation)} |"
            for method, path, operation in operations
        ),
        "",
        "## Details",
        "",
    ]
    common = common_to(operation for _, _, operation in operations)
    groups = code_groups(operations, common)
    lines += [
        f"A token without a user names one in the header `{USER_HEADER}`. The header `{REPEAT_HEADER}` has the effect of `client_id` in a body. Each route lists its errors, some as a group:",
        "",
        f"- every route with a token: {code_list(sorted(common))}",
        *(f"- *{title}*: {code_list(codes)}" for title, codes in groups.items()),
        "",
    ]
    first_with: dict[tuple[str, ...], str] = {}
    for method, path, operation in operations:
        parameters = tuple(parameter_lines(operation))
        first = first_with.setdefault(parameters, f"{method} {path}")
        if len(parameters) >= MIN_BASE and first != f"{method} {path}":
            parameters = (f"- query: the same as for [`{first}`](#{anchor(*first.split(' '))})",)
        lines += [f"### `{method} {path}`", "", *operation_lines(operation, parameters, common, groups)]
    taken = below({name for _, _, operation in operations for name in bodies_of(operation)}, schemas)
    replies = {name for _, _, operation in operations for name in replies_of(operation)}
    given = below(replies - ON_THE_PAGE_OF_THE_INTERFACE, schemas)
    lines += ["## Request bodies", ""]
    for name in sorted(taken):
        lines += [f"### {name}", "", *schema_lines(schemas[name])]
    lines += [
        "## Responses",
        "",
        "Fields with a `?` can be missing. Only [openapi.json](openapi.json) describes the views of the console. The usual meanings:",
        "",
    ]
    usual = usual_meanings(schemas[name] for name in given - taken)
    lines += [f"- `{field}`: {in_json(meaning)}" for field, meaning in sorted(usual.items())]
    lines.append("")
    for name in sorted(given - taken):
        base = base_of(name, given - taken, schemas)
        lines += [
            f"### {name}",
            "",
            *schema_lines(schemas[name], usual, (base, schemas[base]) if base else None),
        ]
    return "\n".join([*lines, *error_lines()])


def operation_lines(
    operation: Mapping[str, Any],
    parameters: Iterable[str],
    common: frozenset[str],
    groups: Mapping[str, Sequence[str]],
) -> Iterator[str]:
    """One route. Its action is in the table at the top of the page."""
    yield from parameters
    for name in bodies_of(operation):
        yield f"- body: {link(name)}"
    statuses: dict[str, list[str]] = {}
    for status, answer in operation["responses"].items():
        if status.isdigit() and int(status) < HTTPStatus.BAD_REQUEST:
            statuses.setdefault(answer_text(status, answer), []).append(status)
    yield from (f"- {', '.join(same)}: {text}" for text, same in statuses.items())
    own = [code for code in dict.fromkeys(codes_of(operation)) if code not in common]
    titles = []
    for title, codes in groups.items():
        if {*codes} <= {*own}:
            titles.append(f"*{title}*")
            own = [code for code in own if code not in codes]
    if titles or own:
        yield f"- [errors](#errors): {', '.join([*titles, *(f'`{code}`' for code in own)])}"
    yield ""


def parameter_lines(operation: Mapping[str, Any]) -> Iterator[str]:
    """Yield a line for each query parameter and header of a route."""
    for one in operation.get("parameters", ()):
        if one["in"] in {"query", "header"} and one["name"] not in {USER_HEADER, REPEAT_HEADER}:
            said = f": {in_json(one['description'])}" if one.get("description") else ""
            yield f"- {one['in']} `{one['name']}` ({bounded(one['schema'])}){said}"


def code_groups(
    operations: Iterable[tuple[str, str, Mapping[str, Any]]], common: frozenset[str]
) -> Mapping[str, Sequence[str]]:
    """Return the codes that many routes share, by the name of the group on the page."""
    codes = {f"{method} {path}": codes_of(operation) for method, path, operation in operations}
    message = [code for code in codes["POST /sessions/{session_id}/prompt"] if code not in common]
    session = [code for code in codes["GET /sessions/{session_id}"] if code in message]
    return {"session": session, "message": [code for code in message if code not in session]}


def code_list(codes: Iterable[str]) -> str:
    """Write codes of errors in a sentence."""
    return ", ".join(f"`{code}`" for code in codes)


def codes_of(operation: Mapping[str, Any]) -> list[str]:
    """Name the codes that a route may be refused with, as far as the page of the interface says so."""
    return [code for answer in operation["responses"].values() for code in answer.get("x-codes", ())]


def common_to(operations: Iterable[Mapping[str, Any]]) -> frozenset[str]:
    """Name the codes of all routes that need a token: they are said once."""
    named = [set(codes_of(one)) for one in operations if scope_of(one) != NO_SCOPE]
    return frozenset(set.intersection(*named)) if named else frozenset()


def bounded(rules: Mapping[str, Any]) -> str:
    """Say what a parameter may be."""
    least, most = rules.get("minimum"), rules.get("maximum")
    bounds = f" from {least}" if least is not None else ""
    bounds += f" to {most}" if most is not None and most < MANY else ""
    return f"{type_text(rules)}{bounds}"


def bodies_of(operation: Mapping[str, Any]) -> list[str]:
    """Name the schema of the body that a route takes."""
    content = operation.get("requestBody", {}).get("content", {}).values()
    return [name for kind in content for name in refs_in(kind["schema"])]


def answer_text(status: str, answer: Mapping[str, Any]) -> str:
    """Say what an answer is."""
    if int(status) == HTTPStatus.SWITCHING_PROTOCOLS:
        return "the [WebSocket](wire.md#websocket)"
    content = answer.get("content", {})
    if "text/event-stream" in content:
        return "a [stream](wire.md#server-sent-events)"
    if "application/octet-stream" in content:
        return "the file"
    names = [name for kind in content.values() for name in refs_in(kind.get("schema", {}))]
    linked = ", or ".join(map(link, dict.fromkeys(names)))
    return linked or ("a JSON object" if content else "nothing")


def replies_of(operation: Mapping[str, Any]) -> set[str]:
    """Name the schemas that a route answers with where it succeeds."""
    found: set[str] = set()
    for status, answer in operation["responses"].items():
        if status.isdigit() and int(status) < HTTPStatus.BAD_REQUEST:
            for kind, content in answer.get("content", {}).items():
                if kind == "application/json":
                    found |= set(refs_in(content.get("schema", {})))
    return found


def below(names: Iterable[str], schemas: Mapping[str, Any]) -> set[str]:
    """Name those and all that stands in them; events have a page of their own."""
    found: set[str] = set()
    left = [*names]
    while left:
        name = left.pop()
        if name not in found and name not in ON_THE_PAGE_OF_EVENTS:
            found.add(name)
            left += refs_in(schemas[name])
    return found - ON_A_PAGE_OF_NAMES


def refs_in(schema: Any) -> list[str]:
    """Name the schemas that stand in one."""
    match schema:
        case dict():
            own = schema.get("$ref")
            mine = [own.removeprefix(_REFS)] if isinstance(own, str) else []
            inner = [value for name, value in schema.items() if name not in {"$ref", "discriminator"}]
            return [*mine, *(name for value in inner for name in refs_in(value))]
        case list():
            return [name for value in schema for name in refs_in(value)]
        case _:
            return []


def usual_meanings(schemas: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """Return the meaning of each field that `MIN_USUAL` or more objects describe in the same words."""
    counts = Counter(
        (name, rules["description"])
        for schema in schemas
        for name, rules in schema.get("properties", {}).items()
        if rules.get("description")
    )
    usual: dict[str, str] = {}
    for (name, meaning), count in counts.most_common():
        if count >= MIN_USUAL:
            usual.setdefault(name, meaning)
    return usual


def base_of(name: str, given: Collection[str], schemas: Mapping[str, Any]) -> str | None:
    """Return the largest other response all of whose fields this one has, or None."""
    fields = types_of(schemas[name])
    bases = [other for other in sorted(given) if MIN_BASE <= len(types_of(schemas[other])) < len(fields)]
    bases = [other for other in bases if types_of(schemas[other]).items() <= fields.items()]
    return max(bases, key=lambda other: len(types_of(schemas[other])), default=None)


def types_of(schema: Mapping[str, Any]) -> dict[str, str]:
    """Return the type of each field of an object."""
    return {field: type_text(rules) for field, rules in schema.get("properties", {}).items()}


def schema_lines(
    schema: Mapping[str, Any],
    usual: Mapping[str, str] | None = None,
    base: tuple[str, Mapping[str, Any]] | None = None,
) -> Iterator[str]:
    """The fields of an object, as a list; of anything else its type. A response has the usual meanings of its page."""
    is_given = usual is not None
    if schema.get("description"):
        yield from (schema["description"], "")
    if "properties" not in schema:
        yield from (f"{capital(type_text(schema))}.", "")
        return
    if base:
        yield from (f"All fields of {link(base[0])}, and:", "")
    required = schema.get("required", ())
    for name, rules in schema["properties"].items():
        if base and name in base[1]["properties"]:
            continue
        optional = "" if is_given or name in required else f", {default_text(rules)}"
        said = rules.get("description", "")
        said = "" if usual is not None and usual.get(name) == said else said
        mark = "?" if is_given and name not in required else ""
        meaning = f": {in_json(said)}" if said else ""
        yield f"- `{name}`{mark} ({type_text(rules)}{optional}){meaning}"
    yield ""


def in_json(said: str) -> str:
    """Write what a docstring says for a page on JSON."""
    return re.sub(r"\bNone\b", "null", said)


def default_text(rules: Mapping[str, Any]) -> str:
    """Say what stands in for what is left out."""
    default = rules.get("default")
    return "optional" if default in (None, [], (), {}, "") else f"default `{json.dumps(default)}`"


def type_text(rules: Mapping[str, Any]) -> str:
    """Say what may stand there."""
    if "$ref" in rules:
        name = rules["$ref"].removeprefix(_REFS)
        return "[event](events.md)" if name == "Event" else link(name)
    several = rules.get("anyOf") or rules.get("oneOf")
    if several:
        return " or ".join(dict.fromkeys(map(type_text, several)))
    if "enum" in rules:
        return ", ".join(f"`{one}`" for one in rules["enum"])
    if "const" in rules:
        return f"`{rules['const']}`"
    kind = rules.get("type", "anything")
    if kind == "array":
        items = rules.get("items") or (rules.get("prefixItems") or [{}])[0]
        inner = type_text(items) if isinstance(items, dict) else "anything"
        return f"({inner})[]" if " or " in inner or ", " in inner else f"{inner}[]"
    return f"{kind}"


def link(name: str) -> str:
    """Link to a schema."""
    if name in ON_THE_PAGE_OF_THE_INTERFACE:
        return f"`{name}`, in [openapi.json](openapi.json)"
    if name in ON_A_PAGE_OF_NAMES:
        return f"[{name}]({next(one.home for one in public_names() if one.name == name)})"
    return f"[{name}]({'events.md' * (name in ON_THE_PAGE_OF_EVENTS)}#{name.lower()})"


def scope_of(operation: Mapping[str, Any]) -> str:
    """Say which scope a route needs."""
    scopes = [scope for one in operation.get("security", ()) for names in one.values() for scope in names]
    return ", ".join(f"`{scope}`" for scope in scopes) or NO_SCOPE


def anchor(method: str, path: str) -> str:
    """Give what a heading is linked by."""
    return re.sub(r"[^a-z0-9_ -]", "", f"{method} {path}".lower()).replace(" ", "-")


def capital(text: str) -> str:
    """Begin as a sentence does."""
    return text[:1].upper() + text[1:]


# --- errors


def error_lines() -> Iterator[str]:
    """Each code, with the status that it is answered with, and what to do."""
    yield from (
        "## Errors",
        "",
        'Every error is `{"error": {"code": "…", "message": "…", "hint": "…"}}`: a stable `code` for programs, a `message` with the expected and the given value, and a `hint` with the',
        "remedy, or null. Some also have `request_id`, `field` or `index`. Host plugins can use their own codes. [Exceptions](errors.md) without a row are reported like their class.",
        "",
        "| status | codes | what to do |",
        "|---|---|---|",
    )
    rows = {
        (row.status, row.code or code): row.hint or "" for code, row in reversed(list(ERROR_ANSWERS.items()))
    }
    alike: dict[tuple[int, str], list[str]] = {}
    for (status, code), hint in sorted(rows.items()):
        alike.setdefault((status, hint), []).append(code)
    for (status, hint), codes in alike.items():
        yield f"| {status} | {code_list(codes)} | {hint} |"
    yield ""


# --- options


def options_page() -> str:
    """All that an operator may say."""
    lines = [*OPTIONS_HEAD.splitlines(), ""]
    lines += ["## `create_app` alone", "", "| option | default | meaning |", "|---|---|---|"]
    arguments = inspect.signature(create_app).parameters
    said = described_in(create_app, section="Args")
    lines += [f"| `{name}` | `{arguments[name].default!r}` | {said[name]} |" for name in OWN_OPTIONS]
    lines += ["", "## `create_app` and `open_host`", "", *attrs_rows(HostOptions)]
    lines += ["", "## A profile", "", first_line(AgentProfile), "", *attrs_rows(AgentProfile)]
    lines += [
        "",
        "`ProfileContext`, the argument of a profile function:",
        "",
        *attrs_rows(ProfileContext),
    ]
    lines += [
        "",
        "## `agentrail serve`",
        "",
        SERVE_SAID,
        "",
    ]
    lines += ["| option | variable | in `[host]` | default | meaning |", "|---|---|---|---|---|"]
    said = described_in(ServeFlags)
    for field in attrs.fields(ServeFlags):
        default = getattr(ServeOptions(), field.name, None)
        shown = f"`{default}`" if default not in (None, (), False) else "–"
        key = f"`{SERVE_KEYS[field.name]}`" if field.name in SERVE_KEYS else "–"
        variable = f"`{SERVE_VARIABLES[field.name]}`" if field.name in SERVE_KEYS else "–"
        lines.append(f"| `{flag_of(field.name)}` | {variable} | {key} | {shown} | {said[field.name]} |")
    others = [
        one.name
        for one in attrs.fields(HostForm)
        if one.name not in {*SERVE_KEYS.values(), "profiles", "limits"}
    ]
    lines += [
        "",
        HOST_SAID.format(names=", ".join(f"`{name}`" for name in others)),
    ]
    lines += ["", "## Limits", "", LIMITS_SAID, "", *attrs_rows(Limits), ""]
    return "\n".join(lines)


OPTIONS_HEAD: Final = f"""# The options of a server

{DRAWN}

`create_app(…)` creates the application for `agentrail serve`. `async with open_host(…) as host` opens the same host without HTTP. Pass options as keywords, or as one `HostOptions`. All
faults are reported at once, before anything starts. See [the tutorial](../tutorial/serve-your-agents.md) and [operate a server](../how-to/operate-a-server.md)."""

SERVE_SAID: Final = """Command-line options add to those of the application. Precedence, highest first: the flag, its variable, `[host]` in the project's `agentrail.toml`, `[host]` in yours. `--config` and `--trust-project` work as in
`agentrail run`. Lists in variables are separated by commas."""

HOST_SAID: Final = """Without your own application, each agent of the files is a profile with its name as id. `[host]` also accepts these options: {names}, and
`profiles`, the served agents in order. `[host.limits]` accepts the limits below. See [configure agents in files](../how-to/configure-agents.md#serve-the-agents)."""

LIMITS_SAID: Final = "Set limits with `create_app(limits=Limits(messages_per_minute=20))`. Beyond a limit, the response is 413, 422 or 429 ([errors](routes.md#errors)). 429 includes `Retry-After`."


def attrs_rows(kind: type) -> Iterator[str]:
    """The options of a class, with the words of its docstring."""
    said = described_in(kind)
    yield from ("| option | default | meaning |", "|---|---|---|")
    for field in attrs.fields(kind):
        if field.init:
            yield f"| `{field.name}` | {attrs_default(field.default)} | {said[field.name]} |"


def attrs_default(default: Any) -> str:
    """Write a default as a reader would."""
    if default is attrs.NOTHING:
        return "required"
    if isinstance(default, attrs.Factory):  # type: ignore[arg-type]  # it is a class at run time
        return f"`{default.factory.__name__}()`"
    if isinstance(default, Mapping):
        return "`{}`"
    return f"`{default:,}`" if type(default) is int else f"`{default!r}`"


def first_line(struct: type) -> str:
    """Say what a struct is."""
    return " ".join((inspect.getdoc(struct) or "").partition("\n\n")[0].split())


def described_in(thing: Callable[..., Any], *, section: str = "Attributes") -> dict[str, str]:
    """Names and meanings in a section of a docstring."""
    found = re.search(rf"{section}:\n(.*?)(?:\n\n|\Z)", inspect.getdoc(thing) or "", re.DOTALL)
    entries = re.findall(
        r"^ {4}\*{0,2}(\w+): (.*?)(?=^ {4}\*{0,2}\w+: |\Z)",
        found[1] if found else "",
        re.DOTALL | re.MULTILINE,
    )
    return {name: " ".join(meaning.split()).replace("|", "\\|") for name, meaning in entries}
