"""Promises about every step of a session, each as a function of one `Seen`.

Most of them are conservation laws: everything owed before, or added by the signal, is still owed afterwards or was delivered.
So one step shows a duplicate reply, a lost prompt, or a forgotten tool, whenever it happens.
"""

from collections.abc import Callable
from typing import Final

from agentrail.testing.promises import callers, conversation, effect_promises, state_promises
from agentrail.testing.promises.observed_step import Seen as Seen, comparable as comparable
from agentrail.testing.rule_failures import rules_on

PROMISES: Final[tuple[Callable[[Seen], None], ...]] = rules_on(
    Seen, state_promises, conversation, effect_promises, callers
)
