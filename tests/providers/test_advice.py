"""What the user did, and what the advice must name: each row of the table, as a server of this machine or the machine itself brings it up (14.2)."""

import json
import re
import string
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from socket import gaierror
from typing import Any

import pytest
import trio
from attrs import frozen

import agentrail
from agentrail.app import make_provider
from agentrail.cli.exit_codes import describe_failure
from agentrail.errors import ErrorInfo, OptionError, ProviderError
from agentrail.errors.advice import WHAT_TO_DO, Advice, setting
from agentrail.providers.http import HttpClients
from agentrail.providers.options import ProviderOptions
from agentrail.testing.check_provider import ServedReply, open_server, reply, stream
from tests.providers.transcripts import KEY, request_of, tls
from tests.slowness import slowness
from tests.thinned import each

ANTHROPICS = "sk-ant-api03-0123456789abcdef"


def refusal(status: str, code: str | None = None, message: str = "no", **fields: Any) -> ServedReply:
    """What a server answers that speaks a format of OpenAI's."""
    body = {"error": {"message": message, "type": None, "code": code, **fields}}
    return reply(json.dumps(body), status=status, kind="application/json")


def page(status: str, title: str, **headers: str) -> ServedReply:
    text = (
        f"<!DOCTYPE html>\n<html><head><TITLE>\n{title}\n</TITLE></head><body><h1>{title}</h1></body></html>"
    )
    return reply(text, status=status, kind="text/html; charset=utf-8", **headers)


def plain(status: str, text: str) -> ServedReply:
    """What some servers answer to what they do not know."""
    return reply(text, status=status, kind="text/plain")


@frozen
class Row:
    """One thing that people do; `names`, and `never`, between bars, is what the message must name, and must not say."""

    did: str
    advice: Advice
    answer: ServedReply
    names: str
    never: str = ""
    model: str = "openai-chat:some-model"
    path: str = "/v1"
    key: str | None = KEY


def no_credit(did: str, answer: ServedReply, **fields: Any) -> Row:
    """One that has nothing left to pay with."""
    return Row(did, Advice.NO_CREDIT, answer, "credit|billing", "key|try again|correct|--model", **fields)


QUOTA = "You exceeded your current quota, please check your plan and billing details."
QUOTA_EVENT = b'data: {"error": {"message": "no", "code": "insufficient_quota"}}\n\n'
LOW = "Your credit balance is too low to access."
TITLE = "Sign in – Example &amp; Sons"
NOT_FOUND = "404 page not found"
PULL = 'model "llama9" not found, try pulling it first'
NO_TOOLS = "registry.ollama.ai/library/gemma:2b does not support tools"
NO_ENDPOINTS = 'No endpoints found that support tool use. Try disabling "edit_file".'
COUNTRY = "unsupported_country_region_territory"
TEMPERATURE = "Unsupported value: 'temperature' does not support 0.2 with this model."
TOO_LONG = refusal("400 No", "context_length_exceeded", "maximum context length is 8192 tokens")
MOVED = "https://new.example/api/v1/chat/completions"
CLAUDE: dict[str, Any] = {"model": "anthropic:claude", "path": ""}
ROWS = [
    no_credit(
        "has no quota at OpenAI", refusal("429 No", "insufficient_quota", QUOTA, type="insufficient_quota")
    ),
    no_credit("has no quota, by the type alone", refusal("429 No", type="insufficient_quota")),
    no_credit("has a hard limit", refusal("429 No", "billing_hard_limit_reached")),
    no_credit("has no balance elsewhere", refusal("402 Payment Required")),
    no_credit(
        "has no credit at Anthropic",
        refusal("400 No", type="invalid_request_error", message=LOW),
        model="anthropic:claude",
    ),
    no_credit("has no credit, and hears of it after a 200", stream(QUOTA_EVENT, ends=True)),
    Row(
        "leaves out /v1, and the server says so in words",
        Advice.NO_VERSION,
        plain("404 Not Found", NOT_FOUND),
        '/v1|--base-url {url}/v1|provider_opts={{"base_url": "{url}/v1"}}',
        "after the colon",
        path="",
    ),
    Row(
        "leaves out /v1, and the server says so in JSON of its own",
        Advice.NO_VERSION,
        reply('{"detail":"Not Found"}', status="404 Not Found", kind="application/json"),
        "--base-url {url}/openai/v1",
        path="/openai",
    ),
    Row(
        "leaves out /v1, and the server says so in the words of the format",
        Advice.NO_VERSION,
        refusal("404 Not Found", message="File Not Found", type="not_found_error"),
        "--base-url {url}/v1|after the colon",
        path="",
    ),
    Row(
        "leaves out /v1 behind a web server",
        Advice.NO_VERSION,
        page("404 Not Found", "404 Not Found"),
        "--base-url {url}/v1|'404 Not Found'",
        path="/",
    ),
    Row(
        "asks a server for Responses that has none",
        Advice.NO_RESPONSES,
        plain("404 Not Found", NOT_FOUND),
        "openai-chat:",
        "--base-url",
        model="openai:some-model",
    ),
    *(
        Row(
            f"names the address of before a move ({status})",
            Advice.REDIRECT,
            page(f"{status} Moved", "Moved", location=MOVED),
            f"redirects to {MOVED}|--base-url https://new.example/api/v1 |not followed",
            "Moved",
        )
        for status in (301, 302, 303, 307, 308)
    ),
    Row(
        "is sent to a login",
        Advice.REDIRECT,
        reply("", status="302 Found", location="/login?to=/v1/chat/completions"),
        "redirects to /login?to=|{url}/login is|not followed",
    ),
    Row(
        "is sent nowhere",
        Advice.REDIRECT_NOWHERE,
        reply("", status="302 Found"),
        "base_url|--base-url|not followed",
    ),
    Row(
        "is sent to what is no address",
        Advice.REDIRECT_NOWHERE,
        reply("", status="302 Found", location="http://[half"),
        "not followed",
    ),
    *(
        Row(
            f"gets the page of a login ({status})",
            Advice.WEB_PAGE,
            page(status, TITLE),
            "a web page, 'Sign in – Example & Sons'|--base-url|proxy|login",
            "<|key",
        )
        for status in ("200 OK", "401 Unauthorized", "403 Forbidden")
    ),
    Row(
        "gets a page with a long title",
        Advice.WEB_PAGE,
        page("200 OK", "x" * 5_000),
        "'" + "x" * 200 + "…'",
        "x" * 201 + "|<",
    ),
    Row(
        "gets a page without a title",
        Advice.WEB_PAGE,
        reply("<html><body>Please log in</body></html>", kind="text/html"),
        "Please log in|--base-url",
    ),
    Row(
        "gets a page of another vendor's model list",
        Advice.WEB_PAGE,
        page("404 Not Found", "Not Found"),
        "'Not Found'",
        **CLAUDE,
    ),
    Row(
        "names a server of another kind",
        Advice.OTHER_FORMAT,
        plain("200 OK", "It works!"),
        "It works!|--base-url|speaks this format",
    ),
    Row(
        "has a slip in the model at a vendor",
        Advice.MODEL_UNKNOWN,
        refusal("404 Not Found", type="not_found_error", message="model: claude-sonet"),
        "claude-sonet|after the colon|--model",
        **{**CLAUDE, "model": "anthropic:claude-sonet"},
    ),
    Row(
        "has a slip in the model, and hears of it with another status",
        Advice.MODEL_NOT_SERVED,
        refusal("400 Bad Request", "model_not_found"),
        "after the colon",
    ),
    Row(
        "has a slip in the model at a server of one's own",
        Advice.MODEL_NOT_SERVED,
        refusal("404 Not Found", message=PULL),
        "llama9|{url}/v1/models|ollama pull",
        "base_url lacks the /v1 at its end that compatible servers need:",
    ),
    Row(
        "has a slip in the model, and the server is sure of it",
        Advice.MODEL_NOT_SERVED,
        refusal("404 Not Found", "model_not_found"),
        "after the colon",
        "/v1",
        path="",
    ),
    Row(
        "has a wrong key",
        Advice.WRONG_KEY,
        refusal("401 Unauthorized", type="authentication_error", message="invalid x-api-key"),
        "correct the key|ANTHROPIC_API_KEY|'api_key'",
        "credit",
        **CLAUDE,
    ),
    Row(
        "has no key for a server that wants one",
        Advice.KEY_WANTED,
        refusal("401 Unauthorized", message="Missing bearer token"),
        "wants a key|OPENAI_API_KEY|'api_key'",
        "correct",
        key=None,
    ),
    Row(
        "gives one vendor the key of another",
        Advice.KEY_OF_ANOTHER,
        refusal("401 Unauthorized", "invalid_api_key", f"Incorrect API key provided: {ANTHROPICS}"),
        "Anthropic|OPENAI_API_KEY|anthropic:…",
        "sk-ant",
        model="openai:gpt-5",
        key=ANTHROPICS,
    ),
    Row(
        "gives tools to a model of Ollama that takes none",
        Advice.NO_TOOLS,
        refusal("400 Bad Request", type="api_error", message=NO_TOOLS),
        "gemma:2b|--tools none|tools=[]",
        "try again|correct",
    ),
    Row(
        "gives tools to a model of which no server takes any",
        Advice.NO_TOOLS,
        refusal("404 Not Found", message=NO_ENDPOINTS),
        "--tools none",
        "after the colon",
    ),
    Row(
        "asks OpenAI from a country that it does not serve",
        Advice.REGION,
        refusal("403 Forbidden", COUNTRY, "Country, region, or territory not supported"),
        "country or region|another vendor",
        "correct the key|try again",
    ),
    Row(
        "asks Gemini from a country that it does not serve",
        Advice.REGION,
        refusal("400 Bad Request", message="User location is not supported for the API use."),
        "country or region",
        "correct the key",
        model="google:gemini-3",
        path="",
    ),
    Row(
        "sets an option that the model does not take",
        Advice.OPTION_REFUSED,
        refusal("400 Bad Request", "unsupported_value", TEMPERATURE, param="temperature"),
        'omit temperature|--opt temperature=…|{{"temperature": …}}',
        "try again|key",
    ),
    Row(
        "sets an option that the model no longer takes",
        Advice.OPTION_REFUSED,
        refusal("400 No", type="invalid_request_error", message="`top_p` is deprecated for this model."),
        "omit top_p",
        **CLAUDE,
    ),
    Row(
        "asks for more output than the model writes",
        Advice.OPTION_REFUSED,
        refusal("400 No", "unsupported_parameter", "Unsupported", param="max_completion_tokens"),
        "--opt max_output_tokens=…",
    ),
    Row(
        "comes at a bad moment",
        Advice.PASSING,
        refusal("503 Service Unavailable", message="The engine is overloaded"),
        "try again in a minute|another model",
        "correct|key",
    ),
    Row(
        "comes too often",
        Advice.PASSING,
        refusal("429 Too Many Requests", "rate_limit_exceeded", "Rate limit reached"),
        "try again in a minute",
    ),
    Row(
        "meets a page of a proxy whose server is away",
        Advice.PASSING,
        page("502 Bad Gateway", "502 Bad Gateway"),
        "502 Bad Gateway|try again in a minute",
        "correct the key",
    ),
    Row(
        "says too much",
        Advice.WINDOW_FULL,
        TOO_LONG,
        '8192|larger window|--opt context_window=…|{{"context_window": …}}',
    ),
]


async def ask(model: str, url: str | None, key: str | None, http: HttpClients, **options: Any) -> ErrorInfo:
    """Ask once, and give the error as a session publishes it."""
    opts = {"api_key": key, **options, **({} if url is None else {"base_url": url})}
    provider = make_provider(model, opts, http=http, environ={})
    with pytest.raises(ProviderError) as caught, trio.fail_after(60):  # noqa: PT012 - entered, or read
        async with provider.open_stream(request_of("Hi", model=model)) as chunks:
            async for _ in chunks:
                pass
    return ErrorInfo.of(caught.value)


def fixed_words(row: Advice) -> str:
    """The longest piece of advice that is the same each time."""
    return max((text for text, *_ in string.Formatter().parse(row.words)), key=len)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.did)
async def test_the_advice_names_it(row):
    """The message says what to do, once, in the library's words and with the command's; the command adds nothing."""
    async with open_server(row.answer) as server, HttpClients() as http:
        error = await ask(row.model, f"{server.url}{row.path}", row.key, http)
    said = describe_failure(error)
    assert fixed_words(row.advice) in error.message
    assert said == f"{error.message.rstrip('.')}."
    assert said.count(WHAT_TO_DO) == 1
    for name in row.names.split("|"):
        assert name.format(url=server.url) in said, said
    for name in filter(None, row.never.split("|")):
        assert name not in said
    assert row.key is None or row.key not in said
    assert len(server.requests) == 1
    # A title of a page, and two cures at once, take more.
    if row.advice not in {Advice.WEB_PAGE, Advice.NO_VERSION}:
        assert len(f"the cycle failed ({error.code}): {error.message}") <= 400


async def closed_port() -> str:
    """Give an address of this machine at which nothing listens."""
    (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
    port = listener.socket.getsockname()[1]
    await listener.aclose()
    return f"127.0.0.1:{port}"


async def test_where_nothing_listens():
    """Is the server running? The address, and the port of Ollama."""
    where = await closed_port()
    async with HttpClients() as http:
        error = await ask("openai-chat:x", f"http://{where}/v1", None, http)
    said = describe_failure(error)
    assert error.retryable
    for name in (f"http://{where}/v1", "check that the server is running", "11434", "--base-url"):
        assert name in said
    assert fixed_words(Advice.REFUSED) in said


@pytest.mark.parametrize(
    "model", ["openai:gpt-5", "openai-chat:gpt-5", "anthropic:claude", "google:gemini-3"]
)
@pytest.mark.parametrize(
    "error",
    [gaierror(-3, "Temporary failure in name resolution"), OSError("no route"), ConnectionRefusedError()],
)
async def test_without_a_network_nobody_is_sent_to_an_address_that_they_did_not_set(
    monkeypatch, mock_clock, model, error
):
    """The vendor's own host was asked: it is the network, and not a base_url. The clock stands still, so that no deadline comes first."""

    async def fail(*_args, **_options):
        await trio.lowlevel.checkpoint()
        raise type(error)(*error.args)

    monkeypatch.setattr(trio, "open_tcp_stream", fail)
    async with HttpClients() as http:
        failure = await ask(model, None, KEY, http)
    assert fixed_words(Advice.NO_NETWORK) in failure.message
    assert re.search(r"check that this machine is online: (api|generativelanguage)\.", failure.message)
    assert "right?" not in failure.message
    assert "demo:" in failure.message


@asynccontextmanager
async def speaking_no_tls() -> AsyncIterator[str]:
    """Answer whatever comes as an HTTP server does that was not spoken to in HTTP."""

    async def answer(stream: trio.SocketStream) -> None:
        async with stream:
            await stream.receive_some()
            await stream.send_all(b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n")

    async with trio.open_nursery() as nursery:
        listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
        nursery.start_soon(partial(trio.serve_listeners, answer, listeners))
        yield f"127.0.0.1:{listeners[0].socket.getsockname()[1]}"
        nursery.cancel_scope.cancel()


async def test_what_stands_between_here_and_the_server(monkeypatch):
    """http:// where no TLS is spoken; the option that names an authority; the variables that name a proxy, and the option that leaves them out."""
    async with speaking_no_tls() as where, HttpClients() as http:
        error = await ask("openai-chat:x", f"https://{where}/v1", None, http, verify=False)
    assert fixed_words(Advice.NO_TLS) in error.message
    assert "http:// in base_url" in error.message

    async with open_server(reply(""), tls=tls()) as server, HttpClients() as http:
        error = await ask("openai-chat:x", f"{server.url}/v1", None, http)
    assert not error.retryable
    assert "a certificate that is not trusted" in error.message
    assert setting("verify", "/path/to/authority.pem") in error.message

    async with open_server(plain("403 Forbidden", "no")) as proxy, HttpClients() as http:
        monkeypatch.setenv("HTTPS_PROXY", proxy.url)
        error = await ask("openai-chat:x", "https://models.example/v1", None, http)
    assert proxy.requests[0][0].startswith(b"CONNECT models.example:443 ")
    assert fixed_words(Advice.PROXY) in error.message
    assert setting("trust_env", False) in error.message  # noqa: FBT003 - the value of an option


@pytest.mark.parametrize(
    "proxy", ["http://me:pass#word@proxy:3128", "ftp://me:password@proxy", "socks5://proxy:1080"]
)
async def test_an_unusable_proxy_variable_is_named_and_its_password_is_not(proxy, monkeypatch):
    """The HTTP library refuses it before any connection, with an exception that quotes a part of it."""
    monkeypatch.setenv("HTTPS_PROXY", proxy)
    monkeypatch.setitem(sys.modules, "socksio", None)
    async with HttpClients() as http:
        error = await ask("openai-chat:x", "https://models.example/v1", None, http)
    assert not error.retryable
    assert fixed_words(Advice.PROXY) in error.message
    assert "pass" not in error.message


async def test_a_file_of_authorities_that_cannot_be_read_is_reported(tmp_path):
    """It may have been deleted since the option was accepted."""
    async with HttpClients() as http:
        error = await ask("openai-chat:x", "https://127.0.0.1:1/v1", None, http, verify=f"{tmp_path}/no.pem")
    assert not error.retryable
    assert "the file in verify cannot be read: No such file" in error.message
    assert setting("verify", "/path/to/authority.pem") in error.message


@each(
    ("url", "call", "better"),
    [
        ("https://api.openai.com/v1/chat/completions", "/chat/completions", "https://api.openai.com/v1"),
        ("http://localhost:11434/v1/chat/completions/", "/chat/completions", "http://localhost:11434/v1"),
        ("https://api.openai.com/v1/completions", "/completions", "https://api.openai.com/v1"),
        ("https://api.openai.com/v1/responses", "/responses", "https://api.openai.com/v1"),
        ("https://api.anthropic.com/v1/messages", "/messages", "https://api.anthropic.com/v1"),
        ("http://127.0.0.1:8080/messages", "/messages", "http://127.0.0.1:8080"),
    ],
)
def test_an_address_of_a_call_is_refused(url, call, better):
    """What is to be left out, and what is left then; a format would add it a second time."""
    with pytest.raises(OptionError) as caught:
        ProviderOptions.parse({"base_url": url})
    (fault,) = caught.value.faults
    assert fault.startswith(
        f"provider option 'base_url': {url.rstrip('/')!r} is the address of an endpoint, not a base URL: "
    )
    assert f"remove {call!r}" in fault
    assert fault.endswith(repr(better))


@each(
    ("model", "meant"),
    [
        ("gpt-5", "openai:gpt-5"),
        ("o3-mini", "openai:o3-mini"),
        ("chatgpt-4o-latest", "openai:chatgpt-4o-latest"),
        ("claude-sonnet-4-5", "anthropic:claude-sonnet-4-5"),
        ("cluade-sonnet-4-5", "anthropic:claude-sonnet-4-5"),
        ("gtp-5-mini", "openai:gpt-5-mini"),
        ("gemini-2.5-flash", "google:gemini-2.5-flash"),
        ("claude", "anthropic:claude-sonnet-4-5"),
        ("llama3.2", "openai-chat:llama3.2"),
        ("gpt-oss", "openai-chat:gpt-oss"),
        ("meta-llama/Llama-3.1-8B-Instruct", "openai-chat:meta-llama/Llama-3.1-8B-Instruct"),
        ("anthropic/claude-x", "anthropic:claude-x"),
        ("demo", "demo:"),
    ],
)
def test_a_model_without_its_provider(model, meant):
    """The provider that likely has it."""
    with pytest.raises(ProviderError) as caught:
        make_provider(model, {}, http=HttpClients(), environ={})
    assert f"{model!r} is not a model string" in str(caught.value)
    assert Advice.MODEL_WITHOUT_PROVIDER.words.format(model=meant) in str(caught.value)


@each(
    ("model", "meant"),
    [
        ("anthropc:x", "'anthropic:x'?"),
        ("claude:claude-sonnet-4-5", "'anthropic:claude-sonnet-4-5'?"),
        ("gemini:gemini-2.5-pro", "'google:gemini-2.5-pro'?"),
        ("ollama:llama3.2", "'openai-chat:llama3.2' with base_url http://localhost:11434/v1 (--base-url"),
        ("llama3.2:3b", "'openai-chat:llama3.2:3b'?"),
        ("gpt-5:latest", "'openai:gpt-5:latest'?"),
    ],
)
def test_a_provider_that_does_not_exist(model, meant):
    """The one that is likely meant, and those that can be typed: no `scripted`, and `registry` only where there are profiles."""
    with pytest.raises(ProviderError) as caught:
        make_provider(model, {}, http=HttpClients(), environ={})
    assert f"there is no provider {model.partition(':')[0]!r}. Did you mean {meant}" in str(caught.value)
    listed = re.search(r"Providers are (.*), as in", str(caught.value))
    assert listed is not None
    assert listed[1] == "anthropic, demo, google, openai, openai-chat"


async def test_of_what_nothing_is_known_nothing_is_guessed():
    """A wrong guess costs more than none. Where there are profiles, `registry` can be typed, and is listed."""
    for model in ("nonsense", "nonsense:x", "", ":x", "x" * 10_000):
        with pytest.raises(ProviderError) as caught:
            make_provider(model, {}, http=HttpClients(), environ={})
        assert "Did you mean" not in str(caught.value)
        assert "Providers are anthropic, demo, google, openai, openai-chat, as in" in str(caught.value)
    async with agentrail.open_supervisor(environ={}) as supervisor:
        supervisor.providers.register("eu", opts={"base_url": "http://127.0.0.1:9/v1"})
        with pytest.raises(ProviderError, match="openai, openai-chat, registry, as in"):
            await supervisor.start_session(model="nonsense:x")


@pytest.mark.parametrize(
    ("model", "key", "owner"),
    [
        ("openai:gpt-5", ANTHROPICS, "Anthropic"),
        ("openai-chat:gpt-5", "gsk_0123456789abcdef", "Groq"),
        ("anthropic:x", "sk-proj-0123456789abcdef", "OpenAI"),
        ("google:x", "sk-or-v1-0123456789abcdef", "OpenRouter"),
    ],
)
async def test_the_key_of_another_vendor_is_not_sent(model, key, owner):
    """The vendor that is asked would have read it."""
    async with HttpClients() as http:
        error = await ask(model, VENDORS[model.partition(":")[0]], key, http)
        assert http.statistics().requests == 0
    assert error.code == "authentication"
    assert f"the key looks like one of {owner}, but this is {model.partition(':')[0]}" in error.message
    assert key[:7] not in error.message


VENDORS = {
    "anthropic": "https://api.anthropic.com",
    "google": "https://generativelanguage.googleapis.com",
    "openai": "https://api.openai.com/v1",
    "openai-chat": "https://api.openai.com/v1",
}


@pytest.mark.parametrize("key", ["gsk_0123456789abcdef", "sk-or-v1-0123456789abcdef", ANTHROPICS])
async def test_a_server_that_speaks_a_format_may_take_any_key(key):
    """Many do: it is sent, and a key of a vendor that has a provider of its own is named when it is refused."""
    async with open_server(refusal("401 Unauthorized")) as server, HttpClients() as http:
        error = await ask("openai-chat:x", f"{server.url}/v1", key, http)
    assert len(server.requests) == 1
    assert ("Anthropic" in error.message) is (key == ANTHROPICS)
    assert ("correct the key" in error.message) is (key != ANTHROPICS)


def test_every_row_is_held():
    """By a server above, or by a test of its own below it."""
    apart = {
        *(Advice.REFUSED, Advice.NO_SUCH_HOST, Advice.NO_TLS, Advice.CERTIFICATE, Advice.PROXY),
        *(Advice.UNREACHABLE, Advice.NO_ANSWER, Advice.STALLED, Advice.CALL_IN_URL, Advice.NO_KEY),
        *(Advice.MODEL_WITHOUT_PROVIDER, Advice.PROVIDER_UNKNOWN, Advice.NO_NETWORK, Advice.EMPTY),
    }
    assert {row.advice for row in ROWS} | apart == set(Advice)
    assert len({row.cause for row in Advice}) == len(Advice)


async def test_a_body_that_was_made_to_be_read_for_ever_is_read_once():
    """Half a megabyte of beginnings without an end is looked at in passing."""
    body = "<html>" + "<title" * 10_000 + "<title>" * 10_000 + "<!--" * 10_000
    async with open_server(reply(body, kind="text/html")) as server, HttpClients() as http:
        began_at = time.thread_time()
        error = await ask("openai-chat:x", f"{server.url}/v1", KEY, http)
        assert time.thread_time() - began_at < 2 * slowness()
    assert fixed_words(Advice.WEB_PAGE) in error.message
