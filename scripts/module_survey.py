"""Which modules of the package could be merged, and which classes repeat each other's fields: two figures of `make longest`.

A module is mergeable if exactly one module imports it and that module is an ordinary one of the same folder. A module that
only an `__init__` imports is public and has nowhere to go. A merge that would take a module out of the compiled build is
refused, because no test fails when that happens.
"""

import ast
import itertools
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Final

from attrs import frozen

from scripts.compiling import compiled_modules

MIN_SHARED_FIELDS: Final = 6
MIN_SHARED_PART: Final = 0.6
"""Least part of the smaller class's fields that two classes share."""

REASONS: Final[Mapping[str, str]] = {
    "port: the tool as its author writes it, apart from the record of it in a journal": "ToolSpec/ToolTraits",
    "derived: the plugin as the core holds it": "Member/Plugin",
    "wire: JSON of the value, whose optional fields, nulls, names or order differ": """
        TreeNode/TreeItem TreeNode/TreeRow TreeItem/TreeRow CommandRow/CommandItem CallStory/CallDetails
        Snapshot/SnapshotForm Approval/ShownApproval SessionItem/SessionRow RequestReply/RequestFacts""",
    "stored: a line of an exported journal, and what a reader sees of a record": "_Line/JournalEntry",
    "lay-out: msgspec refuses a Struct with two bases that have fields, and the order of fields is stored": """
        Prompt/GoOn Prompt/QueuedPrompt AbortCycle/AbortArguments AskUser/Question""",
    "layers: the core keeps data, the shell live objects, and a port knows neither": """
        ChildRequest/ToolWantsChild ToolContext/RunTool ToolContext/Context ToolFinished/AttemptEnd AgentSpec/Agent
        SessionConfig/SessionOptions SharedNames/HostOptions""",
    "optional: an agent leaves open what a session decides": "Agent/SessionOptions",
    "typing: keywords of `start_session`, which a test holds to `SessionOptions`": """
        OwnKeywords/SessionOptions SessionConfig/OwnKeywords DefaultsForm/OwnKeywords""",
    "file: plain values of a configuration file, read before what they configure is imported": """
        DefaultsForm/SessionOptions ProviderForm/ProviderOptions WebForm/WebRules FileForm/Settings
        McpForm/McpServer McpOAuthForm/OAuthClient""",
    "step: the draft of a state machine, apart from its frozen state": "SupervisorState/SupervisorStep",
    "file: a simulated life as data, with names in place of functions, and the life itself": "Report/SimFile",
}
"""Why pairs of similar classes stay two: the reason, then the pairs by name."""


@frozen(kw_only=True)
class Merge:
    """A module and the only module that imports it."""

    module: str
    into: str


@frozen(kw_only=True)
class ModuleSurvey:
    """The modules of a package, by path from the package's parent."""

    modules: tuple[str, ...]
    merges: tuple[Merge, ...]
    """Merges that leave every file within the limit, the smallest module first."""
    refused: tuple[tuple[Merge, str], ...]
    """Merges that are not made, each with the reason."""

    @property
    def mergeable_percent(self) -> float:
        """Share of mergeable modules, in percent."""
        return round(100 * len(self.merges) / max(1, len(self.modules)), 1)


def nodes_of(source: str, name: str = "<unknown>") -> Sequence[ast.AST]:
    """Return the nodes of a module in the order of `ast.walk`, without operators and contexts such as `Load`.

    A module is parsed once in a run, however many linters, figures and rules look at it.

    Raises:
        SyntaxError: The module, which has this name, does not parse.
    """
    try:
        return _nodes_of(source)
    except SyntaxError as error:
        error.filename = name
        raise


@cache
def _nodes_of(source: str) -> Sequence[ast.AST]:
    return walk(ast.parse(source))


_LEAVES: Final = ("ctx", "op", "ops")
"""Fields with operators and contexts: a third of all nodes."""


def walk(tree: ast.AST) -> list[ast.AST]:
    """Do as `ast.walk` does in a third of the time, and leave out operators and contexts."""
    nodes = [tree]
    fields: dict[type[ast.AST], list[str]] = {}
    for node in nodes:  # which grows
        kind = type(node)
        if kind not in fields:
            fields[kind] = [name for name in kind._fields if name not in _LEAVES]
        for name in fields[kind]:
            value = getattr(node, name, None)
            if isinstance(value, list):
                nodes += [one for one in value if isinstance(one, ast.AST)]
            elif isinstance(value, ast.AST):
                nodes.append(value)
    return nodes


def survey_modules(package: Path, *, max_file_lines: int) -> ModuleSurvey:
    """Find the modules that can be merged into their only importer.

    Args:
        package: Folder of the package, `agentrail`.
        max_file_lines: Length limit of a merged file.

    Raises:
        SyntaxError: A module does not parse.
    """
    sources = {
        path.relative_to(package.parent).as_posix(): path.read_text(encoding="utf-8")
        for path in sorted(package.rglob("*.py"))
    }
    into = dict(_only_importers(sources))
    lines = {module: source.count("\n") for module, source in sources.items()}
    compiled = {f"{name.replace('.', '/')}.py" for name in compiled_modules(package.parent)}
    merges: dict[str, str] = {}
    refused: list[tuple[Merge, str]] = []
    for module in sorted(into, key=lambda one: (lines[one], one)):
        target = into[module]
        while target in merges:  # it moved itself
            target = merges[target]
        merge = Merge(module=module, into=target)
        length = lines[module] + lines[target]
        if (module in compiled) != (target in compiled):
            refused.append((merge, "only one of the two is compiled"))
        elif length > max_file_lines:
            refused.append((merge, f"the file would have {length} lines"))
        elif target != module:
            merges[module] = target
            lines[target] = length
    return ModuleSurvey(
        modules=tuple(sources),
        merges=tuple(Merge(module=module, into=target) for module, target in merges.items()),
        refused=tuple(refused),
    )


def _only_importers(sources: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    path_of = {_dotted(path): path for path in sources}
    importers: defaultdict[str, set[str]] = defaultdict(set)
    for path, source in sources.items():
        for node in nodes_of(source, path):
            if isinstance(node, ast.ImportFrom) and node.module:
                for name in (node.module, *(f"{node.module}.{alias.name}" for alias in node.names)):
                    if name in path_of:
                        importers[path_of[name]].add(path)
    for module, found in importers.items():
        if len(found) == 1 and not _is_init(module):
            (importer,) = found
            if not _is_init(importer) and Path(importer).parent == Path(module).parent:
                yield module, importer


def _dotted(path: str) -> str:
    return path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def _is_init(path: str) -> bool:
    return path.endswith("/__init__.py")


def compiled_functions(package: Path) -> int:
    """Count the functions of the modules that a compiled build compiles."""
    paths = [f"{name.replace('.', '/')}.py" for name in compiled_modules(package.parent)]
    return sum(
        isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        for path in paths
        for node in nodes_of((package.parent / path).read_text("utf-8"), path)
    )


def similar_classes(package: Path) -> Iterator[tuple[str, str]]:
    """Find pairs of classes that share six annotated fields and 60 % of the smaller class's fields."""
    found: list[tuple[str, frozenset[str]]] = []
    for path in sorted(package.rglob("*.py")):
        name = path.relative_to(package.parent).as_posix()
        for node in nodes_of(path.read_text(encoding="utf-8"), name):
            if isinstance(node, ast.ClassDef):
                fields = frozenset(
                    line.target.id
                    for line in node.body
                    if isinstance(line, ast.AnnAssign)
                    and isinstance(line.target, ast.Name)
                    # A constant or a method of a part, and no field.
                    and not (isinstance(line.annotation, ast.Name) and line.annotation.id == "Final")
                )
                if len(fields) >= MIN_SHARED_FIELDS:
                    found.append((f"{name} {node.name}", fields))
    for (one, ours), (other, theirs) in itertools.combinations(found, 2):
        if len(ours & theirs) >= max(MIN_SHARED_FIELDS, MIN_SHARED_PART * min(len(ours), len(theirs))):
            yield one, other


def pairs_by_reason(pairs: Iterable[tuple[str, str]]) -> Mapping[str, Sequence[str]]:
    """Group pairs of similar classes by the reason why they stay two; those without a reason have the key `""`."""
    reasons = {pair: reason for reason, names in REASONS.items() for pair in names.split()}
    found: defaultdict[str, list[str]] = defaultdict(list)
    for one, other in pairs:
        pair = f"{one.rpartition(' ')[2]}/{other.rpartition(' ')[2]}"
        found[reasons.get(pair, "")].append(pair)
    return found


if __name__ == "__main__":
    for why, those in pairs_by_reason(similar_classes(Path(__file__).parent.parent / "agentrail")).items():
        sys.stdout.write(f"{len(those):4}  {why or 'NO REASON'}\n      {', '.join(those)}\n")
