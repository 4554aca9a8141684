"""Datasets: cases from Python, JSONL or TOML. Pure."""

import hashlib
import json
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec
from attrs import field, frozen

from agentrail.errors import OptionError
from agentrail.messages import JsonValue
from agentrail.otp.field_rules import all_items, faults_of_fields, misfits
from agentrail.structs import Value, converter_of

MAX_CASE_ID: Final = 64


class Case(Value, frozen=True):
    """One case of a dataset.

    Attributes:
        input: The prompt, or several that are given one after the other.
        expected: What scorers compare with.
        metadata: Data for tasks and scorers. `calls` are expected calls, `cassette` is a file with the model's answers, `approve` has patterns
            of tools whose calls are approved, `answer` and `label` are a text and a person's score of it, for `evals calibrate`.
        id: Unique in its dataset. Empty: derived from the input.
    """

    input: str | tuple[str, ...]
    expected: JsonValue = None
    metadata: dict[str, Any] = {}  # noqa: RUF012 - msgspec copies it
    id: str = ""

    def __post_init__(self) -> None:
        rules = {"input": str | Sequence[str], "metadata": Mapping[str, Any], "id": str}
        OptionError.raise_for(
            [one for name in rules for one in misfits(name, getattr(self, name), rules[name])]
        )
        if not self.id:
            digest = hashlib.sha256(json.dumps(self.prompts).encode()).hexdigest()
            msgspec.structs.force_setattr(self, "id", f"c-{digest[:8]}")

    @property
    def prompts(self) -> tuple[str, ...]:
        """The prompts in order."""
        return (self.input,) if isinstance(self.input, str) else tuple(self.input)


def _all_cases(cases: Iterable[Case]) -> tuple[Case, ...]:
    return all_items(cases)


@frozen
class Dataset:
    """Cases under a name, which is part of the ids of their sessions.

    Raises:
        OptionError: Your move: no cases, or faulty ones. All faults at once.
    """

    name: str
    cases: Sequence[Case] = field(converter=_all_cases)

    def __attrs_post_init__(self) -> None:
        """Refuse faulty cases."""
        OptionError.raise_for([*faults_of_fields(self, Dataset)])
        faults = [f"{self.name}: case {place + 1}: {fault}" for place, fault in _faults_of(self.cases)]
        if faults or not self.cases:
            raise OptionError(faults or [f"{self.name}: there are no cases: give at least one"])


_TO_CASE: Final = converter_of(Case)


def read_cases(text: str, place: str) -> tuple[Case, ...]:
    """Read cases: one JSON object per line, or `[[cases]]` if the place ends in `.toml`.

    Raises:
        OptionError: Your move: lines that cannot be read, each with its number and the reason.
    """
    faults: list[str] = []
    found: list[tuple[str, Case]] = []
    for where, value in _entries(text, place):
        try:
            found.append((where, _TO_CASE(json.loads(value) if isinstance(value, str) else value)))
        except (ValueError, RecursionError) as error:  # msgspec's errors and those of JSON are ValueErrors
            faults.append(f"{where}: {error}")
    cases = tuple(case for _, case in found)
    faults += [f"{found[position][0]}: {fault}" for position, fault in _faults_of(cases)]
    OptionError.raise_for(faults)
    return cases


def _entries(text: str, place: str) -> list[tuple[str, Any]]:
    if not place.endswith(".toml"):
        return [
            (f"{place}:{number}", line) for number, line in enumerate(text.split("\n"), 1) if line.strip()
        ]
    try:
        cases = tomllib.loads(text).get("cases")
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise OptionError([f"{place}: {error}"]) from error
    if not isinstance(cases, list):
        raise OptionError([f"{place}: cases is {cases!r:.80}: expected [[cases]]"])
    return [(f"{place}: case {number}", value) for number, value in enumerate(cases, 1)]


def _faults_of(cases: Sequence[Case]) -> Iterator[tuple[int, str]]:
    known: set[str] = set()
    for position, case in enumerate(cases):
        if not case.prompts or not all(case.prompts):
            yield position, "input is empty: give a prompt"
        if len(case.id) > MAX_CASE_ID or case.id != case.id.encode(errors="ignore").decode():
            yield (
                position,
                f"id is {case.id!r:.80}: expected at most {MAX_CASE_ID} characters, without lone surrogates",
            )
        if case.id in known:
            yield position, f"the id {case.id!r:.80} is used twice: give each case its own"
        known.add(case.id)
        for key in "approve", "calls":
            given = case.metadata.get(key, ())
            if not isinstance(given, list | tuple | set):  # the letters of a text would be patterns too
                yield position, f"{key} of its metadata is {given!r:.80}: expected a list"
        label = case.metadata.get("label", 0)
        if not isinstance(label, int | float) or not 0 <= label <= 1:
            yield position, f"label of its metadata is {label!r:.80}: expected a number from 0 to 1"
