"""Prints which numbered scenarios and guarantees have a test that says so by its mark.

Reads the marks out of the source, so it needs nothing that the tests need.
"""

import ast
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from scripts.module_survey import nodes_of

ROOT: Final = Path(__file__).parent.parent
FOLDERS: Final = ("tests", "property_tests")

# The numbers of each series. They have gaps on purpose, one after every few, and never change.
SERIES: Final[Mapping[str, frozenset[int]]] = {
    "S": frozenset(number for number in range(1, 221) if number % 7),
    "AT": frozenset(number for number in range(1, 163) if number % 8),
    "H": frozenset(number for number in range(1, 119) if number % 6) | {60, 96},
    "J": frozenset(range(1, 34)) - {7, 19, 27, 31},
    "C": frozenset(number for number in range(1, 48) if number % 5),
    "P": frozenset(number for number in range(1, 72) if number % 5),
    "O": frozenset(number for number in range(1, 27) if number % 5),
    "M": frozenset(number for number in range(1, 33) if number % 5),
    "V": frozenset(range(1, 35)) - {2, 5, 9, 10, 15, 16, 18, 20, 21, 25, 30},
}
TITLES: Final = {
    "S": "OTP scenarios",
    "AT": "acceptance guarantees",
    "H": "host scenarios",
    "J": "cases of the journal",
    "C": "cases of the console",
    "P": "cases of the protocols",
    "O": "cases of operations",
    "M": "cases of many machines",
    "V": "cases of the simulation",
}
SERIES_OF_MARK: Final = {
    "scenario": "S",
    "at": "AT",
    "host": "H",
    "journal": "J",
    "c": "C",
    "protocol": "P",
    "operation": "O",
    "machine": "M",
    "simulation": "V",
}
_MAY_BE_MARKED: Final = re.compile(rf"\bmark[\s\\]*\.[\s\\]*(?:{'|'.join(SERIES_OF_MARK)})[\s\\]*\(")


def marked_numbers(source: str) -> Iterator[tuple[str, int]]:
    """Each (series, number) that a mark in some source names.

    Args:
        source: The text of a test module.

    Raises:
        ValueError: A mark names no number, or one that its series does not have.
    """
    for node in nodes_of(source) if _MAY_BE_MARKED.search(source) else ():
        match node:
            case ast.Call(func=ast.Attribute(value=ast.Attribute(attr="mark"), attr=mark)) if (
                mark in SERIES_OF_MARK
            ):
                for argument in node.args:
                    yield SERIES_OF_MARK[mark], _number(SERIES_OF_MARK[mark], argument)
            case _:
                pass


def _number(series: str, argument: ast.expr) -> int:
    written = argument.value if isinstance(argument, ast.Constant) else None
    digits = re.fullmatch(rf"(?:{series}-)?(\d+)", str(written))
    if digits is None or int(digits[1]) not in SERIES[series]:
        message = f"line {argument.lineno}: {ast.unparse(argument)} is no number of the series {series}"
        raise ValueError(message)
    return int(digits[1])


def covered_numbers(folders: tuple[Path, ...]) -> dict[str, set[int]]:
    """What the marks in all modules below some folders cover, by series.

    Args:
        folders: Where to look; one that does not exist has nothing in it.

    Raises:
        ValueError: A mark is wrong; the message names the file and the line.
    """
    covered: dict[str, set[int]] = {series: set() for series in SERIES}
    for path in (path for folder in folders for path in sorted(folder.rglob("*.py"))):
        try:
            for series, number in marked_numbers(path.read_text(encoding="utf-8")):
                covered[series].add(number)
        except ValueError as error:
            message = f"{path}: {error}"
            raise ValueError(message) from error
    return covered


def as_ranges(numbers: frozenset[int] | set[int]) -> str:
    """Numbers for people: `1-3, 7`; `none` when there are none."""
    ranges: list[list[int]] = []
    for number in sorted(numbers):
        if ranges and ranges[-1][1] == number - 1:
            ranges[-1][1] = number
        else:
            ranges.append([number, number])
    return ", ".join(f"{low}-{high}" if low < high else f"{low}" for low, high in ranges) or "none"


def report(covered: Mapping[str, set[int]]) -> Iterator[str]:
    """The coverage as lines of text."""
    for series, known in SERIES.items():
        yield f"{TITLES[series]}: {len(covered[series])} of {len(known)} have a test"
        yield f"  with a test: {as_ranges(covered[series])}"
        yield f"  without one: {as_ranges(known - covered[series])}"


if __name__ == "__main__":
    sys.stdout.writelines(
        f"{line}\n" for line in report(covered_numbers(tuple(ROOT / name for name in FOLDERS)))
    )
