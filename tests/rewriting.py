"""Which packages pytest rewrites, so that an `assert` in them says what it compared: imported by the root `conftest.py`, before them.

It rewrites all of a package that brings a plugin along, and so all of ours, for the sake of `agentrail.testing`; of Hypothesis and
AnyIO too. To rewrite a module takes five times as long as to compile it, in a fresh clone each worker does it, and what comes out
is for pytest alone: commands that tests start would compile the same modules once more.
"""

import sys
from typing import Final

from _pytest.assertion.rewrite import AssertionRewritingHook

AS_THEY_ARE: Final = frozenset({"agentrail", "anyio", "hypothesis", "platformdirs"})
REWRITTEN: Final = "agentrail.testing"

for _hook in sys.meta_path:
    if isinstance(_hook, AssertionRewritingHook):
        _hook._must_rewrite -= AS_THEY_ARE  # noqa: SLF001 - there is no door: what is marked stays marked
        _hook._marked_for_rewrite_cache.clear()  # noqa: SLF001 - see above
        _hook.mark_rewrite(REWRITTEN)
