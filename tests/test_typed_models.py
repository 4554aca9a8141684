"""pydantic's models as types, where pydantic is installed: they describe and judge themselves."""

import dataclasses
import datetime
import subprocess
import sys
from collections.abc import Callable
from decimal import Decimal
from typing import Annotated

import pytest

pydantic = pytest.importorskip("pydantic")

from pydantic import BaseModel, ConfigDict, Field, RootModel, computed_field, field_validator  # noqa: E402 - as above

from agentrail.abc import Ok  # noqa: E402 - as above
from agentrail.core.values.json_schema import CompiledSchema, fault_of_schema  # noqa: E402 - as above
from agentrail.errors import TypeFault  # noqa: E402 - as above
from agentrail.tools.function import tool  # noqa: E402 - as above
from agentrail.tools.outcome import to_outcome  # noqa: E402 - as above
from agentrail.typed import OutputFault, typed  # noqa: E402 - as above
from tests.tools.rig import CTX  # noqa: E402 - as above
from tests.typed_kinds import Point  # noqa: E402 - as above


class Line(BaseModel):
    """A line of an order."""

    count: int = Field(ge=1, description="how many")


class Bill(BaseModel):
    """What is to be paid."""

    number: int
    total: Decimal
    due: datetime.date | None = None
    lines: list[Line] = []
    to: str = Field("me", alias="payTo")

    @computed_field  # type: ignore[prop-decorator]  # as pydantic has it
    @property
    def size(self) -> int:
        """Not read."""
        return len(self.lines)

    @field_validator("number")
    @classmethod
    def _check(cls, number: int) -> int:
        if number == 13:
            message = "13 brings bad luck"
            raise ValueError(message)
        return number


class Twig(BaseModel):
    """One that holds itself."""

    twigs: list["Twig"] = []


class Days(BaseModel):
    """One that converts nothing."""

    model_config = ConfigDict(strict=True)

    first: datetime.date


class Open(BaseModel):
    """One that takes what it does not know."""

    model_config = ConfigDict(extra="allow")

    x: int


class Numbers(RootModel[list[int]]):
    """An array with a name."""


@dataclasses.dataclass
class Holder:
    """A dataclass in which some stand."""

    bill: Bill
    point: Point | Twig


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (Bill, Bill(number=1, total=Decimal("1.50"), lines=[Line(count=2)], payTo="you")),
        (Twig, Twig(twigs=[Twig(), Twig(twigs=[Twig()])])),
        (Days, Days(first=datetime.date(2024, 2, 29))),
        (Open, Open.model_validate({"x": 1, "y": 2})),
        (Numbers, Numbers([1, 2])),
        (Numbers | None, Numbers([1, 2])),
        (Holder, Holder(Bill(number=1, total=Decimal(2), payTo="you"), Point(x=1))),
        (Holder, Holder(Bill(number=1, total=Decimal(2), payTo="you"), Twig())),
        (
            list[Bill | Line | Point],
            [Line(count=1), Point(x=1), Bill(number=1, total=Decimal(2), payTo="you")],
        ),
        (dict[str, Twig | None], {"a": Twig(), "b": None}),
    ],
)
def test_a_model_goes_out_and_comes_back(kind, value):
    """Under the names that it reads, also inside of other types."""
    it = typed(kind)
    assert fault_of_schema(it.schema) is None
    assert fault_of_schema(it.wire_schema) is None
    written = it.encode(value)
    assert CompiledSchema(it.schema).faults(written) == ()
    assert it.decode(written) == value


def test_the_schema_is_the_models_own_and_closed():
    """What the model refers to is described once, whoever refers to it; one that takes anything still does."""
    schema = typed(list[Bill | Line]).schema
    assert schema["items"]["anyOf"] == [{"$ref": "#/$defs/Bill"}, {"$ref": "#/$defs/Line"}]
    assert schema["$defs"]["Bill"]["properties"]["lines"]["items"] == {"$ref": "#/$defs/Line"}
    assert [one["additionalProperties"] for one in schema["$defs"].values()] == [False, False]
    assert typed(Bill).is_object
    assert not typed(Numbers).is_object
    assert typed(Open).schema["additionalProperties"] is True
    assert typed(Twig).schema["$defs"].keys() == {"Twig"}


@pytest.mark.parametrize(
    ("kind", "value", "words"),
    [
        (Bill, {"number": "1", "total": 1}, "$.number: '1' is not of type 'integer'"),
        (Bill, {"total": 1}, "$.number: is required"),
        (Bill, {"number": 1, "total": 1, "x": 2}, "$: Additional properties are not allowed ('x' was unexpected)"),
        (Bill, {"number": 1, "total": 1, "lines": [{"count": 0}]}, "$.lines[0].count: 0 is less than the minimum of 1"),
        (Bill, {}, "$.number: is required; $.total: is required"),
        (Bill, {"number": 13, "total": 1}, "$.number: Value error, 13 brings bad luck"),
        (Holder, {"bill": {"number": 13, "total": "x"}, "point": {"x": 1}}, "$.bill.number: Value error, 13 brings bad luck; $.bill.total: Input should be a valid decimal"),
        (Days, {"first": "2024-02-30"}, "$.first: Input should be a valid date"),
        (Twig | Line, {"x": 1}, "$: fits none of the 2 types that may stand here: as `Twig`, Additional properties"),
    ],
)  # fmt: skip
def test_what_the_schema_or_the_model_refuses_is_refused(kind, value, words):
    """The schema first: a model on its own would read a text as a number."""
    with pytest.raises(OutputFault) as caught:
        typed(kind).decode(value)
    assert str(caught.value).startswith(words)


class Undescribable(BaseModel):
    """One with a function in it."""

    call: Callable[[int], int]


@pytest.mark.parametrize(
    ("kind", "where"),
    [
        (Undescribable, "Undescribable"),
        (list[Undescribable], "list[Undescribable][]"),
        (BaseModel, "BaseModel"),
    ],
)
def test_a_model_without_a_schema_is_refused(kind, where):
    """With what pydantic says."""
    with pytest.raises(TypeFault, match=r"has no JSON Schema \(.*\): change that field$") as caught:
        typed(kind)
    assert caught.value.where == where


def test_one_that_may_be_anything_stands_alone():
    """Nothing would tell it from the others of a union."""
    assert typed(RootModel[int | list[int]]).encode(RootModel[int | list[int]](3)) == 3
    with pytest.raises(
        TypeFault, match="may be of any kind, and nothing tells it from the others: write it alone"
    ):
        typed(RootModel[int | list[int]] | Point)


def test_another_value_is_not_written():
    """The caller's move."""
    with pytest.raises(TypeFault, match=r"^\$: expected `Bill`, got `Line`$"):
        typed(Bill).encode(Line(count=1))


async def test_a_tool_takes_and_returns_models():
    """As parameters, alone or in other types, and as results; with a default that the model is told of."""

    @tool
    async def pay(bill: Bill, more: Annotated[list[Line], "others"], first: Days | None = None) -> Bill:
        """Pay.

        Args:
            bill: What to pay.
            more: not this text
            first: When.
        """
        assert more == [Line(count=1)]
        assert first is None
        return bill

    properties = pay.parameters["properties"]
    assert properties["bill"] == {"description": "What to pay.", "$ref": "#/$defs/Bill"}
    assert properties["more"]["description"] == "others"
    assert properties["first"]["default"] is None
    assert pay.parameters["required"] == ["bill", "more"]
    assert fault_of_schema(pay.parameters) is None
    outcome = await pay.execute({"bill": {"number": 1.0, "total": "2"}, "more": [{"count": 1}]}, CTX)
    assert outcome == Ok(text='{"number":1,"total":"2","due":null,"lines":[],"to":"me","size":0}')
    refused = await pay.execute({"bill": {"number": 13, "total": "2"}, "more": []}, CTX)
    assert refused.text == 'Invalid arguments for "pay": $.bill.number: Value error, 13 brings bad luck'


def test_models_are_results_at_any_depth():
    """As pydantic writes them."""
    assert to_outcome("x", [Line(count=1)]) == Ok(text='[{"count":1}]')
    assert to_outcome("x", Numbers([1])) == Ok(text="[1]")
    assert to_outcome("x", Ok(text="t", details=Line(count=1))).details == {"count": 1}


def test_pydantic_is_not_imported():
    """It costs a tenth of a second, and most have none."""
    code = "import sys, agentrail.typed, agentrail.tools; print('pydantic' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
