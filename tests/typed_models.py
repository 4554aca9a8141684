"""Models of pydantic's, one of each kind. Imported by the tests that ask for them: to import pydantic takes long."""

import dataclasses
import datetime
from collections.abc import Callable
from decimal import Decimal
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, RootModel, computed_field, field_validator

from tests.typed_kinds import Point


class Line(BaseModel):
    count: int = Field(ge=1, description="how many")


class Bill(BaseModel):
    number: int
    total: Decimal
    due: datetime.date | None = None
    lines: list[Line] = []
    to: str = Field("me", alias="payTo")

    @computed_field  # type: ignore[prop-decorator]  # as pydantic has it
    @property
    def size(self) -> int:
        return len(self.lines)

    @field_validator("number")
    @classmethod
    def _check(cls, number: int) -> int:
        if number == 13:
            message = "13 brings bad luck"
            raise ValueError(message)
        return number


class Twig(BaseModel):
    twigs: list["Twig"] = []


class Days(BaseModel):
    model_config = ConfigDict(strict=True)

    first: datetime.date


class Open(BaseModel):
    """One that takes what it does not know."""

    model_config = ConfigDict(extra="allow")

    x: int


class Odd(BaseModel):
    """One that judges in its own way, and holds anything."""

    what: Any = None

    @classmethod
    def model_validate_json(cls, *_given: Any, **_options: Any) -> "Odd":
        message = "nothing is good enough"
        raise ValueError(message)


class Numbers(RootModel[list[int]]):
    """An array with a name."""


@dataclasses.dataclass
class Holder:
    """A dataclass in which some stand."""

    bill: Bill
    point: Point | Twig


class Undescribable(BaseModel):
    """One with a function in it."""

    call: Callable[[int], int]


ANY_OF_THREE = list[Bill | Line | Point]
TWIGS = dict[str, Twig | None]
BILLS_AND_LINES = list[Bill | Line]
UNDESCRIBABLES = list[Undescribable]


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
