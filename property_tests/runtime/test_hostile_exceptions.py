"""Whatever somebody else's code raises, wherever it does: the call has an error, the other sessions do not notice."""

import trio
from hypothesis import given, strategies as st

from agentrail.otp.crash_text import MAX_TRACEBACK, describe_bug, traceback_of
from agentrail.otp.guarded_calls import leaves, what_leaves
from tests.runtime.doors import DOORS, PLAIN, Foreign, LyingGroup, Raises, open_torn, says_ok

# No kept cancellations and no `__repr__` that raises: what Trio does with those in a nursery of the tool's own stands in
# tests/runtime/test_doors.py.
KINDS = sorted(name for name in PLAIN if not name.startswith(("a kept", "unprintable")))


def _group_of(parts, lies):
    return (LyingGroup if lies else BaseExceptionGroup)("group", parts)


def _caused(error, cause, how):
    if how == "cause":
        error.__cause__ = cause
    elif how == "context":
        error.__context__ = cause
    return error


SINGLE = st.sampled_from(KINDS).map(lambda name: PLAIN[name]())
TREES = st.recursive(
    SINGLE,
    lambda inner: st.one_of(
        st.builds(_group_of, st.lists(inner, min_size=1, max_size=4), st.booleans()),
        st.builds(_caused, inner, inner, st.sampled_from(["cause", "context", "none"])),
    ),
    max_leaves=12,
)


@given(error=TREES, door=st.sampled_from(sorted(DOORS)))
def test_no_exception_ends_another_session(error, door):
    """At every door, groups in groups, causes behind causes, classes of anybody's own."""
    raises = Raises(lambda: error)

    async def main():
        with trio.fail_after(60):
            async with open_torn(raises) as supervisor:
                bystander = await supervisor.start_session(model=says_ok())
                await DOORS[door](supervisor, raises)
                assert await bystander.ask("go") == "ok"
                assert supervisor.statistics().restarts == 0

    trio.run(main)
    assert raises.times


@given(error=TREES, extra=st.sampled_from([None, KeyboardInterrupt, SystemExit]), deep=st.integers(0, 30))
def test_what_leaves_is_found_wherever_it_is(error, extra, deep):
    """In a group of any depth the one that is nobody's bug, as itself; else nothing, and the texts are bounded."""
    wanted = None if extra is None else extra()
    whole = error if wanted is None else BaseExceptionGroup("both", [error, wanted])
    for _ in range(deep):
        whole = BaseExceptionGroup("deeper", [whole])
    assert what_leaves(whole) is wanted
    assert what_leaves(whole, (Foreign,)) is next(
        (leaf for leaf in leaves(whole) if isinstance(leaf, Foreign)), None
    )
    assert describe_bug(whole).encode()
    assert len(traceback_of(whole, str)) < MAX_TRACEBACK + 100
