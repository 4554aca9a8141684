"""The two frozen maps: as far as single cases go. `property_tests/otp/test_supervision_tables.py` has the rest."""

from agentrail.otp.persistent_maps import NO_ENTRIES, Index, Table


def test_table_answers_for_numbers_it_never_had():
    """Below zero, above the tree, and in a hole."""
    table = Table().put(40, "x")
    assert [table.get(number) for number in (-1, 8, 39, 41, 1_025, 10**9)] == [None] * 6
    assert table.drop(41) is table
    assert table.first(41) is None
    assert table.first(10**9) is None
    assert table.last(40) is None
    assert table.last(0) is None
    assert table.last(10**9) == (40, "x")


def test_table_names_what_is_not_the_same_in_an_earlier_one():
    """Put, replaced and dropped, on each height of the tree; and nothing of what both share."""
    few = Table().put(0, "a").put(40, "b")
    many = few.put(40, "c").put(50_000, "d").drop(0)
    assert [*few.changed_since(few)] == [*many.changed_since(many)] == []
    assert [*few.changed_since(Table())] == [0, 40]
    assert [*many.changed_since(few)] == [0, 40, 50_000]
    assert [*many.drop(40).drop(50_000).changed_since(many)] == [40, 50_000]
    assert [*many.put(0, "a").changed_since(few.put(40, "c"))] == [50_000]


def test_index_that_lost_nothing_is_the_same():
    """To drop what is not there makes no new one, in a leaf as in a tree; and one that is emptied is the empty one."""
    few = Index().put("a", 1)
    many = few
    for number in range(100):
        many = many.put(number, number)
    assert few.drop("b") is few
    assert many.drop("b") is many
    assert many.count == 101
    assert few.drop("a") is NO_ENTRIES
