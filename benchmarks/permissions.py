"""The workload of permissions: the verdict of a policy with five hundred rules on commands of one to three parts."""

from functools import partial
from time import process_time
from typing import Final

from agentrail.plugins.permission_policy import PermissionPolicy, rules
from agentrail.plugins.permission_verdict import PermissionCall, judge
from agentrail.plugins.shell_plain import read_plain
from benchmarks.bars import target_of
from benchmarks.measure import Effort, Row, Sample, repeat
from benchmarks.ours import expect

_PROGRAMS: Final = 100
_LINES: Final = 6_000


def verdicts(effort: Effort) -> list[Row]:
    """Lines that are all different, so that none is remembered; each is allowed by rules for each of its parts."""
    rounds = repeat(partial(_our_verdicts, effort.of(_LINES)), effort.rounds)
    return [
        rounds.row(
            "verdicts",
            "seconds",
            "the verdict of 500 rules on a command of one to three parts",
            unit="µs",
            factor=1e6,
            target=target_of("verdict of 500 rules"),
        )
    ]


def _policy() -> PermissionPolicy:
    names = [f"tool{number}" for number in range(_PROGRAMS)]
    return PermissionPolicy(
        deny=rules(*(f"shell({name} push --force *)" for name in names)),
        ask=rules(*(f"shell({name} push *)" for name in names)),
        allow=rules(*(f"shell({name} {command} *)" for name in names for command in ("log", "show", "diff"))),
    )


def _line(number: int) -> str:
    parts = [
        f"tool{(number + 37 * part) % _PROGRAMS} {('log', 'show', 'diff')[(number + part) % 3]} --flag file{number} 'a b'"
        for part in range(1 + number % 3)
    ]
    return (" | ", " && ", "; ")[number // 3 % 3].join(parts)


def _our_verdicts(count: int) -> Sample:
    policy = _policy()
    expect("the rules", len(policy.deny) + len(policy.ask) + len(policy.allow), 5 * _PROGRAMS)
    calls = [PermissionCall(tool="shell", arguments={"command": _line(number)}) for number in range(count)]
    expect("the first verdict", judge(policy, calls[0]).decision, "allow")
    read_plain.cache_clear()
    began_at = process_time()
    decisions = [judge(policy, call).decision for call in calls]
    seconds = (process_time() - began_at) / count
    expect("the verdicts", set(decisions), {"allow"})
    return {"seconds": seconds}
