"""Rules for fields and arguments, read from their annotations: a value of a wrong type is refused where it is given."""

# not compiled: attrs classes derive from `CheckedFields`

from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping
from functools import cache, partial, wraps
from inspect import get_annotations, signature
from pathlib import PurePath
from types import UnionType
from typing import (
    Annotated,
    Any,
    Final,
    Literal,
    NewType,
    ParamSpec,
    TypeAlias,
    TypeVar,
    Union,
    get_args,
    get_origin,
)

from attrs import fields_dict

from agentrail.errors import OptionError
from agentrail.otp.child_specs import is_amount, is_number, is_seconds, is_whole
from agentrail.otp.guarded_calls import repr_of

_P = ParamSpec("_P")
_R = TypeVar("_R")

FieldRule: TypeAlias = tuple[Callable[[Any], bool], str]
"""Whether a value is right, and the right values in words."""


def _is_path(value: Any) -> bool:
    try:
        return b"\0" not in str(PurePath(value)).encode(errors="surrogateescape")
    except (TypeError, ValueError):
        return False


_ANYTHING: Final[FieldRule] = (lambda _: True, "anything")
"""Rule of an annotation by which no value can be told, such as a protocol."""
_PATH: Final[FieldRule] = (_is_path, "a path, without NUL or lone surrogates")
_TEXT: Final[FieldRule] = (lambda value: isinstance(value, str), "a text")
_PLAIN: Final[Mapping[Any, FieldRule]] = {
    type(None): (lambda value: value is None, "None"),
    str: _TEXT,
    bool: (lambda value: isinstance(value, bool), "True or False"),
    int: (lambda value: isinstance(value, int) and not isinstance(value, bool), "a whole number"),
    float: (is_number, "a finite number"),
    Callable: (callable, "a function"),
    Any: _ANYTHING,
}

Count: TypeAlias = Annotated[int, (partial(is_whole, at_least=1), "a whole number >= 1")]
CountOrZero: TypeAlias = Annotated[int, (partial(is_whole, at_least=0), "a whole number >= 0")]
PathText: TypeAlias = Annotated[str, _PATH]
Dollars: TypeAlias = Annotated[
    float, (partial(is_amount, above_zero=True), "a finite number of dollars above 0")
]
Share: TypeAlias = Annotated[float, (lambda value: is_amount(value) and value <= 1, "a number from 0 to 1")]
Pause: TypeAlias = Annotated[float, (is_seconds, "finite seconds >= 0")]
TimeLimit: TypeAlias = Annotated[float, (partial(is_seconds, above_zero=True), "finite seconds above 0")]


class CheckedFields:
    """Base class of attrs classes whose fields are checked by their annotations.

    Raises:
        OptionError: Your move: all wrong values, by field.
    """

    __slots__ = ()

    def __attrs_post_init__(self) -> None:
        OptionError.raise_for([*faults_of_fields(self, type(self))])


def faults_of_fields(value: Any, kind: Any, *names: str) -> Iterator[str]:
    """Yield the faults of fields of an attrs class. The value of a field that its `repr` leaves out is not repeated.

    Args:
        value: An instance, or an object with these fields.
        kind: The class.
        names: Names of the fields. None for all.
    """
    known = fields_dict(kind)
    for name in names or known:
        yield from misfits(name, getattr(value, name), known[name].type, is_shown=bool(known[name].repr))


def all_items(given: Iterable[_R]) -> tuple[_R, ...]:
    """Return the items as a tuple. A value without items is returned unchanged, so that a check can name it."""
    value: Any = given
    return tuple(value) if isinstance(value, Iterable) and not isinstance(value, str | Mapping) else value


def checks_arguments(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """Decorate a function so that it checks its arguments by their annotations, before anything else."""
    signed, hints = signature(function), get_annotations(function)

    @wraps(function)
    def call(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        given = signed.bind(*args, **kwargs).arguments
        OptionError.raise_for(
            [fault for name in given for fault in misfits(name, given[name], hints.get(name, Any))]
        )
        return function(*args, **kwargs)

    return call


def misfits(name: str, value: object, annotation: Any, *, is_shown: bool = True) -> Iterator[str]:
    """Yield the fault of a value that does not fit an annotation."""
    is_right, expected = _rule_of(annotation)
    if not is_right(value):
        # A mapping may have keys and passwords among its right values.
        is_shown = is_shown and not (value and isinstance(value, Mapping)) and "Secret" not in expected
        shown = repr_of(value) if is_shown else f"of type {type(value).__name__}"
        yield f"{name} is {shown:.200}: expected {expected}"


@cache
def _rule_of(annotation: Any) -> FieldRule:
    kind, parts = get_origin(annotation) or annotation, get_args(annotation)
    if kind in _PLAIN:
        return _PLAIN[kind]
    if isinstance(kind, NewType):
        return _rule_of(kind.__supertype__)
    if kind is Annotated:
        return parts[1] if isinstance(parts[1], tuple) else _rule_of(parts[0])
    if kind is Literal:
        words = " or ".join(map(repr, parts)).replace(" or ", ", ", len(parts) - 2)
        return (lambda value: isinstance(value, Hashable) and value in parts), words
    if kind in {Union, UnionType}:
        return _rule_of_union([*map(_rule_of, parts)])
    if getattr(kind, "__name__", "") == "PathLike":
        return _PATH
    if not isinstance(kind, type) or getattr(kind, "_is_protocol", False):
        return _ANYTHING
    if parts and issubclass(kind, Iterable):
        rules = [_rule_of(part) for part in parts if part is not ...]
        told = f", each {rules[0][1]}" if rules[0] == rules[-1] != _ANYTHING else ""
        name = "mapping" if issubclass(kind, Mapping) else "sequence"
        return partial(_are_right, kind, rules), f"a {name}{told}"
    return (lambda value: isinstance(value, kind)), f"{kind.__name__}(…)"


def _rule_of_union(rules: list[FieldRule]) -> FieldRule:
    rules = [rule for rule in rules if rule is not _TEXT or _PATH not in rules]  # some texts are no paths
    expected = ", or ".join([words for _, words in rules])
    return (lambda value: any(is_right(value) for is_right, _ in rules)), expected


def _are_right(kind: type, rules: list[FieldRule], value: Any) -> bool:
    if isinstance(value, str | bytes) or not isinstance(value, kind):
        return False
    items = value if isinstance(value, Collection) else ()  # others can be read only once
    rows: Iterable[tuple[Any, ...]] = value.items() if isinstance(value, Mapping) else zip(items)
    return all(is_right(part) for row in rows for (is_right, _), part in zip(rules, row, strict=False))
