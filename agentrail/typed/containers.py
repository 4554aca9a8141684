"""Types that hold others: lists, sets, tuples and dictionaries; and unions, which are one of several."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec

from agentrail.errors import TypeFault
from agentrail.frozen import canonical_json
from agentrail.messages import JsonValue
from agentrail.structs import converter_of
from agentrail.typed.faults import MAX_CLASS_REASON, DecodingBudget, OutputFault, lowered, member, mismatch
from agentrail.typed.nodes import Definitions, Family, Leaf, Schema, TypeNode, not_of_type, to_plain

_MAX_SAID: Final = 5


class Array(TypeNode):
    """A list, a set, or a tuple of any length."""

    family: Family = "array"

    def __init__(
        self, name: str, item: TypeNode, make: Callable[[Iterable[Any]], Any], bounds: msgspec.Meta
    ) -> None:
        """Take what makes the Python value of the items, and how many there may be."""
        self.name: str = name
        self._item, self._make, self._bounds = item, make, bounds
        self.python: type | None = make if isinstance(make, type) else None

    def schema(self, definitions: Definitions) -> Schema:
        """Say what is in it. Not that all in a set differ: an item that stands twice is no reason to ask again."""
        made: Schema = {"type": "array"}
        if items := self._item.schema(definitions):
            made["items"] = items
        return made | _sizes(self._bounds, "Items")

    def decode(self, value: Any, path: str, budget: DecodingBudget) -> Any:
        """Decode each item."""
        if not isinstance(value, list | tuple):
            raise mismatch(value, expected="array", path=path)
        if fault := _fault_of_size(self._bounds, "array", len(value)):
            raise OutputFault(fault, path=path)
        items = [self._item.decode(one, f"{path}[{at}]", budget) for at, one in enumerate(value)]
        try:
            return self._make(items)
        except TypeError as error:  # an item of a set that cannot be in one
            raise OutputFault(lowered(str(error)), path=path) from None

    def encode(self, value: Any, path: str) -> JsonValue:
        """Encode each item; a set in the order of what it is written as, which is the same in each process."""
        if not self.takes(value):
            raise not_of_type(self, value, path)
        if fault := _fault_of_size(self._bounds, "array", len(value)):
            raise TypeFault(fault, where=path)
        if isinstance(value, set | frozenset):
            return sorted((self._item.encode(one, f"{path}[]") for one in value), key=canonical_json)
        return [self._item.encode(one, f"{path}[{at}]") for at, one in enumerate(value)]

    def takes(self, value: object) -> bool:
        """Take what has items."""
        return isinstance(value, set | frozenset | Sequence) and not isinstance(
            value, str | bytes | bytearray
        )


class Places(TypeNode):
    """A tuple whose places have types of their own."""

    family: Family = "array"
    python: type | None = tuple

    def __init__(self, name: str, items: Sequence[TypeNode]) -> None:
        """Take a node for each place."""
        self.name: str = name
        self._items = items

    def schema(self, definitions: Definitions) -> Schema:
        """Say what is where, and that nothing follows."""
        made: Schema = {"type": "array", "minItems": len(self._items), "maxItems": len(self._items)}
        if self._items:
            made |= {"prefixItems": [item.schema(definitions) for item in self._items], "items": False}
        return made

    def decode(self, value: Any, path: str, budget: DecodingBudget) -> tuple[Any, ...]:
        """Decode each place."""
        if not isinstance(value, list | tuple):
            raise mismatch(value, expected="array", path=path)
        if len(value) != len(self._items):
            reason = f"expected `array` of length {len(self._items)}, got {len(value)}"
            raise OutputFault(reason, path=path)
        pairs = zip(self._items, value, strict=True)
        return tuple(item.decode(one, f"{path}[{at}]", budget) for at, (item, one) in enumerate(pairs))

    def encode(self, value: Any, path: str) -> JsonValue:
        """Encode each place."""
        if not isinstance(value, list | tuple) or len(value) != len(self._items):
            raise not_of_type(self, value, path)
        pairs = zip(self._items, value, strict=True)
        return [item.encode(one, f"{path}[{at}]") for at, (item, one) in enumerate(pairs)]

    def takes(self, value: object) -> bool:
        """Take tuples."""
        return isinstance(value, tuple)


class DictType(TypeNode):
    """A dictionary: names that the type does not know."""

    family: Family = "object"
    python: type | None = dict

    def __init__(self, name: str, key: Leaf | None, item: TypeNode, bounds: msgspec.Meta) -> None:
        """Take the type of keys, None for any text, and that of values."""
        self.name: str = name
        self._key, self._item, self._bounds = key, item, bounds
        # Only as a name msgspec reads a number from a text.
        self._names = converter_of(dict[key.hint if key else str, None], str_keys=True)  # type: ignore[misc]  # made at run time

    def schema(self, definitions: Definitions) -> Schema:
        """Say what the values are, and the names where the type knows them."""
        made: Schema = {"type": "object"}
        if self._key is not None and (names := self._key.name_schema(definitions)):
            made["propertyNames"] = names
        if values := self._item.schema(definitions):
            made["additionalProperties"] = values
        return made | _sizes(self._bounds, "Properties")

    def decode(self, value: Any, path: str, budget: DecodingBudget) -> dict[Any, Any]:
        """Decode names and values."""
        if not isinstance(value, dict):
            raise mismatch(value, expected="object", path=path)
        if fault := _fault_of_size(self._bounds, "object", len(value)):
            raise OutputFault(fault, path=path)
        return {
            self._decoded_key(key, path): self._item.decode(one, member(path, key), budget)
            for key, one in value.items()
        }

    def _decoded_key(self, key: str, path: str) -> Any:
        if self._key is None:
            return key
        try:
            (made,) = self._names({key: None})
        except msgspec.ValidationError as error:
            reason = lowered(str(error).partition(" - at ")[0])
            reason = f"the name {key!r}: {reason}"
            raise OutputFault(reason, path=path) from None
        return made

    def encode(self, value: Any, path: str) -> JsonValue:
        """Encode names and values."""
        if not isinstance(value, Mapping):
            raise not_of_type(self, value, path)
        if fault := _fault_of_size(self._bounds, "object", len(value)):
            raise TypeFault(fault, where=path)
        made: dict[str, JsonValue] = {}
        for key, one in value.items():
            (name,) = to_plain({key: None}, path)
            self._checked_name(name, path)
            made[name] = self._item.encode(one, member(path, name))
        return made

    def _checked_name(self, name: str, path: str) -> None:
        try:
            self._decoded_key(name, path)
        except OutputFault as fault:
            raise TypeFault(fault.reason, where=fault.path) from None

    def takes(self, value: object) -> bool:
        """Take mappings."""
        return isinstance(value, Mapping)


def _sizes(bounds: msgspec.Meta, of_what: str) -> Schema:
    sizes = {f"min{of_what}": bounds.min_length, f"max{of_what}": bounds.max_length}
    return {word: size for word, size in sizes.items() if size is not None}


def _fault_of_size(bounds: msgspec.Meta, kind: str, size: int) -> str | None:
    if bounds.min_length is not None and size < bounds.min_length:
        return f"expected `{kind}` of length >= {bounds.min_length}, got {size}"
    if bounds.max_length is not None and size > bounds.max_length:
        return f"expected `{kind}` of length <= {bounds.max_length}, got {size}"
    return None


class UnionNode(TypeNode):
    """One of several types. Where more than one is an object, they are tried in the order in which they were written."""

    def __init__(
        self, name: str, scalars: Leaf | None, array: TypeNode | None, objects: Sequence[TypeNode]
    ) -> None:
        """Take what tells itself apart by its kind, and the objects."""
        self.name: str = name
        self._scalars, self._array, self._objects = scalars, array, objects
        self.family: Family = "object" if scalars is None and array is None else "any"

    def schema(self, definitions: Definitions) -> Schema:
        """Offer each."""
        offered = [node.schema(definitions) for node in (*self._objects, self._array) if node is not None]
        if self._scalars is not None:
            said = self._scalars.schema(definitions)
            offered += said["anyOf"] if said.keys() == {"anyOf"} else [said]
        return {"anyOf": offered}

    def decode(self, value: Any, path: str, budget: DecodingBudget) -> Any:
        """Take the first that fits; where none does, say of each why."""
        match value:
            case dict() if len(self._objects) > 1:
                return self._first_that_fits(value, path, budget)
            case dict() if self._objects:
                return self._objects[0].decode(value, path, budget)
            case list() | tuple() if self._array is not None:
                return self._array.decode(value, path, budget)
            case dict() | list() | tuple():
                raise mismatch(value, expected=self.name, path=path)
            case _ if self._scalars is not None and self._scalars.may_be(value):
                return self._scalars.decode(value, path, budget)
            case _:
                raise mismatch(value, expected=self.name, path=path)

    def _first_that_fits(self, value: Any, path: str, budget: DecodingBudget) -> Any:
        said: list[str] = []
        for node in self._objects:
            try:
                return node.decode(value, path, budget)
            except OutputFault as fault:
                reason = fault.reason if fault.path == path else str(fault)
                said.append(f"as `{node.name}`, {reason[:MAX_CLASS_REASON]}")
        reasons = "; ".join(said[:_MAX_SAID])
        reason = f"fits none of the {len(said)} types that may stand here: {reasons}"
        raise OutputFault(reason, path=path)

    def encode(self, value: Any, path: str) -> Any:
        """Find the type that a value is of: the very class first, then any that takes it."""
        offered = (*self._objects, self._array, self._scalars)
        holding = [node for node in offered if node is not None and node.takes(value)]
        holding.sort(key=lambda node: node.python is not type(value))
        faults: list[TypeFault] = []
        for node in holding:
            try:
                return node.encode(value, path)
            except TypeFault as fault:
                if node is not self._scalars:  # which takes everything, and would speak of itself alone
                    faults.append(fault)
        raise faults[0] if faults else not_of_type(self, value, path)
