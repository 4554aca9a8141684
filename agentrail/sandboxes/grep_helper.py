"""Runs in a separate process: searches texts from its standard input for a regular expression.

In our own process a regular expression could not be interrupted, and some take years. This file imports nothing from
agentrail, so that it starts fast and alone. It reads one line of JSON, `{"pattern", "ignore_case", "max_per_text"}`, and
answers `{"fault": null}` or the fault of the pattern. Then it repeatedly reads a line with a list of sizes in bytes, and
that many texts. It answers `{"numbers"}` with the numbers of the matching lines of each.
"""

import json
import re
import sys


def main() -> None:
    asked, answers = sys.stdin.buffer, sys.stdout
    job = json.loads(asked.readline())
    try:
        pattern = re.compile(job["pattern"], re.IGNORECASE if job["ignore_case"] else 0)
    except (re.error, ValueError, OverflowError, RecursionError) as error:
        print(json.dumps({"fault": str(error)}), file=answers, flush=True)
        return
    print(json.dumps({"fault": None}), file=answers, flush=True)
    while line := asked.readline():
        texts = [asked.read(size).decode() for size in json.loads(line)]
        found = [find(pattern, text, job["max_per_text"]) for text in texts]
        print(json.dumps({"numbers": found}), file=answers, flush=True)


def find(pattern: "re.Pattern[str]", text: str, max_lines: int) -> list[int]:
    """Return the numbers of the first matching lines, from 1."""
    numbers: list[int] = []
    lines = text.removesuffix("\n").split("\n") if text else []
    for number, line in enumerate(lines, start=1):
        if pattern.search(line.removesuffix("\r")):
            numbers.append(number)
            if len(numbers) == max_lines:
                break
    return numbers


if __name__ == "__main__":
    main()
