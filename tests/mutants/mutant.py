"""What a mutant is: a small deliberate bug, the guarantee that it breaks, and the test that has to notice."""

from attrs import frozen


@frozen(kw_only=True)
class Mutant:
    """One bug.

    Attributes:
        name: What is wrong, in a word or two.
        breaks: The guarantee: a promise of docs/explanation, or a row of the acceptance list.
        file: Where, below the package.
        old: What stands there.
        new: What stands there instead.
        killed_by: The test that fails then, as pytest names it.
        rows: The rows of the acceptance list that it breaks; its test is marked with each, `@pytest.mark.at(39)`.
    """

    name: str
    breaks: str
    file: str
    old: str
    new: str
    killed_by: str
    rows: tuple[int, ...] = ()


def scenario(name: str) -> str:
    """Give the test that runs a scenario file, as pytest names it."""
    return f"tests/core/test_scenarios.py::test_scenario[{name}]"


def of_rows(  # noqa: PLR0913, PLR0917 - a row of a table
    rows: tuple[int, ...], name: str, file: str, old: str, new: str, killed_by: str
) -> Mutant:
    """Make one whose guarantee is rows of the acceptance list."""
    numbers = ", ".join(f"AT-{row:03}" for row in rows)
    return Mutant(name=name, breaks=numbers, file=file, old=old, new=new, killed_by=killed_by, rows=rows)
