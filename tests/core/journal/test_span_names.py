"""Names of spans against the registry of the conventions: a name that was renamed there fails here, and one that we do not use."""

from pathlib import Path

import pytest

from agentrail.core.journal import span_names
from tests.core.journal.test_spans import CALLED, END, REQUEST, RETURNED, SAID, START, Story, prompt

REGISTRY = dict(
    line.split()
    for line in (Path(__file__).parent / "genai_names.txt").read_text().splitlines()
    if not line.startswith("#")
)
TYPES = {"string": str, "int": int, "double": float, "string[]": tuple, "any": str}
USED = {
    value
    for value in vars(span_names).values()
    if isinstance(value, str) and value.startswith(("gen_ai.", "mcp."))
}


def test_each_name_is_of_the_release():
    """`genai_names.txt` is a copy of the registry of that release."""
    assert USED
    assert USED - set(REGISTRY) == set()
    assert "v0.1.0" in span_names.CONVENTIONS


@pytest.mark.parametrize("content", [True, False])
def test_each_attribute_has_a_name_and_the_type_of_the_registry(content):
    """Whatever has no name there begins with `agentrail.`, but for the error's type."""
    spans = (
        Story(content=content).say(prompt(), START, REQUEST).say(SAID).say(CALLED, RETURNED).say(END).spans()
    )
    for span in spans:
        for name, value in span.attributes.items():
            if name in REGISTRY:
                assert isinstance(value, TYPES[REGISTRY[name]]), name
            else:
                assert name.startswith("agentrail.") or name == "error.type"
