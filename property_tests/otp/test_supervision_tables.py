"""The two frozen maps against a dict."""

from hypothesis import given, strategies as st

from agentrail.otp.persistent_maps import Index, Table

NUMBERS = st.one_of(st.integers(0, 70), st.integers(0, 5_000), st.integers(0, 2**40))
CHANGES = st.lists(st.tuples(NUMBERS, st.one_of(st.none(), st.integers())))


@given(changes=CHANGES, asked=st.lists(NUMBERS, max_size=5))
def test_table_is_a_sorted_dict_and_old_ones_stay(changes, asked):
    """Whatever is put and dropped, each version shows what it held, in order, and finds neighbours."""
    table, model = Table(), {}
    versions = []
    for number, value in changes:
        table = table.drop(number) if value is None else table.put(number, value)
        model = {**model, number: value}
        model = {known: kept for known, kept in model.items() if kept is not None}
        versions.append((table, model))
    for earlier, before in versions:
        known = {number for number, _ in changes}
        differ = {number for number in known if model.get(number) != before.get(number)}
        changed = list(table.changed_since(earlier))
        assert changed == sorted(changed)
        assert differ <= set(changed) <= known
    for version, expected in versions:
        assert list(version.items()) == sorted(expected.items())
        assert version.count == len(expected)
        for number in (*asked, *expected):
            assert version.get(number) == expected.get(number)
            at_least = [known for known in expected if known >= number]
            below = [known for known in expected if known < number]
            assert version.first(number) == ((min(at_least), expected[min(at_least)]) if at_least else None)
            assert version.last(number) == ((max(below), expected[max(below)]) if below else None)


@given(changes=st.lists(st.tuples(st.text(max_size=2) | st.integers(0, 2**17), st.none() | st.integers())))
def test_index_is_a_dict_and_old_ones_stay(changes):
    """Whatever is put and dropped, each version shows what it held."""
    index, model = Index(), {}
    versions = []
    for key, value in changes:
        index = index.drop(key) if value is None else index.put(key, value)
        model = {**model, key: value}
        versions.append((index, model))
    for version, expected in versions:
        assert dict(version.items()) == {key: value for key, value in expected.items() if value is not None}
        for key, value in expected.items():
            assert version.get(key) == value
