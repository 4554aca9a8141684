"""Forms: what one may be, what an answer to it is, and the words for what is neither."""

from typing import Any

from hypothesis import given, strategies as st

from agentrail.core.values.question_forms import MAX_FIELDS, fault_of_form, fault_of_url, read_form
from agentrail.testing.strategies import FORM

TEXT = {"type": "string"}


def form(**fields: Any) -> dict[str, Any]:
    return {"type": "object", "properties": fields}


def test_a_flat_form_is_taken_and_what_no_client_could_draw_is_refused():
    """Texts, numbers, flags and choices, as MCP and AG-UI send them; else with what is wrong, where, and what was expected."""
    for schema, words in (
        (FORM, None),
        (form(a={"oneOf": [{"const": "l", "title": "Left"}, {"const": "r"}]}), None),
        (form(a={"enum": ["l", "r"], "enumNames": ["Left", "Right"], "description": "Which"}), None),
        (form(a={"type": "number", "minimum": 0.5, "maximum": 2, "default": 1, "title": "Side"}), None),
        (form(a={"type": "string", "format": "email"}) | {"additionalProperties": False, "title": "W"}, None),
        (form(a={"type": "array", "items": {"type": "string", "enum": ["l", "r"]}, "default": ["r"]}), None),
        (
            form(a={"type": "array", "items": {"anyOf": [{"const": "l", "title": "Left"}]}, "maxItems": 1}),
            None,
        ),
        ("x", "is 'x': expected a JSON Schema of a flat object"),
        ({"type": "array"}, "has type 'array': expected 'object'"),
        ({"type": "object"}, "has no properties, or too many: expected 1 to 50 fields"),
        (form(**{f"f{n}": TEXT for n in range(MAX_FIELDS + 1)}), "has no properties, or too many"),
        (
            form(a=TEXT) | {"$ref": "https://x"},
            "has '$ref': a form may have only type, properties and required",
        ),
        (form(a=TEXT) | {"additionalProperties": True}, "has additionalProperties: expected False"),
        (form(a=TEXT) | {"required": ["b"]}, "has required a list: expected names of its fields, 'a'"),
        (form(a=TEXT) | {"required": [7]}, "has required a list: expected names"),
        (form(a=TEXT) | {"title": 7}, "has a title that is not text"),
        (form(**{" ": TEXT}), "has a field ' ' that has no name"),
        (form(a="string"), "has a field 'a' that is 'string': expected an object"),
        (form(a={"type": "object"}), "has a field 'a' that has type 'object': expected string, number"),
        (form(a={"type": ["string", "null"]}), "has a field 'a' that has type a list: expected string"),
        (form(a={**TEXT, "pattern": "(a+)+$"}), "has a field 'a' that has 'pattern': a field of type string"),
        (form(a={**TEXT, "title": 7}), "has a field 'a' that has a title that is not text"),
        (form(a={**TEXT, "minLength": -1}), "has minLength -1: expected a whole number from 0"),
        (form(a={"type": "number", "minimum": "1"}), "has minimum '1': expected a number"),
        (form(a={"type": "number", "minimum": float("nan")}), "has minimum nan: expected a number"),
        (form(a={"type": "integer", "minimum": 2, "maximum": 1}), "has minimum above its maximum"),
        (form(a={**TEXT, "format": "regex"}), "has format 'regex': expected one of email, uri, date"),
        (form(a={"enum": []}), "has choices that are not a list of 1 to 200"),
        (form(a={"enum": ["x", "x"]}), "has choices that are not all texts, each once"),
        (form(a={"enum": [1, 2]}), "has choices that are not all texts, each once"),
        (form(a={"enum": ["x"], "oneOf": [{"const": "x"}]}), "has enum and oneOf: expected one of them"),
        (
            form(a={"type": "array"}),
            "has a field 'a' that has items that are no choice: expected {'type': 'string'",
        ),
        (form(a={"type": "array", "items": {"type": "string"}}), "has items that are no choice"),
        (form(a={"type": "array", "items": {"type": "number", "enum": [1]}}), "has items that are no choice"),
        (form(a={"type": "array", "items": {"enum": []}}), "has choices that are not a list of 1 to 200"),
        (
            form(a={"type": "array", "items": {"enum": ["x"]}, "enum": ["x"]}),
            "has 'enum': a field of type array",
        ),
        (form(a={"type": "array", "items": {"enum": ["x"]}, "minItems": "1"}), "has minItems '1'"),
        (
            form(a={"type": "array", "items": {"enum": ["x"]}, "default": "x"}),
            "has the default 'x': expected a list of 'x'",
        ),
        (form(a={"oneOf": [{"title": "x"}]}), "has choices that are not all texts, each once"),
        (form(a={"oneOf": ["x"]}), "has a oneOf whose members are not all"),
        (form(a={**TEXT, "enumNames": ["x"]}), "has enumNames but no enum"),
        (form(a={"enum": ["x"], "enumNames": ["x", "y"]}), "has enumNames that are not one text for each"),
        (form(a={"type": "boolean", "default": "yes"}), "has the default 'yes': expected true or false"),
        (form(a={**TEXT, "description": "x" * 60_000}), "has more than 50,000 characters: ask for less"),
    ):
        fault = fault_of_form(schema)
        assert fault is None if words is None else words in (fault or "")


def test_a_field_takes_what_fits_it_and_nothing_else():
    """A sentence for the field says what was expected, and what came."""
    for field, good, bad in (
        ({"type": "string", "minLength": 2, "maxLength": 3}, "abc", "a"),
        ({"type": "string", "format": "email"}, "ada@example.org", "ada"),
        ({"type": "string", "format": "uri"}, "https://example.org", "example"),
        ({"type": "string", "format": "date"}, "2026-07-28", "2026-02-30"),
        ({"type": "string", "format": "date-time"}, "2026-07-28T12:00:00Z", "noon"),
        ({"type": "integer", "minimum": 1}, 1, 0),
        ({"type": "integer"}, 3, 3.5),
        ({"type": "integer"}, 3, True),
        ({"type": "integer"}, 3, "3"),
        ({"type": "integer"}, 3, 10**400),
        ({"type": "number", "maximum": 1.5}, 1.5, 1.6),
        ({"type": "number"}, -1, float("inf")),
        ({"type": "boolean"}, False, 0),
        ({"enum": ["l", "r"]}, "l", "Left"),
        ({"oneOf": [{"const": "l", "title": "Left"}]}, "l", "Left"),
        ({"type": "array", "items": {"enum": ["l", "r"]}, "maxItems": 1}, ["l"], ["l", "r"]),
        ({"type": "array", "items": {"enum": ["l", "r"]}, "minItems": 1}, ["l", "r"], []),
        ({"type": "array", "items": {"enum": ["l", "r"]}}, [], ["l", "l"]),
        ({"type": "array", "items": {"anyOf": [{"const": "l", "title": "L"}]}}, ["l"], ["L"]),
        ({"type": "array", "items": {"enum": ["l", "r"]}}, ["r"], [{}]),
        ({"type": "array", "items": {"enum": ["l", "r"]}}, ["r"], "l"),
        ({"type": "string"}, "", ["x"]),
        ({"type": "string"}, "x", {"x": 1}),
    ):
        schema = form(a=field)
        assert fault_of_form(schema) is None
        assert read_form(schema, {"a": good}) == {"a": good}
        refused = read_form(schema, {"a": bad})
        assert isinstance(refused, str)
        assert refused.startswith("'a' is ")
        assert ": expected " in refused


def test_each_fault_of_an_answer_has_its_sentence():
    """What is missing, what is not of this form, and what does not fit, all at once."""
    refused = read_form(FORM, {"street": "x", "age": -1})
    assert isinstance(refused, str)
    assert refused.startswith(
        "'street' is not a field of this form; 'name' is missing: expected a text from 1 characters; "
        "'age' is -1: expected a whole number from 0; the form has name "
    )
    assert "more than 100,000 characters" in str(read_form(FORM, {"name": "x" * 200_000}))
    assert "got 'Ada'" in str(read_form(FORM, "Ada"))
    assert "got a list" in str(read_form(FORM, ["Ada"]))


@given(
    given=st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.just("left"),
        lambda inner: (
            st.lists(inner)
            | st.dictionaries(st.sampled_from(("name", "age", "side", "sure", "both", "x")), inner)
        ),
    )
)
def test_what_was_taken_is_taken_again(given):
    """Whatever comes, it is refused in words, or what counts of it is an answer that counts as itself."""
    read = read_form(FORM, given)
    assert read if isinstance(read, str) else read_form(FORM, read) == read


def test_what_is_no_address_is_refused():
    """No scheme that runs something, no host that is none, nothing that repaints a terminal."""
    for url in (
        *(None, 7, "", "example.org", "javascript:alert(1)", "file:///etc/passwd", "https://", "https://a b"),
        *("https://[x", "https://a\x1b[2J", "https://a/" + "x" * 2_000, "https://\ud800.org"),
    ):
        assert "expected" in (fault_of_url(url) or ""), url
