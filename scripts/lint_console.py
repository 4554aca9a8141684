"""Judges the console: rules of its own, then format and habits (Biome), types (TypeScript), and the tests of its pure modules (node).

    python -m scripts.lint_console

The rules need nothing but Python, and always run. Of the tools those that are missing are named, and passed over; where CI is set, or
AGENTRAIL_REQUIRE_SERVICES, that is a failure. `scripts/install_console_tools.sh` installs them.
"""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from scripts import console_preloads

ROOT: Final = Path(__file__).parent.parent
CONSOLE: Final = ROOT / "agentrail" / "gateway" / "console"
TESTS: Final = ROOT / "tests" / "console" / "js"
TOOLS: Final = ROOT / ".peers" / "console" / "node_modules" / ".bin"
SETTINGS: Final = ROOT / "scripts" / "console"

FORBIDDEN: Final = (
    (r"\b(inner|outer)HTML\b", "text becomes nodes, never markup: use html`…` or textContent"),
    (r"\binsertAdjacentHTML\b", "text becomes nodes, never markup"),
    (r"\bdangerouslySetInnerHTML\b", "text becomes nodes, never markup"),
    (
        r"\bcreateContextualFragment\b|\bDOMParser\b|\bsetHTMLUnsafe\b|\bparseHTMLUnsafe\b",
        "no markup is parsed",
    ),
    (r"\bsrcdoc\b|\bdocument\.write", "no markup is written"),
    (
        r"""\bsetAttribute\(\s*["'`](style|on\w+)""",
        "styles are set by `element.style`, handlers as functions",
    ),
    (
        r"""\sstyle=("|'|\$\{`)""",
        "a style is an object, so that it is set by `element.style`: style=${{ … }}",
    ),
    (r"""\son[A-Za-z]+=["']""", "a handler is a function: onClick=${…}"),
    (r"(?<![\w.])eval\(|\bnew Function\b|(?<![\w.])Function\(", "no text becomes a program"),
    (r"""\bset(Timeout|Interval)\(\s*["'`]""", "no text becomes a program"),
    (r"\bnew (Shared)?Worker\b", "the policy lets no worker begin"),
    (r"""["'`]https?://(?!www\.w3\.org/)""", "nothing is asked of another origin"),
    (
        r"\blocalStorage\b|\bsessionStorage\b",
        "storage is asked for by wire/kept.js alone, which lives without it",
    ),
)
"""What no script of the console may have, and what to do."""

_COLOUR: Final = re.compile(r"#[0-9a-fA-F]{3,8}\b|\b(?:rgb|hsl|oklch|lab)a?\(")
_COMMENT: Final = re.compile(r"/\*.*?\*/|(?<![:\"'`\w])//[^\n]*", re.DOTALL)
_IMPORT: Final = re.compile(r"""(?:from|import)\s*\(?\s*["']([^"']+)["']""")
_MAY_STORE: Final = "wire/kept.js"


def scripts() -> list[Path]:
    """All scripts of ours; what was vendored is judged by its digests."""
    return sorted(path for path in CONSOLE.rglob("*.js") if "vendor" not in path.relative_to(CONSOLE).parts)


def faults_of(name: str, content: str) -> Iterator[str]:
    """Say what is wrong with one script.

    Args:
        name: Below the console, such as `pure/fold.js`.
        content: All of it.
    """
    code = _COMMENT.sub(lambda found: "\n" * found[0].count("\n"), content)
    for pattern, instead in FORBIDDEN:
        if name == _MAY_STORE and "Storage" in pattern:
            continue
        for found in re.finditer(pattern, code):
            line = code.count("\n", 0, found.start()) + 1
            yield f"{name}:{line}: {found[0].strip()!r}: {instead}"
    if not content.lstrip().startswith(("//", "/*")):
        yield f"{name}:1: its first comment says what it is, and what may not enter"
    for target in _IMPORT.findall(code):
        if not target.startswith("."):
            yield f"{name}: imports {target!r}: browsers know no bare imports here"
        elif name.startswith("pure/") and not re.fullmatch(
            r"\./[\w-]+\.js|\.\./vendor/markdown-it\.js", target
        ):
            yield f"{name}: imports {target!r}: what is pure imports what is pure"


def faults_of_style(name: str, content: str) -> Iterator[str]:
    """Say what is wrong with one style sheet: colours have their names in tokens.css."""
    code = _COMMENT.sub(lambda found: "\n" * found[0].count("\n"), content)
    for found in _COLOUR.finditer(code):
        line = code.count("\n", 0, found.start()) + 1
        yield f"{name}:{line}: {found[0]!r}: a colour is a token of css/tokens.css"


def all_faults() -> list[str]:
    """Say what is wrong with all of them."""
    faults = [
        fault
        for path in scripts()
        for fault in faults_of(path.relative_to(CONSOLE).as_posix(), path.read_text())
    ]
    for path in sorted((CONSOLE / "css").glob("*.css")):
        if path.name != "tokens.css":
            faults += faults_of_style(f"css/{path.name}", path.read_text())
    return faults


def node_tests() -> list[str]:
    """The files of the tests that node runs."""
    return [f"{path}" for path in sorted(TESTS.glob("*.test.js"))]


def commands() -> list[tuple[str, list[str]]]:
    """Say what runs, each with the program that it needs."""
    biome, tsc = f"{TOOLS / 'biome'}", f"{TOOLS / 'tsc'}"
    check = [biome, "check", f"--config-path={SETTINGS}", "--error-on-warnings", "--diagnostic-level=warn"]
    found = [(biome, [*check, f"{CONSOLE}", f"{TESTS}"]), (tsc, [tsc, "-p", f"{SETTINGS / 'tsconfig.json'}"])]
    if node_tests():
        found.append(("node", ["node", "--test", "--test-reporter=dot", *node_tests()]))
    return found


def main() -> int:
    """Run all of it; 0 if all is well."""
    faults = all_faults()
    print("\n".join(faults) or "the rules of the console hold")
    status = 1 if faults or console_preloads.main(["--check"]) else 0
    is_required = os.environ.get("CI") == "true" or bool(os.environ.get("AGENTRAIL_REQUIRE_SERVICES"))
    for program, command in commands():
        if shutil.which(program) is None:
            print(f"{Path(program).name} is not there, so it was not asked: scripts/install_console_tools.sh")
            status = 1 if is_required else status
        elif subprocess.run(command, cwd=ROOT, check=False).returncode:  # noqa: S603 - ours, all of it
            status = 1
    return status


if __name__ == "__main__":
    sys.exit(main())
