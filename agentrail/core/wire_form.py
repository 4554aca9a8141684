"""How values become JSON and values again: for each class a twin, made from its annotations, that msgspec reads and writes.

msgspec would take our classes as they are, but for two things: it tells the members of a union apart only where they are
its own Structs with tags, and of other classes it skips the fields that it does not know. The twins have tags and
refuse unknown fields, so reading is one pass in C, and what is wrong is said with the place where it stands. What an event
or a signal is, nobody here knows.
"""

import functools
import operator
import types
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, NewType, TypeAlias, Union, get_args, get_origin, get_type_hints

import attrs
import msgspec
from msgspec import UNSET, UnsetType

Tag: TypeAlias = tuple[str, str]
Convert: TypeAlias = Callable[[Any], Any]
FieldOfTwin: TypeAlias = tuple[str, Any] | tuple[str, Any, Any]


class Shape(msgspec.Struct, frozen=True):
    """How the values of one annotation are written.

    Attributes:
        wire: The annotation of the twin's field.
        write: Makes of a value what stands in that field; None where that is the value itself.
        read: The way back; None likewise.
    """

    wire: Any
    write: Convert | None = None
    read: Convert | None = None


class Form:
    """One class and its twin, and the way from values of one to values of the other."""

    def __init__(self, of: type, twin: type[msgspec.Struct], shapes: Mapping[str, Shape]) -> None:
        """Made by `Forms`."""
        self.of = of
        self.twin = twin
        self._names = tuple(shapes)
        self._writers = tuple(
            (name, shape.write) for name, shape in shapes.items() if shape.write is not None
        )
        self._readers = tuple((name, shape.read) for name, shape in shapes.items())

    @property
    def converts(self) -> bool:
        """Whether msgspec would write a value of the class otherwise than its twin: fields of attrs classes it sorts."""
        tagged = self.twin.__struct_config__.tag is not None
        return tagged or bool(self._writers) or attrs.has(self.of)

    def fields_of(self, value: Any) -> dict[str, Any]:
        """Give the fields of a twin."""
        fields = {name: getattr(value, name) for name in self._names}
        for name, write in self._writers:
            fields[name] = write(fields[name])
        return fields

    def write(self, value: Any) -> msgspec.Struct:
        """Make the twin of a value."""
        return self.twin(**self.fields_of(value))

    def values_of(self, twin: msgspec.Struct) -> dict[str, Any]:
        """Give the arguments of the class; one that the text left out is left to the class."""
        values: dict[str, Any] = {}
        for name, read in self._readers:
            value = getattr(twin, name)
            if value is not UNSET:
                values[name] = value if read is None else read(value)
        return values

    def read(self, twin: msgspec.Struct) -> Any:
        """Make a value again."""
        return self.of(**self.values_of(twin))


class Forms:
    """The forms of some classes, and of all classes that these are made of."""

    def __init__(
        self, tags: Mapping[type, Tag], *, module: str, loops: Mapping[Any, Shape] | None = None
    ) -> None:
        """Begin without any.

        Args:
            tags: For each class that stands in a union the field and the word that tell it apart. msgspec refuses a
                union in which one is missing.
            module: Where the names that `loops` uses can be looked up.
            loops: The shape of annotations that lead back to where they stand. Their `wire` is a name.
        """
        self._tags = tags
        self._module = module
        self._loops: dict[Any, Shape] = dict(loops or {})
        self._forms: dict[type, Form] = {}

    def form_of(
        self, of: type, *, head: tuple[FieldOfTwin, ...] = (), skip: frozenset[str] = frozenset()
    ) -> Form:
        """Give the form of a class; the first one who asks decides how.

        Args:
            of: An attrs class or a Struct.
            head: Fields that the twin has in front of those of the class, and that are no business of the form.
            skip: Fields of the class that the twin has not.
        """
        form = self._forms.get(of)
        if form is None:
            form = self._forms[of] = self._made(of, head, skip)
        return form

    def _made(self, of: type, head: tuple[FieldOfTwin, ...], skip: frozenset[str]) -> Form:
        hints = get_type_hints(
            of, localns={"JsonValue": Any}
        )  # which is recursive: below its first level all is JSON
        shapes: dict[str, Shape] = {}
        fields = list(head)
        for name, required in _fields_in(of):
            if name not in skip:
                shape = shapes[name] = self._shape(hints[name])
                fields.append(
                    (name, shape.wire) if required else (name, one_of([shape.wire, UnsetType]), UNSET)
                )
                default = _omitted_in(of).get(name, UNSET)
                if default is not UNSET:
                    shapes[name] = Shape(shape.wire, _unless(default, shape.write), shape.read)
        tag_field, tag = self._tags.get(of, (None, None))
        twin = msgspec.defstruct(
            of.__name__,
            fields,
            module=self._module,
            tag_field=tag_field,
            tag=tag,
            frozen=True,
            kw_only=True,
            gc=False,
            forbid_unknown_fields=True,
        )
        return Form(of, twin, shapes)

    def _shape(self, hint: Any) -> Shape:
        loop = self._loops.get(hint)
        if loop is not None:
            return loop
        if isinstance(hint, NewType):
            return self._shape(hint.__supertype__)
        if isinstance(hint, type) and (attrs.has(hint) or issubclass(hint, msgspec.Struct)):
            form = self.form_of(hint)
            return Shape(form.twin, form.write if form.converts else None, form.read)
        origin, inner = get_origin(hint), get_args(hint)
        if origin in _UNIONS:
            return self._union(inner)
        if origin is tuple and inner[1:] == (...,):
            return _of_tuple(self._shape(inner[0]))
        if origin is Mapping:
            return _of_mapping(self._shape(inner[1]))
        return Shape(hint)  # what msgspec knows by itself, or says that it does not know

    def _union(self, members: tuple[Any, ...]) -> Shape:
        shapes = {member: self._shape(member) for member in members}
        writers = {
            _class_of(member): shape.write for member, shape in shapes.items() if shape.write is not None
        }
        readers = {_class_of(shape.wire): shape.read for shape in shapes.values() if shape.read is not None}
        return Shape(one_of(shape.wire for shape in shapes.values()), _by_class(writers), _by_class(readers))


def one_of(annotations: Iterable[Any]) -> Any:
    """Make a union of annotations that only the running program knows."""
    return functools.reduce(operator.or_, annotations)


_UNIONS: Final = frozenset({Union, types.UnionType})


def _fields_in(of: type) -> Iterator[tuple[str, bool]]:
    """Give the names of the fields that a value is made from, and whether each must be given."""
    if attrs.has(of):
        for attribute in attrs.fields(of):
            if attribute.init:  # the others are memos, and no part of the value
                yield attribute.name, attribute.default is attrs.NOTHING
    else:
        for field in msgspec.structs.fields(of):
            yield field.name, field.required


def _omitted_in(of: type) -> Mapping[str, Any]:
    """Give the defaults that are not written: of fields that came later, so that what was written before stays as it was.

    A class says so itself, by `metadata={"omit_default": True}` of the field.
    """
    fields = attrs.fields(of) if attrs.has(of) else ()
    return {one.name: one.default for one in fields if one.metadata.get("omit_default")}


def _unless(default: Any, write: Convert | None) -> Convert:
    def convert(value: Any) -> Any:
        if value == default:
            return UNSET
        return value if write is None else write(value)

    return convert


def _class_of(annotation: Any) -> Any:
    return get_origin(annotation) or annotation


def _by_class(converts: Mapping[Any, Convert]) -> Convert | None:
    if not converts:
        return None

    def convert(value: Any) -> Any:
        found = converts.get(type(value))
        return value if found is None else found(value)

    return convert


def _of_tuple(item: Shape) -> Shape:
    write, read = item.write, item.read
    return Shape(
        tuple[item.wire, ...],  # type: ignore[name-defined]  # an annotation that is made at run time
        None if write is None else lambda values: tuple(map(write, values)),
        None if read is None else lambda values: tuple(map(read, values)),
    )


def _of_mapping(item: Shape) -> Shape:
    if item.write is not None or item.read is not None:
        message = f"a mapping to {item.wire} has no form in JSON yet: make it a tuple of values that have a name each"
        raise TypeError(message)
    return Shape(dict[str, item.wire])  # type: ignore[name-defined]  # an annotation that is made at run time
