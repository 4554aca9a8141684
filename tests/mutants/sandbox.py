"""Mutants of the sandbox: what it starts outside, what it protects, and when it confines."""

from typing import Final

from tests.mutants.mutant import Mutant

_CONFINED: Final = "nothing gets out of the sandbox"
_ATTACKS: Final = "tests/sandboxes/test_attacks.py::test_an_attack_comes_to_nothing"

MUTANTS: Final[tuple[Mutant, ...]] = (
    Mutant(
        name="a program below the root is started outside",
        breaks=_CONFINED,
        file="sandboxes/programs.py",
        old='root == Path("/") or is_out_of_reach(path, root)',
        new="root is not None",
        killed_by=f"{_ATTACKS}[planted_programs-unconfined]",
    ),
    Mutant(
        name="the code of this process may be written",
        breaks=_CONFINED,
        file="sandboxes/protected.py",
        old="            if folded[: len(own)] == own:\n",
        new="            if folded == own:\n",
        killed_by=f"{_ATTACKS}[code_of_this_process-unconfined]",
    ),
    Mutant(
        name="a file tool completes a repository",
        breaks=_CONFINED,
        file="sandboxes/repositories.py",
        old="is_complete(parts | {made})",
        new="is_complete(parts)",
        killed_by=f"{_ATTACKS}[repositories_that_are_made-unconfined]",
    ),
    Mutant(
        name="very many files hide a hook",
        breaks=_CONFINED,
        file="sandboxes/guarded.py",
        old="        self._look_into_repository((GIT,), seen)\n",
        new="",
        killed_by=f"{_ATTACKS}[repositories_that_are_moved-unconfined]",
    ),
    Mutant(
        name="what leads to the settings of a submodule can be moved away",
        breaks=_CONFINED,
        file="sandboxes/guarded.py",
        old="                for depth in range(within, len(names)):\n",
        new="                for depth in range(0):\n",
        killed_by=f"{_ATTACKS}[repositories_that_are_moved-confined]",
    ),
    Mutant(
        name="a fault that passes lifts the confinement",
        breaks=_CONFINED,
        file="sandboxes/confinement.py",
        old="is_for_good = code > 0 and _SAYS_FORBIDDEN.search(said) is not None",
        new="is_for_good = True",
        killed_by="tests/sandboxes/test_confinement.py"
        "::test_a_fault_that_may_pass_lifts_no_confinement[exit 3-it ends with 3]",
    ),
    Mutant(
        name="local sockets of the host are reached with its network",
        breaks=_CONFINED,
        file="sandboxes/view.py",
        old='local_sockets=network == "none"',
        new="local_sockets=True",
        killed_by=f"{_ATTACKS}[sockets_of_others-confined]",
    ),
)
