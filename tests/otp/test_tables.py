"""The two frozen maps: as far as single cases go. `property_tests/otp/test_supervision_tables.py` has the rest."""

from agentrail.otp.tables import NO_ENTRIES, Index, Table


class Same:
    """All of them have one hash, and none equals another."""

    def __hash__(self):
        return 1

    def __eq__(self, other):
        return self is other


def test_table_is_what_was_put_into_it():
    """Two are equal by their entries, however they came to be, and show them."""
    grown = Table().put(70_000, "far").put(3, "near").drop(70_000)
    assert grown == Table().put(3, "near")
    assert grown != Table().put(3, "other")
    assert grown != {3: "near"}
    assert repr(grown) == "Table({3: 'near'})"


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


def test_index_keeps_keys_apart_that_share_a_bucket():
    """A collision is no loss."""
    one, two = Same(), Same()
    index = Index().put(one, 1).put(two, 2).put(one, 3)
    assert (index.get(one), index.get(two), index.get(Same())) == (3, 2, None)
    assert index.drop(one).get(two) == 2
    assert index.drop(one) == Index().put(two, 2)
    assert index != Index()
    assert index != 5
    assert repr(Index().put("a", 1)) == "Index({'a': 1})"


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
