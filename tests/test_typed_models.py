"""pydantic's models as types, where pydantic is installed: they describe and judge themselves."""

import datetime
import subprocess
import sys
from decimal import Decimal
from importlib import import_module
from typing import Annotated

import pytest

from agentrail.abc import Ok
from agentrail.core.values.json_schema import CompiledSchema, fault_of_schema
from agentrail.errors import TypeFault
from agentrail.tools.function import to_outcome, tool
from agentrail.typed import OutputFault, typed
from tests.tools.rig import CTX
from tests.typed_kinds import Point


@pytest.fixture(scope="module")
def m():
    pytest.importorskip("pydantic")
    return import_module("tests.typed_models")


@pytest.mark.parametrize(
    "make",
    [
        lambda m: (m.Bill, m.Bill(number=1, total=Decimal("1.50"), lines=[m.Line(count=2)], payTo="you")),
        lambda m: (m.Twig, m.Twig(twigs=[m.Twig(), m.Twig(twigs=[m.Twig()])])),
        lambda m: (m.Days, m.Days(first=datetime.date(2024, 2, 29))),
        lambda m: (m.Open, m.Open.model_validate({"x": 1, "y": 2})),
        lambda m: (m.Numbers, m.Numbers([1, 2])),
        lambda m: (m.Numbers | None, m.Numbers([1, 2])),
        lambda m: (m.Holder, m.Holder(m.Bill(number=1, total=Decimal(2), payTo="you"), Point(x=1))),
        lambda m: (m.Holder, m.Holder(m.Bill(number=1, total=Decimal(2), payTo="you"), m.Twig())),
        lambda m: (
            m.ANY_OF_THREE,
            [m.Line(count=1), Point(x=1), m.Bill(number=1, total=Decimal(2), payTo="you")],
        ),
        lambda m: (m.TWIGS, {"a": m.Twig(), "b": None}),
    ],
)
def test_a_model_goes_out_and_comes_back(m, make):
    """Under the names that it reads, also inside of other types."""
    kind, value = make(m)
    it = typed(kind)
    assert fault_of_schema(it.schema) is None
    assert fault_of_schema(it.wire_schema) is None
    written = it.encode(value)
    assert CompiledSchema(it.schema).faults(written) == ()
    assert it.decode(written) == value


def test_the_schema_is_the_models_own_and_closed(m):
    """What the model refers to is described once, whoever refers to it; one that takes anything still does."""
    schema = typed(m.BILLS_AND_LINES).schema
    assert schema["items"]["anyOf"] == [{"$ref": "#/$defs/Bill"}, {"$ref": "#/$defs/Line"}]
    assert schema["$defs"]["Bill"]["properties"]["lines"]["items"] == {"$ref": "#/$defs/Line"}
    assert [one["additionalProperties"] for one in schema["$defs"].values()] == [False, False]
    assert typed(m.Bill).is_object
    assert not typed(m.Numbers).is_object
    assert typed(m.Open).schema["additionalProperties"] is True
    assert typed(m.Twig).schema["$defs"].keys() == {"Twig"}


@pytest.mark.parametrize(
    ("find", "value", "words"),
    [
        (lambda m: m.Bill, {"number": "1", "total": 1}, "$.number: '1' is not of type 'integer'"),
        (lambda m: m.Bill, {"total": 1}, "$.number: is required"),
        (lambda m: m.Bill, {"number": 1, "total": 1, "x": 2}, "$: Additional properties are not allowed ('x' was unexpected)"),
        (lambda m: m.Bill, {"number": 1, "total": 1, "lines": [{"count": 0}]}, "$.lines[0].count: 0 is less than the minimum of 1"),
        (lambda m: m.Bill, {}, "$.number: is required; $.total: is required"),
        (lambda m: m.Bill, {"number": 13, "total": 1}, "$.number: Value error, 13 brings bad luck"),
        (lambda m: m.Holder, {"bill": {"number": 13, "total": "x"}, "point": {"x": 1}}, "$.bill.number: Value error, 13 brings bad luck; $.bill.total: Input should be a valid decimal"),
        (lambda m: m.Odd, {"what": 1}, "$: nothing is good enough"),
        (lambda m: m.Days, {"first": "2024-02-30"}, "$.first: Input should be a valid date"),
        (lambda m: m.Twig | m.Line, {"x": 1}, "$: matches none of the 2 allowed types: as `Twig`, Additional properties"),
    ],
)  # fmt: skip
def test_what_the_schema_or_the_model_refuses_is_refused(m, find, value, words):
    """The schema first: a model on its own would read a text as a number."""
    with pytest.raises(OutputFault) as caught:
        typed(find(m)).decode(value)
    assert str(caught.value).startswith(words)


@pytest.mark.parametrize(
    ("find", "where"),
    [
        (lambda m: m.Undescribable, "Undescribable"),
        (lambda m: m.UNDESCRIBABLES, "list[Undescribable][]"),
        (lambda m: m.BaseModel, "BaseModel"),
    ],
)
def test_a_model_without_a_schema_is_refused(m, find, where):
    """With what pydantic says."""
    with pytest.raises(TypeFault, match=r"has no JSON Schema \(.*\): change that field$") as caught:
        typed(find(m))
    assert caught.value.where == where


def test_one_that_may_be_anything_stands_alone(m):
    """Nothing would tell it from the others of a union."""
    assert typed(m.RootModel[int | list[int]]).encode(m.RootModel[int | list[int]](3)) == 3
    with pytest.raises(
        TypeFault, match="may be any value, so it cannot be told apart from the others: use it alone"
    ):
        typed(m.RootModel[int | list[int]] | Point)


def test_another_value_is_not_written(m):
    """The caller's move."""
    with pytest.raises(TypeFault, match=r"^\$: expected `Bill`, got `Line`$"):
        typed(m.Bill).encode(m.Line(count=1))
    with pytest.raises(TypeFault, match=r"^\$: Unable to serialize unknown type"):
        typed(m.Odd).encode(m.Odd(what=object()))


async def test_a_tool_takes_and_returns_models(m):
    """As parameters, alone or in other types, and as results; with a default that the model is told of."""
    pay = tool(m.pay)
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


def test_models_are_results_at_any_depth(m):
    """As pydantic writes them."""
    assert to_outcome("x", [m.Line(count=1)]) == Ok(text='[{"count":1}]')
    assert to_outcome("x", m.Numbers([1])) == Ok(text="[1]")
    assert to_outcome("x", Ok(text="t", details=m.Line(count=1))).details == {"count": 1}


def test_pydantic_is_not_imported():
    """It costs a tenth of a second, and most have none."""
    code = "import sys, agentrail.typed, agentrail.tools; print('pydantic' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


def test_bounds_of_fields_hold_for_parameters_and_answers(m):
    """`Annotated[int, Field(gt=3)]` is not `int`: a model sees the bound, and a value beyond it is refused."""
    count = Annotated[int, m.Field(gt=3, description="how many")]

    def order(count: int) -> str:
        """Order."""
        return f"{count}"

    order.__annotations__["count"] = count
    described = {"type": "integer", "description": "how many", "exclusiveMinimum": 3}
    assert tool(order).parameters["properties"]["count"] == typed(count).schema == described
    with pytest.raises(OutputFault, match=r"\$: expected `int` >= 4"):
        typed(count).decode(3)
