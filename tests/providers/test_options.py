"""Options are read or refused, all at once, and nothing that is accepted is ignored (7.2, 7.14)."""

import pytest
from attrs import fields_dict

from agentrail.errors import OptionError
from agentrail.providers.options import ProviderOptions
from tests.providers.transcripts import KEY

GOOD = {
    "api_key": KEY,
    "base_url": "http://127.0.0.1:8080/v1/",
    "headers": {"X-Team": "blue", "accept": None},
    "timeout": 30,
    "temperature": 0.5,
    "top_p": 1,
    "stop": ["END"],
    "max_output_tokens": 100,
    "reasoning": "low",
    "tool_choice": "required",
    "extra_body": {"seed": 1},
    "verify": False,
    "trust_env": False,
}


def test_every_option_is_read():
    """The mapping that people write becomes the value, tidied; and this test knows every option."""
    options = ProviderOptions.parse(GOOD)
    assert set(GOOD) == set(fields_dict(ProviderOptions))
    assert options.base_url == "http://127.0.0.1:8080/v1"
    assert options.headers == {"x-team": "blue", "accept": None}
    assert options.stop == ("END",)
    assert (options.timeout, options.verify, options.extra_body) == (30, False, {"seed": 1})


def test_nothing_given_is_the_defaults():
    """None is the same as not given."""
    assert ProviderOptions.parse(dict.fromkeys(GOOD)) == ProviderOptions.parse({}) == ProviderOptions()


def test_one_text_to_stop_at_is_enough():
    """A single text is a list of one."""
    assert ProviderOptions.parse({"stop": "END"}).stop == ("END",)


def test_a_key_from_a_file_loses_its_newline():
    """Keys are read from files, and files end in a newline."""
    assert ProviderOptions.parse({"api_key": f"{KEY}\n"}).api_key == KEY


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"temprature": 1}, "'temprature' does not exist: did you mean 'temperature'"),
        ({"zzzzzzz": 1}, "known are api_key, base_url"),
        ({"api_key": 5}, "a text or a function"),
        ({"api_key": "  "}, "got an empty text"),
        ({"api_key": "schlüssel"}, "no header can carry"),
        ({"base_url": "127.0.0.1:8080"}, "http:// or https://"),
        ({"base_url": "ftp://host/"}, "http:// or https://"),
        ({"base_url": "http://"}, "http:// or https://"),
        ({"base_url": "http://host/v1?x=1"}, "without a query"),
        ({"base_url": "http://host:99999/"}, "no address"),
        ({"base_url": 5}, "got int"),
        ({"headers": ["x"]}, "a mapping"),
        ({"headers": {"bad name": "x"}}, "no header name"),
        ({"headers": {"x-ok": "two\nlines"}}, "printable ASCII"),
        ({"timeout": 0}, "above 0"),
        ({"timeout": float("nan")}, "above 0"),
        ({"temperature": "hot"}, "a number from 0 to 2"),
        ({"temperature": True}, "a number from 0 to 2"),
        ({"top_p": 1.5}, "a number from 0 to 1"),
        ({"stop": ["", "x"]}, "none of them empty"),
        ({"max_output_tokens": 1.5}, "number of tokens"),
        ({"reasoning": "much"}, "off, low, medium, high"),
        ({"reasoning": 0}, "number of tokens"),
        ({"tool_choice": ""}, "auto, none, required"),
        ({"extra_body": {1: 2}}, "texts as keys"),
        ({"verify": 3}, "path of a file"),
        ({"trust_env": "yes"}, "True or False"),
    ],
)
def test_each_fault_says_what_was_expected(options, words):
    """Unknown names come with the nearest one, unfit values with what would fit."""
    with pytest.raises(OptionError) as caught:
        ProviderOptions.parse(options)
    assert words in str(caught.value)


def test_all_faults_come_at_once():
    """Nobody has to try three times."""
    with pytest.raises(OptionError) as caught:
        ProviderOptions.parse({"timeout": -1, "tool_choise": "auto", "top_p": 7, "temperature": 1})
    assert len(caught.value.faults) == 3


def test_no_key_is_ever_shown():
    """Neither in a repr, nor in a fault about it, nor when it stands in the address."""
    assert KEY not in repr(ProviderOptions.parse({"api_key": KEY, "headers": {"x-api-key": KEY}}))
    for options in (
        {"base_url": f"https://user:{KEY}@host/"},
        {"api_key": f"{KEY} ü"},
        {"headers": {"x": f"{KEY}\n"}},
    ):
        with pytest.raises(OptionError) as caught:
            ProviderOptions.parse(options)
        assert KEY not in str(caught.value)
