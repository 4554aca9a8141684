"""Small deliberate bugs, each with the guarantee that it breaks and the test that has to notice.

`make mutants` puts them into a copy of the package, one at a time. A mutant is a text that stands exactly once in a file,
and what stands there instead; when the code around it changes, `tests/repo/test_mutants.py` says which one is stale.
Its test is the fastest that sees the bug, not the only one. They stand in a file for each part of the package.
"""

from typing import Final

from tests.mutants import (
    actors,
    agents,
    builds,
    children,
    contexts,
    crashes,
    exhaustion,
    front_door,
    frozen,
    gates,
    guards,
    journal,
    journal_proofs,
    journal_runtime,
    kernel,
    origins,
    people,
    pools,
    providers,
    rest,
    rows,
    sandbox,
    session,
    shell,
    states,
    supervised_sessions,
    supervisors,
    tuning,
    values,
)
from tests.mutants.mutant import Mutant

MUTANTS: Final[tuple[Mutant, ...]] = (
    *actors.MUTANTS,
    *agents.MUTANTS,
    *builds.MUTANTS,
    *children.MUTANTS,
    *contexts.MUTANTS,
    *crashes.MUTANTS,
    *exhaustion.MUTANTS,
    *front_door.MUTANTS,
    *frozen.MUTANTS,
    *gates.MUTANTS,
    *guards.MUTANTS,
    *journal_runtime.MUTANTS,
    *journal_proofs.MUTANTS,
    *journal.MUTANTS,
    *kernel.MUTANTS,
    *people.MUTANTS,
    *origins.MUTANTS,
    *pools.MUTANTS,
    *providers.MUTANTS,
    *rest.MUTANTS,
    *rows.MUTANTS,
    *sandbox.MUTANTS,
    *session.MUTANTS,
    *shell.MUTANTS,
    *states.MUTANTS,
    *supervised_sessions.MUTANTS,
    *supervisors.MUTANTS,
    *tuning.MUTANTS,
    *values.MUTANTS,
)
