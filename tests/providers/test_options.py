"""Options are read or refused, all at once, and nothing that is accepted is ignored (7.2, 7.14)."""

import importlib.util

import pytest
from attrs import fields_dict

from agentrail.abc import Secret, model_policy_of
from agentrail.core.policy.budget import Price
from agentrail.core.policy.model_policy import ModelPolicy
from agentrail.errors import OptionError
from agentrail.providers.demo import Demo
from agentrail.providers.http import HttpClients
from agentrail.providers.http_provider import make_post
from agentrail.providers.options import ProviderOptions
from agentrail.providers.vendors import AnthropicMessages, OpenAIChat, OpenAIResponses
from tests.providers.transcripts import KEY, VENDOR

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
    "structured": "tool",
    "images": False,
    "http2": False,
    "stall_policy": "retry",
    "stall_seconds": 30,
    "max_retries": 0,
    "context_window": 32_000,
    "price": {"input": 0.5, "output": 2, "cache_read": None},
}


def test_every_option_is_read():
    """The mapping that people write becomes the value, tidied; and this test knows every option."""
    options = ProviderOptions.parse(GOOD)
    assert set(GOOD) == set(fields_dict(ProviderOptions))
    assert options.base_url == "http://127.0.0.1:8080/v1"
    assert options.headers == {"x-team": "blue", "accept": None}
    assert options.stop == ("END",)
    assert (options.timeout, options.verify, options.extra_body) == (30, False, {"seed": 1})


def test_what_the_session_decides_by_is_handed_on():
    """Retries, stalls, window and price are decided in the session: providers only carry the value to it."""
    policy = ModelPolicy(
        timeout_seconds=30,
        stall_policy="retry",
        stall_seconds=30,
        max_retries=0,
        context_window=32_000,
        price=Price(input=0.5, output=2),
    )
    assert ProviderOptions.parse(GOOD).model_policy == policy
    assert ProviderOptions().model_policy == ModelPolicy()
    without_stop = {name: value for name, value in GOOD.items() if name != "stop"}
    for provider in (
        AnthropicMessages(ProviderOptions.parse(GOOD), HttpClients()),
        OpenAIChat(ProviderOptions.parse(GOOD), HttpClients()),
        OpenAIResponses(ProviderOptions.parse(without_stop), HttpClients()),
    ):
        assert model_policy_of(provider) == policy
        assert provider.capabilities("some-model").context_window == 32_000


def test_a_provider_that_says_nothing_leaves_the_defaults():
    """Such as one that was written for a test."""
    assert model_policy_of(Demo()) == ModelPolicy()


def test_a_price_may_be_the_value_itself():
    """In a program it is one, in a file it is a mapping."""
    assert ProviderOptions.parse({"price": Price(input=0, output=0)}).price == Price(input=0, output=0)


def test_http2_says_what_is_missing(monkeypatch):
    """It needs a package that is not always there."""
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    with pytest.raises(OptionError, match=r"pip install .*\[http2\]"):
        ProviderOptions.parse({"http2": True})
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: object())
    assert ProviderOptions.parse({"http2": True}).http2


def test_how_a_connection_is_made_travels_with_the_request(monkeypatch):
    """Certificates, proxies and HTTP/2 are the client's business, and it is chosen by what the request says of them."""
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: object())
    options = ProviderOptions.parse(
        {"verify": False, "trust_env": False, "http2": True, "headers": {"x-a": "b"}}
    )
    post = make_post(options, url="http://h/", headers={"x-key": "k"}, body=b"", vendor=VENDOR)
    assert (post.verify, post.trust_env, post.http2) == (False, False, True)
    assert {"x-a": "b", "x-key": "k"}.items() <= post.headers.items()


def test_nothing_given_is_the_defaults():
    """None is the same as not given."""
    assert ProviderOptions.parse(dict.fromkeys(GOOD)) == ProviderOptions.parse({}) == ProviderOptions()


def test_one_text_to_stop_at_is_enough():
    """A single text is a list of one."""
    assert ProviderOptions.parse({"stop": "END"}).stop == ("END",)


def test_a_key_from_a_file_loses_its_newline():
    """Keys are read from files, and files end in a newline."""
    for key in (f"{KEY}\n", Secret(f" {KEY}")):
        assert ProviderOptions.parse({"api_key": key}).api_key == Secret(KEY)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"temprature": 1}, "'temprature' does not exist: did you mean 'temperature'"),
        ({"zzzzzzz": 1}, "known are api_key, base_url"),
        ({"api_key": 5}, "a text, a Secret, or a function"),
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
        ({"http2": 1}, "True or False"),
        ({"stall_policy": "wait"}, "abort, retry or report"),
        ({"stall_seconds": 0}, "above 0"),
        ({"max_retries": -1}, "a number of retries from 0"),
        ({"max_retries": True}, "a number of retries from 0"),
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


def test_all_faults_come_at_once():
    """Nobody has to try three times."""
    with pytest.raises(OptionError) as caught:
        ProviderOptions.parse({"timeout": -1, "tool_choise": "auto", "top_p": 7, "temperature": 1})
    assert len(caught.value.faults) == 3


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
