"""Options are read or refused, all at once, and nothing that is accepted is ignored (7.2, 7.14)."""

import json

import pytest

from agentrail.abc import Secret
from agentrail.errors import OptionError
from agentrail.providers.options import ProviderOptions
from tests.providers.transcripts import KEY
from tests.thinned import each

DEEP = json.loads("[" * 500 + "]" * 500)


@each(
    ("options", "words"),
    [
        ({"temprature": 1}, "'temprature' does not exist: did you mean 'temperature'"),
        ({"zzzzzzz": 1}, "expected one of api_key, base_url"),
        ({"api_key": 5}, "a text, a Secret, or a function"),
        ({"api_key": "  "}, "got an empty text"),
        ({"api_key": "schlüssel"}, "no header can carry"),
        ({"base_url": "127.0.0.1:8080"}, "http:// or https://"),
        ({"base_url": "ftp://host/"}, "http:// or https://"),
        ({"base_url": "http://"}, "http:// or https://"),
        ({"base_url": "http://host/v1?x=1"}, "without a query"),
        ({"base_url": "http://host:99999/"}, "not an address"),
        ({"base_url": "http://host..example/"}, "not an address"),
        ({"base_url": 5}, "got int"),
        ({"headers": ["x"]}, "a mapping"),
        ({"headers": {"bad name": "x"}}, "is not a header name"),
        ({"headers": {"x-ok": "two\nlines"}}, "printable ASCII"),
        ({"timeout": 0}, "above 0"),
        ({"timeout": float("nan")}, "above 0"),
        ({"timeout": 10**400}, "above 0"),
        ({"extra_body": {"top_k": object()}}, "JSON can represent: Encoding objects of type object"),
        ({"temperature": "hot"}, "a number from 0 to 2"),
        ({"temperature": True}, "a number from 0 to 2"),
        ({"top_p": 1.5}, "a number from 0 to 1"),
        ({"stop": ["", "x"]}, "none of them empty"),
        ({"max_output_tokens": 1.5}, "number of tokens"),
        ({"reasoning": "much"}, "off, low, medium, high"),
        ({"reasoning": 0}, "number of tokens"),
        ({"tool_choice": ""}, "auto, none, required"),
        ({"extra_body": {1: 2}}, "texts as keys"),
        ({"extra_body": {"a": DEEP}}, "nested more deeply than"),
        ({"verify": 3}, "path of a file"),
        ({"trust_env": "yes"}, "True or False"),
        ({"http2": 1}, "True or False"),
        ({"stall_policy": "wait"}, "abort, retry or report"),
        ({"stall_seconds": 0}, "above 0"),
        ({"max_retries": -1}, "a number of retries >= 0"),
        ({"max_retries": True}, "a number of retries >= 0"),
        ({"context_window": 0}, "number of tokens above 0"),
        ({"price": 3}, "a Price, or a mapping of input and output"),
        ({"price": {"input": 1}}, "a Price, or a mapping of input and output"),
        ({"price": {"input": 1, "output": 1, "tokens": 1}}, "a Price, or a mapping of input and output"),
        ({"price": {"input": 1, "output": -1}}, "a Price, or a mapping of input and output"),
        ({"price": {"input": None, "output": 1}}, "a Price, or a mapping of input and output"),
    ],
)
def test_each_fault_says_what_was_expected(options, words):
    """Unknown names come with the nearest one, unfit values with what would fit."""
    with pytest.raises(OptionError) as caught:
        ProviderOptions.parse(options)
    assert words in str(caught.value)


def test_extra_members_stay_as_they_were_checked():
    """Whoever gave them may change theirs at any depth."""
    given = {"limits": {"tokens": [1]}}
    options = ProviderOptions.parse({"extra_body": given})
    given["limits"]["tokens"].append(2)
    assert options.extra_body == {"limits": {"tokens": [1]}}


def test_no_key_is_ever_shown():
    """Neither in a repr, nor in a fault about it, nor when it stands in the address."""
    assert KEY not in repr(
        ProviderOptions.parse({"api_key": KEY, "headers": {"x-api-key": KEY}, "extra_body": {"key": KEY}})
    )
    for options in (
        {"base_url": f"https://user:{KEY}@host/"},
        {"base_url": f"user:{KEY}@host"},
        {"base_url": f"https://user:{KEY}"},
        {"base_url": f"https://host/v1?key={KEY}"},
        {"base_url": f"https://host/v1#{KEY}"},
        {"api_key": Secret(f"{KEY} ü")},
        {"api_key": f"{KEY} ü"},
        {"headers": {"x": f"{KEY}\n"}},
    ):
        with pytest.raises(OptionError) as caught:
            ProviderOptions.parse(options)
        assert KEY not in str(caught.value)
