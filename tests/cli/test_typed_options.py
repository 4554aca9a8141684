"""`--opt key=value`: every option of a provider, read as what it is; and what people type wrong."""

import pytest

from agentrail.abc import Secret
from agentrail.app import ChosenModel
from agentrail.cli.run_options import Choices
from agentrail.cli.run_setup import READERS, decide_provider_options, decide_session, read_options
from agentrail.core.policy.budget import Price
from agentrail.errors import OptionError
from agentrail.providers.options import ProviderOptions
from tests.cli.rig import run_line

KEY = "sk-a-key-that-nobody-may-see"

TYPED = {
    f"api_key={KEY}": Secret(KEY),
    "base_url=http://127.0.0.1:8080/v1": "http://127.0.0.1:8080/v1",
    'headers={"x-team": "blue", "accept": null}': {"x-team": "blue", "accept": None},
    "timeout=30": 30,
    "temperature=0.5": 0.5,
    "top_p=1": 1,
    'stop=["END", "STOP"]': ("END", "STOP"),
    "max_output_tokens=100": 100,
    "reasoning=low": "low",
    "tool_choice=required": "required",
    'extra_body={"seed": 1}': {"seed": 1},
    "verify=false": False,
    "trust_env=no": False,
    "structured=tool": "tool",
    "images=off": False,
    "http2=0": False,
    "stall_policy=retry": "retry",
    "stall_seconds=0.25": 0.25,
    "max_retries=0": 0,
    "context_window=32000": 32_000,
    'price={"input": 0.5, "output": 2}': Price(input=0.5, output=2),
}


def test_every_option_can_be_typed():
    """As text, number, truth or JSON, whatever it is; the provider takes what was read, and none is left out."""
    options = {field.name for field in ProviderOptions.__attrs_attrs__}
    assert {typed.partition("=")[0] for typed in TYPED} == set(READERS) == options
    for typed, value in TYPED.items():
        name = typed.partition("=")[0]
        read = read_options([typed], {})
        assert list(read) == [name]
        assert getattr(ProviderOptions.parse(read), name) == value


def test_some_options_are_several_things():
    """Blanks around a name and a value do no harm, and a value may hold another `=`."""
    for typed, value in (
        ("stop=END", "END"),
        ("stop=a=b", "a=b"),
        ("reasoning=2048", 2048),
        ("verify=/path/ca.pem", "/path/ca.pem"),
        ("verify=TRUE", True),
        (" timeout = 30 ", 30),
        ("timeout=1e2", 100.0),
        ("tool_choice=read_file", "read_file"),
    ):
        assert [*read_options([typed], {}).values()] == [value], typed


WRONG = (
    ("stall_seconds", "--opt stall_seconds has no '=': expected key=value, such as stall_seconds=60"),
    ("", "--opt number 1 has no '='"),
    ("=60", "--opt number 1 has no name before the '='"),
    ("stall_second=60", "--opt 'stall_second' is not a provider option: did you mean 'stall_seconds'?"),
    ("zzz=1", "--opt 'zzz' is not a provider option: expected one of api_key, base_url"),
    ("timeout=soon", "--opt timeout: expected a number, got 'soon'"),
    ("timeout=", "--opt timeout: expected a number, got ''"),
    ("timeout=+-3", "--opt timeout: expected a number, got '+-3'"),
    ("max_retries=1.5", "--opt max_retries: expected a whole number, got '1.5'"),
    ("max_output_tokens=" + "9" * 5_000, "expected a whole number"),
    ("reasoning=" + "9" * 5_000, "expected a whole number"),
    ("images=perhaps", "--opt images: expected true or false, got 'perhaps'"),
    ("headers=x-team: blue", "--opt headers: expected a JSON object in quotes"),
    ('headers=["x"]', "--opt headers: expected a JSON object in quotes"),
    ("extra_body=" + "[" * 100_000, "--opt extra_body: expected a JSON object in quotes"),
    ('stop=["END"', "--opt stop: expected a text, or a JSON list in quotes"),
    ("timeout=0", "provider option 'timeout': expected a number of seconds above 0, got 0"),
    ("timeout=nan", "provider option 'timeout': expected a number of seconds above 0, got nan"),
    ("stall_policy=wait", "provider option 'stall_policy': expected abort, retry or report, got 'wait'"),
    ("api_key=", "provider option 'api_key': expected a key, got an empty text"),
    ("base_url=localhost:1", "provider option 'base_url': expected an address with http"),
    ('price={"input": 1}', "provider option 'price': expected a Price, or a mapping"),
)


def refused(*typed):
    """What is said of options that are wrong, which is never a key: it would stand in what is sent to those who are asked for help."""
    with pytest.raises(OptionError) as caught:
        read_options(typed, {})
    assert KEY not in str(caught.value)
    return caught.value


def test_what_is_typed_wrong_is_said_all_at_once_and_without_a_key():
    """What was expected and what came; nobody has to try three times."""
    for typed, words in WRONG:
        assert words in str(refused(typed)), typed[:40]
    assert "--opt number 2 has no '=': expected key=value" in str(refused("timeout=1", KEY))
    for first in ("timeout=1", "timeout=x"):
        assert "--opt timeout is given twice: leave one out" in str(refused(first, "timeout=2"))
    assert len(refused("timeout", "temprature=1", "images=x", "timeout=1", "timeout=2").faults) == 4
    for typed in (f"headers={KEY}", f"extra_body={KEY}", f"api_key={KEY} ü", KEY):
        refused(typed)
    assert KEY not in repr(decide_provider_options(Choices(opt=(f"api_key={KEY}",))))


def test_what_was_typed_reaches_the_session():
    """Beside what has a switch of its own; what is given by both is refused, whichever would be meant."""
    choices = Choices(base_url="http://localhost:1/v1", opt=("stall_seconds=60", "temperature=0"))
    options = decide_session(choices, ChosenModel(model="openai-chat:x", why="--model"))
    assert options.provider_opts == {
        "base_url": "http://localhost:1/v1",
        "stall_seconds": 60,
        "temperature": 0,
    }
    with pytest.raises(
        OptionError, match="--opt base_url is given twice, here and by --base-url: leave one out"
    ):
        decide_provider_options(Choices(base_url="http://localhost:1", opt=("base_url=http://localhost:2",)))


async def test_a_wrong_option_starts_nothing_and_the_help_says_how():
    """Exit code 2 and a sentence, with either command; `demo:` takes none at all."""
    for command in ("run Hi", "chat"):
        for typed, model, words in (
            ("timeout", "openai-chat:x", "--opt timeout has no '='"),
            ("tmeout=1", "openai-chat:x", "did you mean 'timeout'?"),
            ("timeout=soon", "openai-chat:x", "--opt timeout: expected a number, got 'soon'"),
            ("timeout=30", "demo:", "demo: takes no provider options, got timeout"),
        ):
            ran = await run_line(f"{command} --model {model} --opt {typed}")
            assert (ran.code, words in ran.err, "Traceback" in ran.err) == (2, True, False)
        ran = await run_line(f"{command.split()[0]} --help")
        told = " ".join(ran.out.replace("│", " ").split())
        assert all(one in told for one in ("--opt", "key=value, such as stall_seconds=60", "--debug"))
        assert not any(one in told for one in ("--empty-opt", "--no-debug"))
