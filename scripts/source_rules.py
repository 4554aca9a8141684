"""Rules of source files, and the helpers of all rules. `scripts.repository_rules` runs them with the rules of pages."""

# ruff: noqa: PLR2004, SIM905 - numbers and lists of words

import ast
import re
import tomllib
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, Final

import agentrail
from agentrail.core.session import batch, cycle, machine, step_context
from agentrail.core.stack import pipeline
from agentrail.distribution import NAME
from agentrail.otp import persistent_maps, supervision
from benchmarks.peers.install import PEERS, requirements_of
from scripts import doors
from scripts.compiling import verdicts
from scripts.docsite.nav import ROOT
from scripts.lower_bounds import constraints
from scripts.module_survey import nodes_of, walk
from scripts.scenario_coverage import FOLDERS, SERIES, as_ranges, covered_numbers
from tests.spread import COLLECTED_BY_ALL

PACKAGE: Final = ROOT / "agentrail"

Faults = Iterator[str]


@cache
def text_of(file: Path) -> str:
    """Return the text of a file."""
    return file.read_text(encoding="utf-8")


@cache
def project() -> dict[str, Any]:
    """Return `pyproject.toml`."""
    return tomllib.loads(text_of(ROOT / "pyproject.toml"))


def unlike(what: str, found: Iterable[object], wanted: Iterable[object]) -> Faults:
    """Yield a fault if two sets differ."""
    missing, more = sorted(map(str, {*wanted} - {*found})), sorted(map(str, {*found} - {*wanted}))
    if missing or more:
        yield f"{what}: missing {missing}, unexpected {more}"


def lacking(what: str, found: Iterable[object], wanted: Iterable[object]) -> Faults:
    """Yield a fault if a set lacks something; nothing wanted is a fault too."""
    wanted = {*wanted}
    if not wanted or (missing := wanted - {*found}):
        yield f"{what}: missing {sorted(map(str, missing)) if wanted else 'everything'}"


@cache
def modules() -> Mapping[str, str]:
    """Return the source of each module, by its path from the package."""
    return {one.relative_to(PACKAGE).as_posix(): text_of(one) for one in sorted(PACKAGE.rglob("*.py"))}


# --- names

ONE_MEANING: Final = frozenset(
    """
    BackgroundAgents ClientSystem CycleStream LOGGER Limits NAME Names Plugin S_co Session SessionMonitor SessionReports Subscription Supervisor app
    apply_config_update connect main open_supervisor
    APPLICATION_ID Connect Connector RECORD_COLUMNS SCHEMA SESSION_COLUMNS SNAPSHOT_COLUMNS adopt_rows append_batch change_rows claim_trees
    END_CLAIM create_journal delete_tree draw_piece erase_tree fetch_nodes fetch_records fetch_rows fetch_session find_sessions forget hear_of
    keep_snapshot known known_nodes newest_sessions owned_sessions paged_journal read_records record_of release_tree report_gone session_of
    snapshot_from_row trim_journal
    """.split()
)
"""Public names that several modules may define, because they have the same meaning in each, such as the parts of a store in SQLite and in PostgreSQL."""

OF_THE_SIMULATION: Final = frozenset({"Report", "replay", "run"})
"""Names that `agentrail.testing.simulation` shares with older modules: its interface was written with them."""


def statements(source: str) -> Iterator[ast.AST]:
    """Yield the statements of a module that stand in no other one."""
    return ast.iter_child_nodes(nodes_of(source)[0])


def defined_in(source: str) -> Iterator[str]:
    """Yield the public names that a module defines, without type variables of one letter."""
    for node in statements(source):
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                pass
            case ast.AnnAssign(target=ast.Name(id=name)) | ast.Assign(targets=[ast.Name(id=name)]):
                pass
            case _:
                continue
        if not name.startswith("_") and len(name) > 1:
            yield name


def shared_names(sources: Mapping[str, str]) -> dict[str, list[str]]:
    """Return the public names that several modules define, with the modules."""
    found: dict[str, list[str]] = defaultdict(list)
    for module, source in sources.items():
        for name in set(defined_in(source)):
            found[name].append(module)
    return {name: where for name, where in found.items() if len(where) > 1}


def names_with_two_meanings() -> Faults:
    """Find public names that two modules define, and names of the list that no longer are."""
    public = {name: source for name, source in modules().items() if not re.search(r"(^|/)_(?!_)", name)}
    yield from unlike(
        "names that several modules define", shared_names(public), ONE_MEANING | OF_THE_SIMULATION
    )


def names_of_the_facade() -> Faults:
    """Compare the names that `agentrail` tells type checkers with those that it looks up."""
    tree = ast.parse(modules()["__init__.py"])
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    told = [(node.module, one.name) for node in imports for one in node.names if one.asname == one.name]
    (homes,) = (
        ast.literal_eval(node.value)
        for node in tree.body
        if isinstance(node, ast.AnnAssign) and node.value and ast.unparse(node.target) == "_HOMES"
    )
    yield from unlike(
        "names of agentrail", told, [(home, name) for home, names in homes.items() for name in names]
    )
    yield from unlike("__all__ of agentrail", agentrail.__all__, [name for _, name in told])


def imported_from(source: str) -> set[str]:
    """Return the modules of agentrail that a program imports."""
    found: set[str] = set()
    for node in nodes_of(source):
        if isinstance(node, ast.ImportFrom):
            found.add(node.module or ".")
        elif isinstance(node, ast.Import):
            found.update(name.name for name in node.names)
    return {name for name in found if name.partition(".")[0] == "agentrail"}


# --- queues and decoders

MAKERS: Final = frozenset({"deque", "open_memory_channel", "Queue", "SimpleQueue", "PriorityQueue"})
QUEUES: Final[Mapping[str, Mapping[str, str]]] = {
    "tests/gateway/test_socket_parts.py": {
        "gateway/socket_queue.py:_frames": "max_frames and max_bytes; beyond them the socket closes"
    },
    "tests/telemetry/test_reader.py": {
        "telemetry/reader.py:_queue": "QUEUE_EVENTS; the rest is read from the journals, or dropped and counted"
    },
    "tests/otp/test_tracebacks.py": {"otp/tracebacks.py:waiting": "GROUP_LIMIT exceptions inside of groups"},
    "tests/test_blocking.py": {
        "blocking/supervisor_thread.py:(self._come, self._begun)": "the calls of other threads, begun one each turn",
        "blocking/iterators.py:_taken": "MAX_TAKEN",
    },
    "tests/actors/test_mailbox.py": {
        "actors/mailbox.py:_queue": "capacity",
        "actors/mailbox.py:_NO_MAIL": "holds nothing, `maxlen=0`",
        "actors/mailbox.py:_control": "its supervisor sends one shutdown and few questions",
    },
    "tests/actors/test_addresses.py": {"actors/address.py:_held": "hold_limit"},
    "tests/actors/test_registry.py": {
        "actors/actor_registry.py:_news": "a thousand changes in a row, `_MAX_CHAIN`"
    },
    "tests/otp/test_statem_order.py": {"otp/statem_turn.py:_queue": "postponed events, `max_postponed`"},
    "tests/host/test_webhooks.py": {
        "host/webhook_schedule.py:": "MAX_OWED_OF_A_TENANT, at the door",
        "host/webhook_schedule.py:lane": "MAX_OWED_OF_A_TENANT, at the door",
        "host/webhook_schedule.py:ready": "one for each lane of a tenant that has messages",
    },
    "tests/cli/terminal/test_held_errors.py": {
        "cli/terminal/live_view.py:_lines": "MAX_HELD characters; beyond them the oldest lines go, and it is said how many"
    },
    "tests/gateway/test_hub.py": {
        "gateway/event_hub.py:pending": "what a subscription gives that was just entered"
    },
    "tests/gateway/test_socket_relay.py": {
        "gateway/socket_relay.py:_outbox": "the running commands of a client, and its subscriptions at its own pace while the node may be silent"
    },
    "tests/remote/test_link.py": {
        "remote/link.py:_outbox": "one for each subscription, and each command that a caller waits for",
        "remote/read_position.py:_snapshots": "one for each `EventsLost` of `_waiting`",
    },
    "tests/remote/test_decisions.py": {
        "remote/read_position.py:_waiting": "buffer",
        "remote/read_position.py:kept": "a part of `_waiting`",
    },
    "tests/runtime/test_last_words.py": {"runtime/ended_sessions.py:_due": "MAX_HANDLES"},
    "tests/gateway/test_past_routes.py": {"runtime/journal_inspection.py:kept": "the limit of a page"},
    "tests/runtime/test_session_reports.py": {
        "runtime/session_reports.py:parked": "MAX_PARKED",
        "runtime/session_reports.py:(sender, receiver)": "buffer",
    },
    "tests/runtime/test_kept_sessions.py": {
        "runtime/store_writer.py:_steps": "one for each record of a session that is not durable; while the store takes none nothing is admitted, and no stream read"
    },
    "tests/runtime/test_outbox.py": {"runtime/store_writer.py:_ephemeral": "MAX_EPHEMERAL_BYTES"},
    "tests/runtime/test_store_writer.py": {
        "runtime/store_writer.py:_again": "MAX_BATCH",
        "runtime/store_writer.py:_calls": "starts, ends and rests of sessions, and a beat; those that wait give up with the patience",
    },
    "tests/runtime/test_subscriptions.py": {
        "runtime/event_subscription.py:_NONE": "holds nothing, and is never written to",
        "runtime/event_subscription.py:_replay": "event_buffer_size",
        "runtime/event_subscription.py:_buffer": "buffer",
        "runtime/event_subscription.py:kept": "a part of `_buffer`",
    },
    "tests/runtime/test_readers_come_back.py": {
        "runtime/event_subscription.py:_snapshots": "one for each `EventsLost` of `_replay` and `_buffer`"
    },
    "tests/core/test_exhaustive.py": {
        "testing/exhaustive.py:todo": "the states of a small world, or `max_steps`"
    },
    "tests/simulation/test_network.py": {
        "testing/simulation/byte_network.py:_queue": "one for each connection that a place dials",
        "testing/simulation/connections.py:under_way": "WINDOW; further messages wait at their sender",
        "testing/simulation/connections.py:inbox": "WINDOW; further messages wait at their sender",
    },
    "tests/actors/test_watching.py": {"actors/child_watcher.py:(self.send, self.receive)": "max_events"},
    "tests/host/test_temporary_sessions.py": {
        "host/quotas.py:_ended": "cycles since a reading of two seconds ago"
    },
    "tests/cli/terminal/test_on_a_terminal.py": {
        "cli/terminal/editor.py:(self._send, receive)": "what a person types and does not see yet",
        "cli/chat_session.py:_ahead": "what a person types while the session does not answer",
    },
    "tests/gateway/stdio/test_acp.py": {"gateway/stdio/acp_connection.py:": "1, an answer"},
    "tests/sandboxes/remote/test_port.py": {"sandboxes/remote/connection.py:(self._came, pieces)": "_QUEUED"},
    "tests/mcp/test_client.py": {"tools/mcp/source.py:_listed_at": "MAX_LISTINGS"},
    "tests/mcp/test_offers.py": {"tools/mcp/source.py:_logged_at": "MAX_LOGGED"},
    "tests/sandboxes/test_attacks.py": {"sandboxes/protected_mounts.py:waiting": "_MAX_ENTRIES_LOOKED_AT"},
}
"""The queues of the shell by the test that meets their bound, each with its bound."""


def queues_in(source: str) -> list[str]:
    """Return the names of the queues that a source makes, an empty one for a queue without a name."""
    if not any(maker in source for maker in MAKERS):
        return []
    nodes = nodes_of(source)
    found = []
    for node in nodes:
        if isinstance(node, ast.Assign | ast.AnnAssign) and _makes_queue(node.value):
            target = node.targets[0] if isinstance(node, ast.Assign) else node.target
            found.append(target.attr if isinstance(target, ast.Attribute) else ast.unparse(target))
    return [*found, *[""] * (sum(map(_makes_queue, nodes)) - len(found))]


def _makes_queue(node: object) -> bool:
    if not isinstance(node, ast.Call):
        return False
    made = (
        node.func.value if isinstance(node.func, ast.Subscript) else node.func
    )  # `open_memory_channel[int](1)`
    called = made.attr if isinstance(made, ast.Attribute) else ast.unparse(made)
    factories = [ast.unparse(one.value) for one in node.keywords if one.arg == "factory"]  # of a field
    return called in MAKERS or (called == "field" and not MAKERS.isdisjoint(factories))


def bounds_of_queues() -> Faults:
    """Compare the queues of the package with the table (AT-086)."""
    found = [f"{file}:{name}" for file, source in modules().items() for name in queues_in(source)]
    yield from unlike("QUEUES", found, [name for queues in QUEUES.values() for name in queues])
    yield from (f"QUEUES: there is no {test}" for test in QUEUES if not (ROOT / test).exists())


BUILDERS: Final = frozenset({"decoder_of", "converter_of"})
AT_RUN_TIME: Final[Mapping[str, str]] = {
    "core/stack/plugin_state.py": "states of plugins",
    "protocols/a2a.py": "answers of a client, of the type that their fields name",
    "gateway/socket_frames.py": "frames, each from the table of frames",
    "remote/error_codes.py": "parameters of the class of an error",
    "sandboxes/remote/operations.py": "answers of a type that the operation names",
    "tools/function.py": "parameters of tools",
    "typed/annotations.py": "keys of mappings in types of an application",
    "typed/schema_nodes.py": "types of an application",
    "wire/rows.py": "rows of a type that the list names",
}
"""Modules that make decoders of types that they are given, under the lock of `structs`."""


def decoders_in(source: str) -> Iterator[tuple[str, bool]]:
    """Yield each call that may make a decoder, and whether it runs at import."""
    makers = {"Decoder", "decode", "convert", *BUILDERS}
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
    nodes = nodes_of(source)
    functions = [node for node in nodes if isinstance(node, kinds)]
    for node in nodes:
        if isinstance(node, ast.Call) and getattr(node.func, "attr", getattr(node.func, "id", "")) in makers:
            is_late = any(one.lineno <= node.lineno <= (one.end_lineno or 0) for one in functions)
            yield ast.unparse(node), not is_late


def is_typed_decoding(call: str) -> bool:
    """Return whether a call decodes as a type without the lock."""
    name, _, arguments = call.partition("(")
    if name in {"msgspec.json.Decoder", "json.Decoder", "Decoder"}:
        return arguments != ")"
    if re.fullmatch(r"msgspec\.(json|msgpack|toml|yaml)\.decode", name):
        return "type=" in arguments
    return name in {"msgspec.convert", "msgspec.msgpack.Decoder"}


def typed_decoders() -> Faults:
    """Find decoders that are made without the lock, or late: the table of a type is not safe in threads until it is built."""
    late = set()
    for name, source in modules().items():
        if name == "structs.py" or not ("msgspec" in source or "agentrail.structs" in source):
            continue
        for call, is_at_import in decoders_in(source):
            if is_typed_decoding(call):
                yield f"{name}: decode with agentrail.structs instead of {call}"
            if call.partition("(")[0] in BUILDERS and not is_at_import:
                late.add(name)
    yield from unlike("AT_RUN_TIME", late, AT_RUN_TIME)


def users_of_the_collector() -> Faults:
    """Compare the modules that import `gc` with those that may."""
    found = [
        name
        for name, source in modules().items()
        if re.search(r"^\s*(import gc\b|from gc import)", source, re.MULTILINE)
    ]
    yield from unlike(
        "imports of gc", found, ["gc_settings.py", "testing/orphans.py", "testing/watched_stack.py"]
    )


# --- the compiled build

HEAD_OF_A_CLASS: Final = re.compile(r"^\s*class \w+(\(.*?):\s*(?:#.*)?$", re.MULTILINE | re.DOTALL)
BOUNDED: Final[Mapping[str, str]] = {
    "is_ephemeral": "as deep as sessions have children, which is bounded",
    "_one": "calls itself if an exception cannot be printed, and then with one that can",
    **dict.fromkeys(("_put", "_drop", "_first", "_last", "_items", "_changed"), "as deep as a table is high"),
    **dict.fromkeys(("_put_hashed", "_drop_hashed", "_leaf_items"), "as deep as a hash has digits"),
}
"""Functions of compiled modules that call themselves, and why that ends soon."""


def compiled_modules() -> Faults:
    """Check what is compiled: all hot modules, no structs, no bases of other classes, and no unbounded recursion, which has no limit there."""
    judged = verdicts(ROOT)
    yield from (
        f"{name}: give a reason in some words"
        for name, reason in judged.items()
        if reason and len(reason.split()) < 3
    )
    names = [name for name, reason in judged.items() if reason is None]
    hot = (batch, cycle, machine, pipeline, step_context, supervision, persistent_maps)
    yield from lacking("compiled modules", names, [module.__name__ for module in hot])
    classes: set[str] = set()
    recursive: set[str] = set()
    for name in names:
        for one in vars(import_module(name)).values():
            if isinstance(one, type) and one.__module__ == name:
                classes.add(one.__name__)
                if hasattr(one, "__struct_fields__") or hasattr(one, "__attrs_attrs__"):
                    yield f"{name}.{one.__name__}: a struct in a compiled module"
        recursive |= recursive_functions(modules()[f"{name.removeprefix('agentrail.').replace('.', '/')}.py"])
    yield from unlike("BOUNDED", recursive, BOUNDED)
    for path, source in modules().items():
        if classes.isdisjoint(re.findall(r"\w+", " ".join(HEAD_OF_A_CLASS.findall(source)))):
            continue
        for node in nodes_of(source):
            bases = node.bases if isinstance(node, ast.ClassDef) else ()
            if {ast.unparse(base).partition("[")[0].rpartition(".")[2] for base in bases} & classes:
                yield f"{path}: derives from a compiled class"


def recursive_functions(source: str) -> set[str]:
    """Return the functions of a module that call themselves, directly or through others."""
    functions = {node.name: node for node in nodes_of(source) if isinstance(node, ast.FunctionDef)}
    used = {name: _names_in(function) & set(functions) for name, function in functions.items()}

    def reached(name: str) -> set[str]:
        found: set[str] = set()
        left = [name]
        while left:
            new = used[left.pop()] - found
            found |= new
            left.extend(new)
        return found

    return {name for name in functions if name in reached(name)}


def _names_in(function: ast.FunctionDef) -> set[str]:
    nodes = walk(function)
    own = {node.arg for node in nodes if isinstance(node, ast.arg)}
    names = [node for node in nodes if isinstance(node, ast.Name)]
    own |= {node.id for node in names if isinstance(node.ctx, ast.Store)}
    return {node.id for node in names} - own


# --- rooms, tests and dependencies


def layers() -> Faults:
    """Compare the contracts of import-linter with the rooms on disk."""
    layered, pure = project()["tool"]["importlinter"]["contracts"][:2]
    written = [room.strip() for line in layered["layers"] for room in line.split("|")]
    on_disk = {path.stem for path in PACKAGE.glob("*.py")} | {
        path.parent.name for path in PACKAGE.glob("*/__init__.py")
    }
    rooms = on_disk - {"__init__", *layered["exhaustive_ignores"]}
    yield from unlike("layers", [room for room in written if not room.startswith("(")], rooms)
    if layered["exhaustive"] is not True:
        yield "the contract of layers should be exhaustive"
    wanted = (
        "structs errors frozen messages events otp core plugins typed wire protocols config commands".split()
    )
    yield from unlike("pure rooms", pure["source_modules"], [f"agentrail.{room}" for room in wanted])


def dependencies() -> Faults:
    """Check that each dependency has a lower bound, so that `make test-minimum` installs it, and our name."""
    if project()["project"]["name"] != NAME:
        yield f"pyproject.toml: the name should be {NAME}"
    try:
        bounds = len(list(constraints(project()["project"])))
    except ValueError as error:
        yield str(error)
    else:
        if bounds < len(project()["project"]["dependencies"]):
            yield "scripts/lower_bounds.py: leaves a dependency out"


def marks_of_tests() -> Faults:
    """Check that each mark of a test names a number of its series, and that each number has a test."""
    try:
        covered = covered_numbers(tuple(ROOT / folder for folder in FOLDERS))
    except ValueError as error:
        yield str(error)
    else:
        for series, known in SERIES.items():
            if known - covered[series]:
                yield f"no test is marked with these numbers of {series}: {as_ranges(known - covered[series])}"


NUMBERED: Final = re.compile(
    r"pytest\.mark\.(?:scenario|at|journal|host|c|operation|experience|blueprint|simulation)\([^()]+\)"
)


def numbers_of_nights() -> Faults:
    """Find numbers whose tests are all left to `make nightly`."""
    nights, days = set[str](), set[str]()
    for path in (ROOT / "tests").rglob("test_*.py"):
        for node in statements(text_of(path)) if NUMBERED.search(text_of(path)) else ():
            match node:
                case ast.FunctionDef() | ast.AsyncFunctionDef():
                    written = [ast.unparse(one) for one in node.decorator_list]
                case ast.Assign(targets=[ast.Name(id="pytestmark")]):
                    written = [ast.unparse(node.value)]
                case _:
                    continue
            numbers = NUMBERED.findall(" ".join(written))
            (nights if "nightly" in written else days).update(numbers)
    yield from (f"{one}: CI runs no test of it" for one in sorted(nights - days))


def sentences_of_tests() -> Faults:
    """Find tests without the sentence that they prove; ruff would want one of each of their helpers too."""
    head = re.compile(r'^(?:async )?def (test_\w+)\((?>(?s:.*?)\)(?: -> \w+)?:\n)(?! *r?""")', re.MULTILINE)
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("test_*.py")):
            found = head.findall(text_of(path))
            written = {*defined_in(text_of(path))} if found else {}  # and not in a text that a test runs
            yield from (
                f"{path.relative_to(ROOT)}: {name} has no docstring" for name in found if name in written
            )


def shares_of_tests() -> Faults:
    """Compare the shares of the root `conftest.py` with the tests that ask for what takes seconds to build or to read."""
    conftest = import_module("conftest")
    files = {path.relative_to(ROOT).as_posix(): text_of(path) for path in (ROOT / "tests").rglob("test_*.py")}
    texts = [*files.values(), *map(text_of, (ROOT / "property_tests").rglob("test_*.py"))]
    defined = re.findall(r"^(?:async )?def (test_\w+)", "\n".join(texts), re.MULTILINE)
    yield from lacking("tests of LONGEST in conftest.py", defined, conftest.LONGEST)
    yield from lacking("folders in tests/", (name.split("/")[1] for name in files), COLLECTED_BY_ALL)
    asking = {
        "what mypy reads": {
            name
            for name, text in files.items()
            if re.search(r"^from .* import strict_mypy$", text, re.MULTILINE)
        },
        "the types of vendors": {
            name
            for name, text in files.items()
            if re.search(r"^from tests\.providers\.vendors import", text, re.MULTILINE)
        },
    }
    for built, share in (
        ("small_world", "the small world"),
        ("states_by_owner", "a state for each kind of owner"),
    ):
        asking[share] = {
            f"{name}::{node.name}"
            for name, text in files.items()
            if built in text
            for node in statements(text)
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_")
            if built in {one.id for one in walk(node) if isinstance(one, ast.Name)}
        }
    for share, wanted in asking.items():
        yield from unlike(
            f"{share} in conftest.py", [name for name, its in conftest.SHARES.items() if its == share], wanted
        )
    for name, text in files.items():
        if re.search(
            r"^(from|import) (anthropic|google(?!\.protobuf)|openai|pydantic)\b", text, re.MULTILINE
        ):
            yield f"{name}: imports the client of a vendor where it is collected"


def exceptions_of_doors() -> Faults:
    """Check that each exception from the doors has a reason and a file, and no file has its own."""
    table = tomllib.loads(text_of(doors.LIST))["lint"]
    reasons = {
        line.split('"')[1]: line.partition("#")[2]
        for line in text_of(doors.LIST).splitlines()
        if line.startswith('"')
    }
    for path in table["per-file-ignores"]:
        if len(reasons[path].split()) < 3 or not list(ROOT.glob(path)):
            yield f"scripts/doors.toml: {path} needs a file and a reason"
    for entry, ban in table["flake8-tidy-imports"]["banned-api"].items():
        if not ban["msg"]:
            yield f"scripts/doors.toml: {entry} needs a message"
    for folder, reason in doors.LET_OFF.items():
        if not reason or not (ROOT / folder).is_dir():
            yield f"scripts/doors.py: {folder} needs a folder and a reason"
    for path in PACKAGE.rglob("*.py"):
        if re.search(r"noqa:[^#]*TID251", text_of(path)):
            yield f"{path.relative_to(ROOT)}: an exception from the doors belongs in scripts/doors.toml"


def peers() -> Faults:
    """Check that each compared framework is pinned, has an adapter, and is not a dependency of ours."""
    extras = project()["project"]["optional-dependencies"].values()
    ours = {*project()["project"]["dependencies"], *(line for extra in extras for line in extra)}
    folder = ROOT / "benchmarks" / "peers"
    for peer in PEERS:
        needed = requirements_of(peer)
        if not needed or not all("==" in one for one in needed):
            yield f"{peer}: pin each of its requirements"
        if not (folder / f"of_{peer.replace('-', '_')}.py").is_file():
            yield f"{peer}: has no adapter"
        if any(line.startswith(needed[0].partition("==")[0]) for line in ours):
            yield f"{peer}: is a dependency of ours"
    for path in (folder / "drive.py", *folder.glob("of_*.py")):
        if re.search(r"^\s*(from|import) (agentrail|benchmarks|trio|attrs)\b", text_of(path), re.MULTILINE):
            yield f"{path.relative_to(ROOT)}: runs where neither agentrail nor Trio is installed"


SOURCE_RULES: Final[tuple[Callable[[], Faults], ...]] = (
    names_with_two_meanings, names_of_the_facade, bounds_of_queues, typed_decoders, users_of_the_collector, compiled_modules, layers,
    dependencies, marks_of_tests, numbers_of_nights, sentences_of_tests, shares_of_tests, exceptions_of_doors, peers,
)  # fmt: skip
