"""Mutants of permissions: what is read, what a star covers, in which order lists decide, and what "always" means."""

from typing import Final

from tests.mutants.mutant import Mutant

_READS: Final = "what a policy allows does no harm under bash"
_ORDER: Final = "deny, then ask, then allow, then the mode"
_ALWAYS: Final = "always writes the narrowest rule"

_PLAIN: Final = "tests/plugins/test_shell_plain.py"
_POLICY: Final = "tests/plugins/test_permission_policy.py"
_ORACLE: Final = "tests/plugins/test_permissions_oracle.py::test_no_harmful_line_is_allowed"

_DENY: Final = "tests/plugins/test_permission_deny.py::test_a_deny_is_not_escaped_by_spelling"
_FILES: Final = "tests/blueprints/test_permission_files.py"

MUTANTS: Final[tuple[Mutant, ...]] = (
    Mutant(
        name="a line that is not read passes a deny",
        breaks=_ORDER,
        file="plugins/permission_verdict.py",
        old="        if deny.rules:\n            return None, True\n",
        new="        if False:\n            return None, True\n",
        killed_by=_DENY,
    ),
    Mutant(
        name="a rule that is kept ends the trust in skills",
        breaks=_ALWAYS,
        file="blueprints/permission_files.py",
        old="{**was, **digests_of(files)",
        new="{**digests_of(files)",
        killed_by=f"{_FILES}::test_always_leaves_all_else_trusted",
    ),
    Mutant(
        name="a rule is kept beside what came meanwhile",
        breaks=_ALWAYS,
        file="blueprints/permission_files.py",
        old='if not found and place.scope == "user" and os',
        new="found = []\n    if os",
        killed_by=f"{_FILES}::test_what_came_between_the_look_and_the_write_is_not_trusted",
    ),
    Mutant(
        name="a redirection may go on behind 2>&1",
        breaks=_READS,
        file="plugins/shell_plain.py",
        old=r'r"(?P<quiet>2>&1(?=[ \t\n;|&]|\Z)|',
        new=r'r"(?P<quiet>2>&1|',
        killed_by=f"{_PLAIN}::test_what_is_not_read_says_where_and_why",
    ),
    Mutant(
        name="any descriptor is a word",
        breaks=_READS,
        file="plugins/shell_plain.py",
        old="raws[-1].isdigit()",
        new='raws[-1] == "-"',
        killed_by=f"{_PLAIN}::test_what_is_not_read_says_where_and_why",
    ),
    Mutant(
        name="a double quote may hold an expansion",
        breaks=_READS,
        file="plugins/shell_plain.py",
        old=r"""\"[^\"$`\\!]*\")+""" + '"',
        new=r"""\"[^\"\\!]*\")+""" + '"',
        killed_by=_ORACLE,
    ),
    Mutant(
        name="the beginning of an option is another one",
        breaks=_READS,
        file="plugins/shell_stars.py",
        old="any(bad.startswith(name) for bad in row.long)",
        new="name in row.long",
        killed_by=_ORACLE,
    ),
    Mutant(
        name="a file may have the name of an option",
        breaks=_READS,
        file="plugins/shell_stars.py",
        old="word.startswith(_MAY_BECOME_AN_OPTION)",
        new='word.startswith("--")',
        killed_by=_ORACLE,
    ),
    Mutant(
        name="the rest of a bundle is forgotten",
        breaks=_READS,
        file="plugins/shell_stars.py",
        old='begun = word.find("-", 1)',
        new='begun = word.find("--", 1)',
        killed_by=_ORACLE,
    ),
    Mutant(
        name="a rule of a wrapper covers what it runs",
        breaks=_READS,
        file="plugins/permission_matching.py",
        old="is_named = len(rule.words) > command.behind and command.behind not in rule.stars",
        new="is_named = True",
        killed_by=_ORACLE,
    ),
    Mutant(
        name="git runs in any directory",
        breaks=_READS,
        file="plugins/permission_verdict.py",
        old='return "git" in programs and (',
        new='return "hg" in programs and (',
        killed_by=_ORACLE,
    ),
    Mutant(
        name="one command of a line is enough",
        breaks=_READS,
        file="plugins/permission_verdict.py",
        old="if commands and not uncovered else None",
        new="if by else None",
        killed_by=_ORACLE,
    ),
    Mutant(
        name="what runs what it is told passes a deny",
        breaks=_ORDER,
        file="plugins/permission_verdict.py",
        old="        if commands and self.told is None:\n",
        new="        if commands:\n",
        killed_by="tests/plugins/test_permission_policy.py::test_what_runs_what_it_is_told_counts_as_not_read_for_a_deny",
    ),
    Mutant(
        name="a plan is made while rules let effects run",
        breaks=_ORDER,
        file="plugins/permission_verdict.py",
        old='is_held = mode == "plan" and',
        new='is_held = found is None and mode == "plan" and',
        killed_by=f"{_POLICY}::test_plan_mode_lets_nothing_with_an_effect_run",
    ),
    Mutant(
        name="who may not read may write",
        breaks=_ORDER,
        file="plugins/permission_verdict.py",
        old='if found is None and (tool in WRITERS or tool == "grep"):',
        new='if found is None and tool == "grep":',
        killed_by=f"{_POLICY}::test_reading_that_is_denied_denies_writing_and_searching",
    ),
    Mutant(
        name="the policy of the parent is forgotten",
        breaks=_ORDER,
        file="plugins/permission_verdict.py",
        old="found = max(found, also, key=lambda one: DECISIONS.index(one.decision))",
        new="found = min(found, also, key=lambda one: DECISIONS.index(one.decision))",
        killed_by=f"{_POLICY}::test_the_meet_is_the_stricter_of_both",
    ),
    Mutant(
        name="the case of a path counts where it is denied",
        breaks=_ORDER,
        file="plugins/permission_paths.py",
        old="_fits(way, _parts(_folded(end)))",
        new="_fits(way, _parts(end))",
        killed_by="tests/plugins/test_permission_paths.py::test_globs",
    ),
    Mutant(
        name="a confined sandbox is forgotten",
        breaks=_ORDER,
        file="plugins/permission_paths.py",
        old="return (*self.ends, *self.confined)",
        new="return self.ends",
        killed_by="tests/plugins/test_permission_paths.py::test_globs",
    ),
    Mutant(
        name="a project grants itself rights",
        breaks=_ORDER,
        file="plugins/permission_policy.py",
        old='return scope != "project" or one.is_trusted',
        new="return True",
        killed_by=f"{_POLICY}::test_a_project_that_is_not_trusted_only_narrows",
    ),
    Mutant(
        name="always is offered for every call",
        breaks=_ALWAYS,
        file="plugins/permission_always.py",
        old="if offers_always(call, proposed):",
        new="if proposed is not None:",
        killed_by="tests/plugins/test_permissions.py::test_always_of_the_session_lets_no_other_call_through",
    ),
    Mutant(
        name="a plan that is refused is approved",
        breaks=_ORDER,
        file="plugins/permissions.py",
        old=" or event.result.is_error:",
        new=":",
        killed_by="tests/plugins/test_permissions.py::test_a_plan_that_is_approved_brings_the_old_mode_back",
    ),
)
