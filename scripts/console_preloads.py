"""Which modules the first page of the console needs, written into its `index.html`, so that a browser asks for all of them at once.

    python -m scripts.console_preloads          # writes them anew
    python -m scripts.console_preloads --check  # says whether they are those

Without this a module is asked for when the one that imports it has come, eight times in a row until the list of sessions is drawn.
"""

import re
import sys
from pathlib import Path
from typing import Final

CONSOLE: Final = Path(__file__).parent.parent / "agentrail" / "gateway" / "console"
PAGE: Final = CONSOLE / "index.html"
FIRST: Final = ("main.js", "pages/sessions.js")
"""What is run first, and the page that is shown first."""

BEGIN: Final = "<!-- python -m scripts.console_preloads -->\n"
END: Final = "<!-- all of them -->\n"

_IMPORT: Final = re.compile(r"""^\s*(?:import|export)\b(?!\s*\()[^;"']*["'](\.[^"']+)["']""", re.MULTILINE)


def needed(console: Path = CONSOLE) -> list[str]:
    """Find what is needed, by the imports that stand at the top of modules; what is imported later is not among it."""
    found: dict[str, None] = {}
    waiting = [name for name in FIRST if (console / name).is_file()]
    while waiting:
        name = waiting.pop()
        if name in found:
            continue
        found[name] = None
        path = console / name
        targets = _vendored(path) if "vendor" in path.parts else _IMPORT.findall(path.read_text())
        waiting += [
            (path.parent / one).resolve().relative_to(console.resolve()).as_posix() for one in targets
        ]
    return sorted(found)


def _vendored(path: Path) -> list[str]:
    return re.findall(r"""from\s*"(\./[\w.-]+)\"""", path.read_text())


def page_with(names: list[str]) -> str:
    """Give the page with these modules."""
    lines = "".join(f'<link rel="modulepreload" href="{name}">\n' for name in names)
    text = PAGE.read_text()
    before, found, rest = text.partition(BEGIN)
    if not found:
        before, rest = text.split("</head>", 1)
        return f"{before}{BEGIN}{lines}{END}</head>{rest}"
    return f"{before}{BEGIN}{lines}{END}{rest.partition(END)[2]}"


def main(given: list[str]) -> int:
    """Write them, or say whether they are there; 0 if all is well."""
    wanted = page_with(needed())
    if "--check" not in given:
        PAGE.write_text(wanted)
        return 0
    if PAGE.read_text() == wanted:
        return 0
    print(
        "index.html does not name the modules that its first page needs: python -m scripts.console_preloads",
        file=sys.stderr,
    )
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
