"""The pages of public names: what each module is imported for, and where every name of it is described.

A name has one home. What another page of the reference draws (errors, events, actors, plugins, the two classes with a page each) is linked
to; everything else stands here, as a directive that the site fills with the docstring: `::: module.name`.
"""

import ast
import inspect
import re
from collections.abc import Iterator, Mapping
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import MappingProxyType
from typing import Final

from attrs import frozen

DRAWN: Final = "<!-- Drawn from the code by `make docs`; edit the code. -->"
REFERENCE: Final = Path(__file__).parent.parent / "docs" / "reference"
FOLDER: Final = "api"

MODULES: Final[Mapping[str, tuple[str, str]]] = MappingProxyType(
    {
        "agentrail": ("The façade", "agentrail"),
        "ports": (
            "Interfaces for adapters",
            "agentrail.abc agentrail.abc.store agentrail.abc.stored_states",
        ),
        "messages": ("Messages", "agentrail.messages"),
        "tools": (
            "Tools",
            (
                "agentrail.tools agentrail.tools.task agentrail.tools.exit_plan agentrail.tools.write_file "
                "agentrail.tools.web_fetch agentrail.tools.web_search agentrail.tools.client agentrail.tools.mcp"
            ),
        ),
        "plugins": ("Plugins", "agentrail.plugins agentrail.plugins.memory_flush"),
        "events": ("Values in events and errors", "agentrail.events agentrail.errors"),
        "blueprints": (
            "Blueprints and files",
            (
                "agentrail.blueprints agentrail.blueprints.configuration agentrail.blueprints.capabilities "
                "agentrail.blueprints.web"
            ),
        ),
        "evals": ("Evals", "agentrail.evals"),
        "commands": ("Slash commands", "agentrail.commands"),
        "blocking": ("For asyncio, threads and notebooks", "agentrail.blocking"),
        "host": (
            "Hosts and gateways",
            (
                "agentrail.host agentrail.host.consolidation agentrail.host.profile_policy agentrail.gateway "
                "agentrail.gateway.app agentrail.gateway.serving"
            ),
        ),
        "providers": (
            "Providers",
            (
                "agentrail.providers.options agentrail.providers.http agentrail.providers.http_provider "
                "agentrail.providers.wire_format agentrail.providers.response_builder agentrail.providers.json_text "
                "agentrail.providers.failures agentrail.providers.prices agentrail.providers.vendors agentrail.providers.embeddings"
            ),
        ),
        "stores": (
            "Stores and sandboxes",
            (
                "agentrail.stores.memory agentrail.stores.sqlite agentrail.stores.knowledge_sqlite agentrail.stores.recall_memory "
                "agentrail.stores.recall_sqlite agentrail.sandboxes.local agentrail.sandboxes.memory agentrail.sandboxes.composite "
                "agentrail.sandboxes.remote.client agentrail.stores.notes_files"
            ),
        ),
        "telemetry": ("Telemetry", "agentrail.telemetry"),
        "testing": (
            "The test kit",
            " ".join(
                f"agentrail.testing.{name}"
                for name in (
                    *(
                        "models",
                        "tools",
                        "clock",
                        "supervisors",
                        "published",
                        "orphans",
                        "held",
                    ),
                    *("cancelling", "faults", "digest", "seeded", "taken", "folded", "cassette"),
                    *("hooks", "plugins", "check_plugin", "stacks", "strategies", "scenario"),
                    *("check_provider", "check_requests", "check_dialects"),
                    *(
                        "check_tool",
                        "check_sandbox",
                        "check_store",
                        "store_rules",
                        "faulty_store",
                        "check_memory",
                        "check_notes",
                        "check_knowledge",
                    ),
                    *(
                        "simulation.life",
                        "simulation.simulated_tests",
                        "simulation.world",
                        "simulation.faults",
                        "simulation.people",
                        "simulation.chatty_model",
                        "simulation.determinism",
                        "simulation.sim_files",
                        "simulation.ownership_model",
                    ),
                )
            ),
        ),
        "others": (
            "Other modules",
            (
                "agentrail.gc_settings agentrail.runtime.loop_watch agentrail.runtime.session_loader agentrail.web.rules agentrail.web.engines.brave "
                "agentrail.otp.exits"
            ),
        ),
    }
)
"""The pages, by the name of their file: a title, and the modules on it."""

ELSEWHERE: Final[Mapping[str, str]] = MappingProxyType(
    {"agentrail.actors": "actors.md", "agentrail.errors": "errors.md", "agentrail.events": "events.md"}
)
"""Modules that have a page of another kind, from `docs/reference`."""


@frozen(kw_only=True)
class PublicName:
    """A name that a program may import.

    Attributes:
        module: Where it is imported from.
        name: What it is called.
        home: Where it is described, from `docs/reference`: a page, and an anchor where there is one.
        own: Whether that is here, by the directive.
    """

    module: str
    name: str
    home: str
    own: bool


def names_of_module(name: str) -> list[str]:
    """List what a module is imported for: what it lists itself, else what it hands on, else what it defines."""
    module = import_module(name)
    if listed := getattr(module, "__all__", None):
        return sorted(listed)
    spec = find_spec(name)
    if spec is None or spec.origin is None:
        message = f"{name} has no source: public modules are files"
        raise ImportError(message)
    tree = ast.parse(Path(spec.origin).read_text(encoding="utf-8"))
    found = _handed_on(tree) if spec.submodule_search_locations else []
    return sorted({one for one in found or _defined(tree) if not one.startswith("_")})


def _handed_on(tree: ast.Module) -> list[str]:
    """Names that a type checker takes for handed on: `from x import name as name`."""
    imports = (node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom))
    return [one.name for node in imports for one in node.names if one.asname == one.name]


def _defined(tree: ast.Module) -> Iterator[str]:
    for node in tree.body:
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield name
            case _:
                pass


def anchor(name: str) -> str:
    """What the heading of a name is linked by."""
    return name.lower()


@cache
def public_names() -> tuple[PublicName, ...]:
    """Every name of every public module, with its one home."""
    homes: dict[tuple[str, int], str] = {}
    for module, page in ELSEWHERE.items():
        there = described_on(page)
        homes |= {
            (name, id(getattr(import_module(module), name))): f"{page}{there[name]}"
            for name in names_of_module(module)
            if name in there
        }
    _add_homes_of_plugins(homes)
    _add_homes_of_calls(homes)
    found = []
    on_pages = {module for _, modules in MODULES.values() for module in modules.split()}
    for module in sorted(ELSEWHERE.keys() - on_pages):  # all of it stands there
        for name in names_of_module(module):
            home = homes[name, id(getattr(import_module(module), name))]
            found.append(PublicName(module=module, name=name, home=home, own=False))
    for page, (_, modules) in MODULES.items():
        for module in modules.split():
            for name in names_of_module(module):
                key = (name, id(getattr(import_module(module), name)))
                own = key not in homes
                home = homes.setdefault(key, f"{FOLDER}/{page}.md#{anchor(name)}")
                found.append(PublicName(module=module, name=name, home=home, own=own))
    return tuple(found)


def described_on(page: str) -> dict[str, str]:
    """Read which names a drawn page describes, and the anchor of each that has a heading."""
    text = (REFERENCE / page).read_text(encoding="utf-8")
    found = dict.fromkeys(re.findall(r"^(?:\*\*|\| `\w+` \| )`(\w+)`(?:\*\*$| \|)", text, re.MULTILINE), "")
    return found | {name: f"#{anchor(name)}" for name in re.findall(r"^#{2,3} `(\w+)`$", text, re.MULTILINE)}


def _add_homes_of_plugins(homes: dict[tuple[str, int], str]) -> None:
    """Hooks and actions have their page; a plugin that is built in has a how-to."""
    module = import_module("agentrail.plugins")
    drawn = described_on("plugins.md")
    for name in names_of_module("agentrail.plugins"):
        dashed = "".join(f"-{one.lower()}" if one.isupper() else one for one in name).lstrip("-")
        if name in drawn:
            homes[name, id(getattr(module, name))] = f"plugins.md{drawn[name]}"
        elif (REFERENCE.parent / "how-to" / "plugins" / f"{dashed}.md").is_file():
            homes[name, id(getattr(module, name))] = f"../how-to/plugins/{dashed}.md"


def _add_homes_of_calls(homes: dict[tuple[str, int], str]) -> None:
    module = import_module("agentrail")
    for name, page in (("Session", "session-api.md"), ("SessionSupervisor", "supervisor-api.md")):
        homes[name, id(getattr(module, name))] = page


# --- the pages


MADE_BY_CODE: Final = frozenset({"CAPABILITIES", "MATRIX"})
"""Values that an expression makes, which says less of them than their docstrings."""

_WITHOUT_VALUE: Final = ("    options:", "      show_attribute_values: false")


def api_page(page: str) -> str:
    """One page: its modules, each with what it is, what is described elsewhere, and the docstrings of the rest."""
    title, modules = MODULES[page]
    lines = [f"# {title}", "", DRAWN, ""]
    alone = len(modules.split()) == 1
    seen: set[str] = set()
    for module in modules.split():
        names = [one for one in public_names() if one.module == module]
        lines += [] if alone else [f"## `{module}`", ""]
        lines += [f"Import from `{module}`. {_said_of(module)}" if alone else _said_of(module), ""]
        others = [one for one in names if not one.own]
        if module in ELSEWHERE:
            lines += [
                f"[Its own page](../{ELSEWHERE[module]}) describes the other names.",
                "",
            ]
        elif others:
            linked = ", ".join(f"[`{one.name}`]({link_from(one.home, page)})" for one in others)
            lines += [f"Described elsewhere: {linked}.", ""]
        for one in (one for one in names if one.own):
            if one.name in seen:
                message = f"{page}: two names {one.name}: put one of the modules on another page"
                raise ValueError(message)
            seen.add(one.name)
            lines += [f"{'##' if alone else '###'} `{one.name}`", "", f"::: {module}.{one.name}"]
            lines += [*(_WITHOUT_VALUE if one.name in MADE_BY_CODE else ()), ""]
    return "\n".join(lines)


def _said_of(module: str) -> str:
    """Return the first sentence of a module."""
    said = (inspect.getdoc(import_module(module)) or "").split("\n\n", maxsplit=1)[0]
    return f"{' '.join(said.split()).split('. ', maxsplit=1)[0].removesuffix('.')}."


def link_from(home: str, page: str) -> str:
    """Say how a page in the folder links to a home."""
    if home.startswith(f"{FOLDER}/"):
        near = home.removeprefix(f"{FOLDER}/")
        return near.removeprefix(f"{page}.md") if near.startswith(f"{page}.md#") else near
    return f"../{home}"


def names_page() -> str:
    """Every public name, in order, and where it is described."""
    lines = [
        "# All public names",
        "",
        DRAWN,
        "",
        "All public names, with their modules and pages. Other names can change without notice.",
        "Most programs need only [the façade](agentrail.md).",
        "",
        "| name | imported from |",
        "|---|---|",
    ]
    by_name: dict[tuple[str, str], list[str]] = {}
    for one in public_names():
        by_name.setdefault((one.name, one.home), []).append(one.module)
    for (name, home), modules in sorted(by_name.items(), key=lambda item: (item[0][0].lower(), item[0])):
        lines.append(
            f"| [`{name}`]({link_from(home, 'README')}) | {', '.join(f'`{one}`' for one in modules)} |"
        )
    return "\n".join([*lines, ""])
