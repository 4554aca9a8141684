"""Schemas and what they judge; tests/core/test_toolbox.py has what this means for tools."""

from agentrail.core.values.json_schema import MAX_FAULTS, CompiledSchema


def test_a_list_of_faults_ends():
    """Ten sentences, then how many more there are."""
    faults = CompiledSchema({"items": {"type": "string"}}).faults([1] * (MAX_FAULTS + 2))
    assert len(faults) == MAX_FAULTS + 1
    assert faults[-1] == "and 2 more"
