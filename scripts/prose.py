"""Count the marks of unidiomatic English in docstrings, comments, messages and pages, and judge commit subjects.

    python -m scripts.prose                               # judge every path of prose.toml; `make lint-prose`
    python -m scripts.prose agentrail/config --worst 20   # a table, then the worst files, sentences, titles and names
    python -m scripts.prose agentrail docs --check        # judge these paths
    python -m scripts.prose --commits origin/main..HEAD   # judge commit subjects; `make lint-commits`
    python -m scripts.prose --message FILE                # judge one commit message, as a git hook

Counts find candidates, and reading aloud decides. A headless clause is a clause in place of a noun, such as `what runs` in place of
`running calls`. A calque is a literal translation. The limits are the highest figures of Trio, Starlette, httpcore, FastAPI and
Django, rounded up.
"""

import argparse
import ast
import gc
import inspect
import re
import subprocess
import sys
import tomllib
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Final, Literal, TypeAlias

from attrs import field, frozen, mutable

from scripts.module_survey import nodes_of

ROOT: Final = Path(__file__).parent.parent
JOINED: Final = Path(__file__).parent / "prose.toml"


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


def _compiled(table: Mapping[str, str]) -> Mapping[str, re.Pattern[str]]:
    """Compile marks in lower case, for sentences in lower case: to ignore case takes half as long again."""
    return MappingProxyType({name: re.compile(mark) for name, mark in table.items()})


HEADLESS: Final = _compiled(
    {
        "what": r"\bwhat(?:ever)?\b",
        "who": r"(?:^|[,;:(] |\b(?:of|for|by|to|with|from|and|or|that|than|says?|tells?|lets?) )who(?:ever|se|m)?\b",
        "all that, one that": r"\b(?:all|those|ones?|nothing|anything) that\b",
        "which": r"(?:^|\b(?:says?|tells?|knows?|and|or|decides?|by|hears) )which\b",
    }
)
CALQUES: Final = _compiled(
    {
        "as of `x`": r"\bas of `",
        "behind, in front of": r"\b(?:behind|in front)\b(?! (?:the scenes|of (?:a|the|your) |an? |nginx))",
        "beside(s), anew, for ever": r"\b(?:besides?|anew|for ever|manieth)\b",
        "is no, is none": r"(?<!there )\b(?:is|are|was|were) (?:no|none)\b"
        r"(?! (?:longer|more|way|need|reason|such|better))",
        "goes on": r"\b(?:go|goes|going|went|gone) on\b(?! to\b)",
        "stands in": r"\b(?:stands?|stood|standing)\b(?! (?:for|alone|out|by))",
        "told, hears": r"\b(?:told|hears?|heard)\b",
        "says so, said": r"\b(?:says? (?:so|whether|what|how|which|where)|said)\b",
        "may not": r"\bmay no(?:t|ne)?\b"
        r"(?! (?:be|have|exist|work|yet|always|even|want|need|actually|support|longer))",
        "comes to, came of": r"\b(?:comes? to|came to|came of|comes? of|becomes? of|became of)\b(?! mind)",
        "at work, is gone, as far as": r"\b(?:at work|(?:is|are|was) gone|as far as|nothing of|by itself|all the same)\b",
        "or else": r"(?:\bor|\band|[;,]) else\b",
        "is to do": r"\b(?:is|are) to (?:be|come|end|go|stop|wake|run|leave|wait|hold|keep|ask|answer|take|begin)\b",
        "somebody, a person": r"\b(?:somebody|nobody|no one|someone|anybody|whoever|a person|persons|people)\b",
    }
)
OPENERS: Final = _words(
    "Say Give Let Make Take Begin Tell Hear Know Note What How Where Which Who Whose That As Of For By"
)
NEVER: Final = re.compile(r"\b(?:somebody|whoever|manieth|nothing is there that)\b|\bas of `", re.IGNORECASE)
"""Words that no joined path may hold, at whatever rate."""

PREPOSITIONS: Final = _words("of under above below beneath beside behind inside put left one own other not")
FIELD_NOUNS: Final = _words(
    "routing streaming testing logging typing string ring listing embedding encoding pricing feed shared"
)
"""Words in -ing and -ed that name a thing in this field."""

LIMITS: Final[Mapping[str, float]] = MappingProxyType(
    {"headless": 3, "calques": 2, "semicolons": 3, "p95": 38, "openers %": 3, "titles %": 4, "names %": 4}
)
MIN_WORDS: Final = 2_000
"""Words of a kind below which its figures are chance. A joined path with fewer counts only in the sum of all joined paths."""

MAX_SUBJECT: Final = 72
MAX_TITLE_WORDS: Final = 9
MAX_RECORD_WORDS: Final = 13
"""The title of a decision is a sentence."""

Kind: TypeAlias = Literal["docstring", "comment", "message", "page", "title"]
KINDS: Final[tuple[Kind, ...]] = ("docstring", "comment", "message", "page")
COUNTED: Final = ("headless", *HEADLESS, "calques", *CALQUES, "semicolons")


@frozen
class Text:
    """A docstring, a comment, a message, a block of a page or a title, with its first line."""

    kind: Kind
    line: int
    text: str


@frozen
class Rate:
    """A figure of one kind of text."""

    name: str
    kind: Kind
    value: float


@mutable
class Tally:
    """The counts of a set of files."""

    words: Counter[Kind] = field(factory=Counter)
    lengths: dict[Kind, list[int]] = field(factory=lambda: defaultdict(list))
    hits: dict[Kind, Counter[str]] = field(factory=lambda: defaultdict(Counter))
    openers: Counter[str] = field(factory=Counter)
    titles: int = 0
    bad_titles: list[str] = field(factory=list)
    modules: int = 0
    bad_names: list[str] = field(factory=list)
    by_file: Counter[str] = field(factory=Counter)
    sentences: list[tuple[int, str]] = field(factory=list)
    never: list[str] = field(factory=list)

    def add_file(self, file: Path) -> None:
        """Count one file."""
        name = file.relative_to(ROOT).as_posix() if file.is_relative_to(ROOT) else str(file)
        is_python = file.suffix == ".py"
        if is_python and not file.stem.startswith("__"):
            self.modules += 1
            if is_bad_name(file.stem):
                self.bad_names.append(name)
        for text in python_texts(file.read_text("utf-8")) if is_python else page_texts(file):
            if text.kind == "title":
                self.titles += 1
                if is_bad_title(text.text):
                    self.bad_titles.append(f"{name}:{text.line}: # {text.text}")
                continue
            if text.kind == "docstring":
                self.openers[re.sub(r"\W+$", "", (text.text.split() or [""])[0])] += 1
            for sentence in split_sentences(text.text):
                self._add_sentence(name, text, sentence)

    def _add_sentence(self, name: str, text: Text, sentence: str) -> None:
        headless, calques = found_in(sentence, HEADLESS), found_in(sentence, CALQUES)
        semicolons = sentence.count(";")
        marks = len(headless) + len(calques)
        length = len(sentence.split())
        self.words[text.kind] += length
        self.lengths[text.kind].append(length)
        if marks or semicolons:
            counts = {"headless": len(headless), "calques": len(calques), "semicolons": semicolons}
            self.hits[text.kind].update(Counter(headless + calques) + Counter(counts))
        self.by_file[name] += marks
        self.sentences.append((marks + semicolons, f"{name}:{text.line}: {sentence}"))
        if NEVER.search(sentence):
            self.never.append(f"{name}:{text.line}: {sentence}")

    def add(self, other: "Tally") -> None:
        """Add the counts of other files."""
        self.words.update(other.words)
        for kind in KINDS:
            self.lengths[kind] += other.lengths[kind]
            self.hits[kind].update(other.hits[kind])
        self.openers.update(other.openers)
        self.titles += other.titles
        self.modules += other.modules
        self.bad_titles += other.bad_titles
        self.bad_names += other.bad_names
        self.never += other.never

    def kinds(self) -> tuple[Kind, ...]:
        """Return the kinds of text that were found."""
        return tuple(kind for kind in KINDS if self.words[kind])

    def rates(self) -> list[Rate]:
        """Return every figure: marks per 1,000 words, lengths of sentences, and shares in percent."""
        rates = [
            Rate(name, kind, 1000 * self.hits[kind][name] / self.words[kind])
            for name in COUNTED
            for kind in self.kinds()
        ]
        rates += [
            Rate(name, kind, sorted(self.lengths[kind])[int(len(self.lengths[kind]) * share)])
            for name, share in (("median", 0.5), ("p95", 0.95))
            for kind in self.kinds()
        ]
        if self.openers:
            on_the_list = sum(self.openers[one] for one in OPENERS)
            rates.append(Rate("openers %", "docstring", 100 * on_the_list / self.openers.total()))
        if self.titles:
            rates.append(Rate("titles %", "page", 100 * len(self.bad_titles) / self.titles))
        if self.modules:
            rates.append(Rate("names %", "docstring", 100 * len(self.bad_names) / self.modules))
        return rates

    def over_limits(self) -> list[str]:
        """Return the figures above their limits. Semicolons in messages are not judged, for they separate the fault from its remedy."""
        return [
            f"{rate.name} of {rate.kind}: {rate.value:.1f}, limit {LIMITS[rate.name]}"
            for rate in self.rates()
            if self.words[rate.kind] >= MIN_WORDS
            and (rate.name, rate.kind) != ("semicolons", "message")
            and rate.value > LIMITS.get(rate.name, float("inf"))
        ]


# --- texts


_DIRECTIVE: Final = re.compile(r"#!|# ?(?:noqa|type:|fmt:|pragma|pyright)")
_STRING_OR_COMMENT: Final = re.compile(
    r"""#[^\n]*|('''|\"\"\")(?:[^\\]|\\.)*?\1|"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'""", re.DOTALL
)
"""Both, because a `#` in a string begins no comment. `tokenize` finds the same comments in twelve times the time."""


def python_texts(source: str) -> Iterator[Text]:
    """Yield the docstrings (of attributes too), comments, and raised, logged or help messages of a module."""
    in_messages: set[ast.AST] = set()
    for node in nodes_of(source):
        if (
            isinstance(node, ast.Expr)
            and isinstance(node.value, ast.Constant)
            and isinstance(node.value.value, str)
        ):
            yield Text("docstring", node.lineno, node.value.value)
        if _begins_message(node):
            in_messages.add(node)
        elif node in in_messages and isinstance(node, ast.JoinedStr):
            parts = [one.value if isinstance(one, ast.Constant) else "`x`" for one in node.values]
            yield Text("message", node.lineno, "".join(map(str, parts)))
            continue
        elif node in in_messages and isinstance(node, ast.Constant) and " " in str(node.value):
            yield Text("message", node.lineno, str(node.value))
        if node in in_messages:  # the nodes go breadth first, so children come later
            in_messages.update(ast.iter_child_nodes(node))
    line, seen = 1, 0
    for found in _STRING_OR_COMMENT.finditer(source):
        if found[0].startswith("#") and not _DIRECTIVE.match(found[0]):
            line, seen = line + source.count("\n", seen, found.start()), found.start()
            yield Text("comment", line, re.sub(r"# noqa.*? - ", "", found[0]).lstrip("#: "))


def _begins_message(node: ast.AST) -> bool:
    match node:
        case ast.Call(func=ast.Attribute(attr="info" | "warning" | "error")):
            return True
        case ast.Assign(targets=[ast.Name(id="message")]):  # `message = …`, and then `raise Error(message)`
            return True
        case ast.Raise() | ast.keyword(arg="help"):
            return True
        case _:
            return False


def page_texts(file: Path) -> Iterator[Text]:
    """Yield the titles, paragraphs, list items and table rows of a Markdown page, without code."""
    lines = [*file.read_text("utf-8").splitlines(), ""]
    block: list[str] = []
    start, fenced = 1, False
    for number, line in enumerate(lines, 1):
        bare = line.strip()
        fenced ^= bare.startswith(("```", "~~~"))
        is_item = bool(re.match(r"([-*+]|\d+\.|\|) ", bare))
        is_title = line[:1] == "#" and not fenced
        is_text = bool(bare) and not (fenced or is_title or re.match(r"```|~~~|<|:::|[=\-~^+|:* ]+$", bare))
        if block and (not is_text or is_item):
            yield Text("page", start, "\n".join(block))
            block = []
        if is_title:
            yield Text("title", number, bare.lstrip("# "))
        if is_text:
            start = start if block else number
            block.append(re.sub(r"^([-*+]|\d+\.) ", "", bare).replace(" | ", ". "))


def split_sentences(text: str) -> Iterator[str]:
    """Yield the sentences of a block. Inline code becomes `x`. Each item of a section such as `Args:` is a sentence."""
    text = re.sub(r"\n\n(?: {4}.*\n?)+", "\n\n", inspect.cleandoc(text))  # indented code
    text = re.sub(r"(?m)^\s*(>>>|\.\.\.).*$|^\s*[A-Z]\w+:\s*$", "", text)
    text = re.sub(r"(?m)^\s*(?:[-*+|]|\d+\.|\*{0,2}\w+(?: \([^)]*\))?:) ", "\n\n", text)
    text = re.sub(r"``.+?``|`[^`]*`", "`x`", text, flags=re.DOTALL)
    text = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", text)
    for paragraph in re.split(r"\n\s*\n", text):
        for sentence in re.split(r"(?<=[.!?])[\s)\"']+(?=[A-Z`*\d])", " ".join(paragraph.split())):
            if len(sentence.split()) > 2:  # noqa: PLR2004 - a word or two is a label
                yield sentence


def found_in(sentence: str, table: Mapping[str, re.Pattern[str]]) -> list[str]:
    """Return the name of every match of a table. A question may be headless."""
    if table is HEADLESS and sentence.endswith("?"):
        return []
    sentence = sentence.lower()
    return [name for name, pattern in table.items() for _ in pattern.finditer(sentence)]


# --- titles, names, commits


def is_bad_title(title: str) -> bool:
    """Whether a title is a clause, a fragment or a sentence. The title of a decision (`0001 · …`) is a sentence."""
    record = re.match(r"\d{4} · ", title)
    title = title[record.end() :] if record else title
    clause = r".*;|,|[a-z]+ |(?:What|Who|Whose|That|Where|Which|Whether) "
    most = MAX_RECORD_WORDS if record else MAX_TITLE_WORDS
    return bool(re.match(clause, title) or len(title.split()) > most or found_in(title, CALQUES))


def is_bad_name(stem: str) -> bool:
    """Whether a module is named by a gerund, a participle or a preposition."""
    words = stem.strip("_").split("_")
    is_verbal = re.search(r"(?:ing|ed)$", words[-1]) and words[-1] not in FIELD_NOUNS
    return bool(is_verbal or {words[0], words[-1]} & PREPOSITIONS or {"of", "and", "the"} & {*words})


_ARTICLES: Final = r"(?:an?|the|what|who\w*|how|where|no|one|each|its?|that|of|for|as|nothing|every|all|some|any|these|those)\b"
_IN_ED_ING_S: Final = _words(
    "embed exceed feed need proceed seed shed speed succeed bring ring spring string focus canvas bias"
)
"""Imperatives that end like another form of a verb."""


def fault_of_subject(subject: str) -> str | None:
    """Return the fault of a commit subject, with its remedy, or None."""
    if re.match(r"(?:Merge|Revert|fixup!|squash!) ?", subject):
        return None
    if len(subject) > MAX_SUBJECT:
        return f"has {len(subject)} characters, at most {MAX_SUBJECT}; move the reason into the body"
    head = re.match(r"[a-z]+(?:\([^)]+\))?!?: (?=\S)", subject)
    if head is None:
        return "is not a Conventional Commit such as `fix(core): reject a second approval`"
    words = subject[head.end() :]
    if ";" in words:
        return "has two clauses; make two commits"
    first = words.split()[0].lower()
    is_verbal = re.fullmatch(r"[a-z]+(?:ing|ed|[^s']s)", first) and first not in _IN_ED_ING_S
    if re.match(_ARTICLES, words, re.IGNORECASE) or is_verbal:
        return f"begins with {first!r}; begin with an imperative such as `add`, `fix`, `reject`"
    if calques := found_in(words, CALQUES):
        return f"has a calque ({calques[0]})"
    return None


def subjects_of(commits: str) -> list[str]:
    """Return the subjects of a range such as `origin/main..HEAD`. Without git, or for an unknown range, the list is empty."""
    done = subprocess.run(  # noqa: S603 - a range from our own Makefile
        ["git", "log", "--no-merges", "--format=%s", commits, "--"],  # noqa: S607 - git is on the path
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout.splitlines()


def judge_subjects(subjects: Iterable[str]) -> list[str]:
    """Return a line for each subject with a fault."""
    return [f"subject {one!r} {fault}" for one in subjects if (fault := fault_of_subject(one)) is not None]


# --- files and output


_SKIPPED: Final = frozenset({"tests", "__pycache__"})
_DATA: Final = re.compile(r"docs/examples/[^/]+/[^/]+/[^/]+\.md$")
"""Texts that an example reads: papers, a handbook."""


def files_below(paths: Iterable[Path]) -> list[Path]:
    """Return the modules and pages at or below paths, without tests and data.

    Raises:
        FileNotFoundError: A path does not exist.
    """
    found: set[Path] = set()
    for path in paths:
        if not path.exists():
            message = f"{path} does not exist; name its new place, in {JOINED.name} too"
            raise FileNotFoundError(message)
        found.update(one for one in (path, *path.rglob("*")) if one.suffix in {".py", ".md"})
    return sorted(
        one for one in found if not _SKIPPED.intersection(one.parts) and not _DATA.search(one.as_posix())
    )


def tally_of(paths: Iterable[Path]) -> Tally:
    """Count the texts at or below paths."""
    tally = Tally()
    for file in files_below(paths):
        tally.add_file(file)
    return tally


def joined_paths() -> list[Path]:
    """Return the paths of `prose.toml`."""
    return [ROOT / one for one in tomllib.loads(JOINED.read_text("utf-8"))["joined"]]


def judge(paths: Sequence[Path]) -> list[str]:
    """Return the faults of each path, and of all of them together."""
    faults: list[str] = []
    together = Tally()
    counted: dict[Path, Tally] = {}  # rooms are also part of the package
    for path in paths:
        one = Tally()
        for file in files_below([path]):
            if file not in counted:
                counted[file] = Tally()
                counted[file].add_file(file)
            one.add(counted[file])
        together.add(one)
        name = path.relative_to(ROOT) if path.is_relative_to(ROOT) else path
        faults += [f"{name}: {fault}" for fault in one.over_limits()]
        faults += [
            f"{place} (never: {NEVER.pattern})" for place in one.never if path.name != Path(__file__).name
        ]
    return faults + [f"all together: {fault}" for fault in together.over_limits()]


def print_table(tally: Tally) -> None:
    """Print the figures, one column per kind of text."""
    kinds = tally.kinds()
    rows: dict[str, dict[Kind, float]] = defaultdict(dict)
    for rate in tally.rates():
        rows[rate.name][rate.kind] = rate.value
    print(f"{'per 1,000 words':40}" + "".join(f"{kind:>11}" for kind in kinds))
    print(f"{'words':40}" + "".join(f"{tally.words[kind]:>11,}" for kind in kinds))
    for name, row in rows.items():
        indent = "  " if name in HEADLESS or name in CALQUES else ""
        cells = "".join(f"{row[kind]:11.1f}" if kind in row else " " * 11 for kind in kinds)
        print(f"{indent + name:40}{cells}".rstrip())


def print_worst(tally: Tally, count: int) -> None:
    """Print the worst files, sentences, titles and names."""
    worst = sorted((one for one in tally.sentences if one[0]), reverse=True)[:count]
    lines = [f"{hits:5} {file}" for file, hits in tally.by_file.most_common(count) if hits]
    lines += [line for _, line in worst]
    print(*lines, *tally.bad_titles[:count], *tally.bad_names[:count], sep="\n")


def main(arguments: Sequence[str] | None = None) -> int:
    """Return 1 if a figure is over its limit or a subject has a fault."""
    parser = argparse.ArgumentParser(prog="scripts.prose", description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "paths", nargs="*", type=Path, help="files and folders (default: judge the list of prose.toml)"
    )
    parser.add_argument("--worst", type=int, default=0, metavar="N", help="print the N worst of everything")
    parser.add_argument("--check", action="store_true", help="exit with 1 if a figure is over its limit")
    parser.add_argument("--commits", metavar="RANGE", help="judge the subjects of a range of commits")
    parser.add_argument("--message", type=Path, metavar="FILE", help="judge the message of one commit")
    given = parser.parse_args(arguments)
    faults: list[str] = []
    if given.commits or given.message:
        if given.message:
            lines = given.message.read_text("utf-8").splitlines()
            faults = judge_subjects([one for one in lines if one.strip() and not one.startswith("#")][:1])
        if given.commits:
            faults += judge_subjects(subjects_of(given.commits))
    elif given.paths:
        paths = [one.resolve() for one in given.paths]
        tally = tally_of(paths)
        print_table(tally)
        print_worst(tally, given.worst)
        faults = tally.over_limits() if given.check else []
    else:
        faults = judge(joined_paths())
    if faults:
        print(*faults, sep="\n", file=sys.stderr)
    return int(bool(faults))


if __name__ == "__main__":
    gc.disable()  # the trees have no cycles
    sys.exit(main())
