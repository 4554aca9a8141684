"""The composition root: names become adapters, and the environment is read."""

import json
import traceback

import pytest
import trio

import agentrail
from agentrail.app import (
    ASK_WITHIN_SECONDS,
    DEFAULT_MODELS,
    PROVIDERS,
    VARIABLES,
    choose_model,
    list_models,
    make_provider,
    make_sandbox,
    provider_of,
    read_models,
)
from agentrail.errors import (
    Authentication,
    ModelNotFound,
    OptionError,
    ProtocolError,
    ProviderError,
    StoreUnavailable,
    Timeout,
    YourMove,
)
from agentrail.messages import ToolMessage
from agentrail.providers.http import HttpClients
from agentrail.stores.memory import MemoryStore
from agentrail.testing.check_provider import ServedReply, open_server, reply
from agentrail.testing.models import ScriptedModel, calls, says
from agentrail.tools import builtin

KEY = "sk-a-key-that-nobody-may-see"
LOCAL = "http://localhost:1"
LISTED = "Providers are anthropic, demo, google, openai, openai-chat"


def listing(*names: str) -> ServedReply:
    """What `GET /models` answers."""
    return reply(
        json.dumps({"object": "list", "data": [{"id": name} for name in names]}), kind="application/json"
    )


# --- model strings


@pytest.mark.parametrize(
    ("model", "words"),
    [
        ("", "is not a model string, expected provider:name"),
        ("anthropic/claude", "Did you mean 'anthropic:claude'?"),
        ("demo", "Did you mean 'demo:'?"),
        ("nonsense", f"expected provider:name. {LISTED}, as in"),
        ("openai_chat:gpt-5", "there is no provider 'openai_chat'. Did you mean 'openai-chat:gpt-5'?"),
        ("scrypted:x", f"there is no provider 'scrypted'. Did you mean 'scripted:x'? {LISTED}"),
        ("registry:", "lacks a model name: write it after the colon, such as 'registry:PROFILE:MODEL'"),
        ("openai-chat:", "lacks a model name: write it after the colon, such as 'openai-chat:"),
        ("opena:" + "x" * 100_000, "there is no provider 'opena'. Did you mean 'openai:xxx"),
        ("gpt-" + "x" * 100_000, "is not a model string"),
    ],
    ids=lambda value: value[:40],
)
def test_a_model_string_that_names_nothing_gets_the_nearest_and_all_there_are(model, words):
    """A slip is named as what it likely is; else the provider stands before the first colon (7.1). A long one is cut."""
    with pytest.raises(ModelNotFound) as raised:
        provider_of(model)
    assert words in str(raised.value)
    assert len(str(raised.value)) < 1_000
    assert [provider_of(f"{name}:vendor/model:3b") for name in PROVIDERS] == [*PROVIDERS]


@pytest.mark.parametrize(
    ("model", "variable"),
    [
        ("anthropic:x", "ANTHROPIC_API_KEY"),
        ("google:x", "GEMINI_API_KEY"),
        ("openai:x", "OPENAI_API_KEY"),
        ("openai-chat:x", "OPENAI_API_KEY"),
    ],
)
def test_a_missing_key_is_said_before_anything_is_connected(model, variable):
    """The message names the variable, and that `demo:` needs none; an empty variable is a missing one (7.14)."""
    http = HttpClients()
    with pytest.raises(Authentication, match=rf"set {variable}, or try --model demo: which needs none"):
        make_provider(model, {}, http=http, environ={variable: ""})
    assert http.statistics().requests == 0


@pytest.mark.parametrize(
    ("model", "options", "environ", "shown"),
    [
        # A compatible server rarely has a key; one from the options is as good as a variable.
        ("openai:x", {}, {"OPENAI_BASE_URL": f"{LOCAL}/v1"}, f"OpenAIResponses('{LOCAL}/v1')"),
        ("openai-chat:x", {}, {"OPENAI_BASE_URL": f"{LOCAL}/v1"}, f"OpenAIChat('{LOCAL}/v1')"),
        ("anthropic:x", {"api_key": KEY}, {}, "AnthropicMessages('https://api.anthropic"),
        # `GEMINI_API_KEY` counts, else `GOOGLE_API_KEY`; the address has one variable.
        ("google:x", {}, {"GOOGLE_API_KEY": KEY}, "Gemini('https://generativelanguage"),
        (
            "google:x",
            {},
            {"GOOGLE_API_KEY": KEY, "GEMINI_BASE_URL": LOCAL},
            f"Gemini('{LOCAL}/v1beta/models')",
        ),
        # What a session is told wins over what the process was told.
        (
            "google:x",
            {"base_url": LOCAL},
            {"GEMINI_API_KEY": KEY, "GEMINI_BASE_URL": "http://a"},
            f"Gemini('{LOCAL}",
        ),
    ],
)
def test_options_come_before_the_environment(model, options, environ, shown):
    """Keys and addresses are those of the options, else of the first variable that is set; no text shows a key (7.1)."""
    made = repr(make_provider(model, options, http=HttpClients(), environ={"GEMINI_API_KEY": "", **environ}))
    assert made.startswith(shown)
    assert KEY not in made


def test_what_is_wrong_in_the_environment_is_called_by_its_variable():
    """Nobody gave an option here, so nobody would find one; and a bad value that is not used does not count."""
    environ = {"ANTHROPIC_API_KEY": "schlüssel", "ANTHROPIC_BASE_URL": "localhost"}
    with pytest.raises(OptionError) as caught:
        make_provider("anthropic:x", {}, http=HttpClients(), environ=environ)
    assert [fault.partition(":")[0] for fault in caught.value.faults] == [
        "ANTHROPIC_API_KEY",
        "ANTHROPIC_BASE_URL",
    ]
    given = {"api_key": KEY, "base_url": "http://localhost:2"}
    assert make_provider("anthropic:x", given, http=HttpClients(), environ=environ).name == "anthropic"


def test_the_demo_takes_no_options():
    """An option that could do nothing is refused."""
    http = HttpClients()
    for model in ("demo:", "demo:fast"):
        assert make_provider(model, {}, http=http, environ={}).name == "demo"
    with pytest.raises(OptionError, match="demo: takes no provider options, got base_url"):
        make_provider("demo:", {"base_url": "http://localhost"}, http=http, environ={})


# --- which model the command takes


@pytest.mark.parametrize(
    ("environ", "wanted", "model", "why"),
    [
        ({"AGENTRAIL_MODEL": "a:b"}, "demo:", "demo:", "--model"),
        ({"AGENTRAIL_MODEL": "a:b", "ANTHROPIC_API_KEY": "k"}, None, "a:b", "AGENTRAIL_MODEL is set"),
        (
            {"ANTHROPIC_API_KEY": "k", "OPENAI_BASE_URL": "http://localhost:1", "OPENAI_API_KEY": "k"},
            None,
            f"anthropic:{DEFAULT_MODELS['anthropic']}",
            "ANTHROPIC_API_KEY is set",
        ),
        (
            {"OPENAI_API_KEY": "k"},
            None,
            f"openai:{DEFAULT_MODELS['openai']}",
            "OPENAI_API_KEY is set",
        ),
        ({"GEMINI_API_KEY": "k"}, None, f"google:{DEFAULT_MODELS['google']}", "GEMINI_API_KEY is set"),
        ({"AGENTRAIL_MODEL": "", "ANTHROPIC_API_KEY": ""}, None, "demo:", "no key is set"),
    ],
)
async def test_the_environment_is_asked_in_order(environ, wanted, model, why):
    """--model, `AGENTRAIL_MODEL`, `ANTHROPIC_API_KEY`, `OPENAI_BASE_URL`, `OPENAI_API_KEY`, `GEMINI_API_KEY`, then `demo:` (7.1)."""
    chosen = await choose_model(environ, wanted=wanted, base_url=None)
    assert chosen.model == model
    assert chosen.why.startswith(why)


async def test_a_server_is_asked_for_its_first_model():
    """`OPENAI_BASE_URL` comes before `OPENAI_API_KEY`, and a base url of the command before every key (7.1)."""
    async with open_server(listing("llama3.2:3b", "qwen")) as served:
        chosen = await choose_model(
            {"OPENAI_BASE_URL": f"{served.url}/v1/", "OPENAI_API_KEY": KEY}, wanted=None, base_url=None
        )
        assert chosen.model == "openai-chat:llama3.2:3b"
        assert served.requests[0][0].startswith(b"GET /v1/models HTTP/1.1")
        assert served.headers()["authorization"] == f"Bearer {KEY}"
        chosen = await choose_model({"ANTHROPIC_API_KEY": KEY}, wanted=None, base_url=served.url)
        assert chosen.model == "openai-chat:llama3.2:3b"
        assert "authorization" not in served.headers()


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (listing(), "lists no model: name one with --model openai-chat:NAME"),
        (reply("<html>hello</html>", kind="text/html"), "name one with --model openai-chat:NAME"),
        (
            reply('{"models": []}', kind="application/json"),
            "expected a list of models, got an object without one: check that the base URL ends in /v1",
        ),
        (reply("gone", status="500 Oops", kind="text/plain"), "answered 500"),
    ],
)
async def test_a_server_that_does_not_list_its_models_is_named(answer, words):
    """Whatever it answers instead, the message says to name a model."""
    async with open_server(answer) as served:
        with pytest.raises(ModelNotFound) as raised:
            await choose_model({"OPENAI_BASE_URL": served.url}, wanted=None, base_url=None)
    assert words in str(raised.value)
    assert served.url in str(raised.value)


async def test_a_server_that_refuses_never_has_its_key_shown():
    """The error has the server's words, without the key that they repeat."""
    body = json.dumps({"error": {"message": f"wrong key {KEY}", "code": "invalid_api_key"}})
    async with open_server(reply(body, status="401 Unauthorized", kind="application/json")) as served:
        with pytest.raises(Authentication) as raised:
            await list_models(served.url, KEY)
    assert KEY not in "".join(traceback.format_exception(raised.value))


async def test_a_server_that_is_silent_is_given_up(autojump_clock):
    """Five seconds are enough to list models."""
    (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
    port = listener.socket.getsockname()[1]
    autojump_clock.autojump_threshold = 0.2  # connecting takes no virtual time, and needs some real one
    begun_at = trio.current_time()
    with pytest.raises(Timeout, match="did not answer within 5 s"):
        await list_models(f"http://127.0.0.1:{port}/v1", None)
    assert trio.current_time() - begun_at >= ASK_WITHIN_SECONDS
    await listener.aclose()


async def test_an_address_that_is_none_is_refused_before_it_is_asked():
    """A slip in `OPENAI_BASE_URL` is said as what it is."""
    with pytest.raises(OptionError, match=r"^OPENAI_BASE_URL: expected an address with http"):
        await choose_model({"OPENAI_BASE_URL": "localhost:11434"}, wanted=None, base_url=None)
    with pytest.raises(OptionError, match=r"^provider option 'base_url': expected an address with http"):
        await choose_model({"OPENAI_BASE_URL": "http://here"}, wanted=None, base_url="localhost:11434")


def test_a_list_of_models_is_read_leniently():
    """Entries without an id are skipped; something else altogether is an error. Each provider with a key has a default."""
    assert read_models('{"data": [{"id": "a"}, {"id": ""}, {"name": "b"}, "c"]}') == ("a",)
    with pytest.raises(ProtocolError):
        read_models("[]")
    assert set(DEFAULT_MODELS) == set(VARIABLES) == set(PROVIDERS) - {"demo", "registry", "scripted"}


# --- what a tool may do wrong, in a whole session


@agentrail.tool
async def explode() -> str:
    """Raise."""
    message = "the wire was cut"
    raise RuntimeError(message)


@agentrail.tool
async def answer_strangely() -> object:
    """Return what is no result."""
    return object()


@agentrail.tool(timeout_seconds=0.05)
async def never_return() -> str:
    """Wait for ever."""
    await trio.Event().wait()
    return ""


@agentrail.tool
async def repeat(text: str) -> str:
    """Say it again."""
    return text


WRONG: tuple[tuple[str, object, str], ...] = (
    ("explode", {}, "the wire was cut"),
    ("answer_strangely", {}, "returned"),
    ("never_return", {}, "0.05 s"),
    ("repeat", '{"text": ', "Malformed arguments"),
    ("repeat", {"text": 5}, "text"),
    ("no_such_tool", {}, "no_such_tool"),
)


async def test_a_call_that_goes_wrong_is_an_error_result_and_the_cycle_goes_on():
    """The model reads what went wrong, answers, and the session takes the next prompt."""
    turns = [turn for name, given, _ in WRONG for turn in (calls((name, given)), says("I see."))]
    tools = [explode, answer_strangely, never_return, repeat]
    with trio.fail_after(60):
        async with agentrail.open_supervisor(environ={}) as supervisor:
            session = await supervisor.start_session(model=ScriptedModel(turns), tools=tools)
            for name, _, words in WRONG:
                assert await session.ask("go") == "I see."
                *_, results = [one for one in await session.messages() if isinstance(one, ToolMessage)]
                (result,) = results.results
                assert result.is_error, name
                assert words in result.text


async def test_a_session_with_an_unknown_model_is_not_started():
    """The error comes before there is a session; an exception of the body leaves the block as it was, not in a group."""
    with pytest.raises(ZeroDivisionError):  # noqa: PT012 - the block around it is what is tested
        async with agentrail.open_supervisor(environ={}) as supervisor:
            with pytest.raises(ProviderError, match="there is no provider"):
                await supervisor.start_session(model="nope:x")
            assert supervisor.sessions() == ()
            await supervisor.start_session(model="demo:fast")
            raise ZeroDivisionError


# --- sandboxes


async def test_the_name_of_a_sandbox_becomes_one(tmp_path):
    """`local` on the working directory, `local:/path` elsewhere, `memory`."""
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "x").write_text("words")
    assert (await make_sandbox("local", tmp_path).read("a/x")).text == "words"
    assert (await make_sandbox(f"local:{tmp_path}/a", tmp_path).read("x")).text == "words"
    assert (await make_sandbox("memory", tmp_path).list_dir(".")).entries == ()
    with pytest.raises(OptionError, match="sandbox is 'disk': expected 'local', 'local:/path', 'memory'"):
        make_sandbox("disk", tmp_path)


@pytest.mark.parametrize("sandbox", ["local", "memory"])
async def test_a_session_works_in_the_sandbox_that_it_names(tmp_path, sandbox):
    """In memory, or in its working directory; by default in that as well."""
    (tmp_path / "on_disk").write_text("x")
    model = ScriptedModel([calls(("list_dir", {})), says("done")])
    with trio.fail_after(60):
        async with agentrail.open_supervisor(environ={}) as supervisor:
            session = await supervisor.start_session(
                model=model, tools=builtin("list_dir"), working_dir=tmp_path, sandbox=sandbox
            )
            await session.ask("what is there?")
            (message,) = [one for one in await session.messages() if isinstance(one, ToolMessage)]
    (result,) = message.results
    assert result.text == ("[file] on_disk (1 bytes)" if sandbox == "local" else "[The directory is empty.]")


async def test_a_script_has_a_name():
    """`scripted:<name>` is the model that the supervisor was given under that name, for as many sessions as like."""
    model = ScriptedModel([says("Hi."), says("Hello.")])
    async with agentrail.open_supervisor(environ={}, scripts={"hello": model}) as sup:
        for answer in ("Hi.", "Hello."):
            session = await sup.start_session(model="scripted:hello")
            assert await session.ask("?") == answer
            assert (await session.status()).model == "scripted:hello"
        model.assert_exhausted()
        with pytest.raises(ModelNotFound, match="there is no script 'hallo'; known scripts: hello") as caught:
            await sup.start_session(model="scripted:hallo")
        assert "open_supervisor(scripts={'hallo': ScriptedModel(…)})" in str(caught.value)
        with pytest.raises(OptionError, match="scripted: takes no provider options, got timeout"):
            await sup.start_session(model="scripted:hello", provider_opts={"timeout": 1})
        with pytest.raises(ModelNotFound, match="such as 'scripted:NAME'"):
            await sup.start_session(model="scripted:")


async def test_a_store_that_is_named_with_its_path_needs_no_home(tmp_path):
    """The directory for data is looked for where it is needed only; without any the message says what to give."""
    async with agentrail.open_supervisor(environ={}, store=f"sqlite:{tmp_path / 'mine.db'}") as supervisor:
        session = await supervisor.start_session(model="demo:fast", session_id="s-1")
        await session.ask("Hi")
    assert (tmp_path / "mine.db").exists()
    with pytest.raises(
        StoreUnavailable,
        match=r"set AGENTRAIL_DATA_DIR, XDG_DATA_HOME or HOME, or give --data-dir to the command$",
    ):
        async with agentrail.open_supervisor(environ={}, store="sqlite:"):
            pass


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"shell_fallback": "yes"}, "shell_fallback is 'yes': expected 'refuse' or 'unconfined'"),
        ({"environ": {}, "scripts": {"a": "says Hi"}}, r"scripts\['a'\] is 'says Hi': expected a model"),
        ({"resume": "some"}, "resume is 'some': expected 'none', 'working' or 'all'$"),
        ({"resume": "all"}, "resume is 'all', but there is no store"),
        ({"on_drift": "stop"}, "on_drift is 'stop': expected 'park' or 'go_on'"),
        ({"store_patience": 0.01}, r"store_patience is 0.01: expected finite seconds >= 0.1"),
        *(
            ({"store": "memory:", "keep_days": days}, f"keep_days is {shown}: expected days from 1 to 36500")
            for days, shown in [(0, "0"), (0.9, "0.9"), (True, "True"), (float("nan"), "nan"), ("30", "'30'")]
        ),
        ({"store": "memory:", "keep_days": 10**400}, r"keep_days is 10+\.*0+: expected days from 1"),
        ({"store": "memory:", "keep_bytes": 0}, r"keep_bytes is 0: expected a whole number of bytes >= 1"),
        ({"store": "memory:", "keep_bytes": 1e9}, r"keep_bytes is 1000000000.0: expected a whole number"),
        ({"keep_days": 30}, r"keep_days is 30, but there is no store: give one, such as store='sqlite:'"),
        ({"keep_bytes": 30}, r"keep_bytes is 30, but there is no store"),
        ({"store": 5}, "store is 5: expected 'memory:'"),
        *(
            (
                {"advertise": address},
                "^advertise is ((?!key).)*: expected the address under which other nodes",
            )
            for address in (
                *(
                    "10.0.0.7:8700",
                    "http://0.0.0.0:8700",
                    "http://[::]:8700",
                    "http://:8700",
                    "http://a..b:8700",
                ),
                *("http://a:0", "http://a:65536", "http://[::1", "http://me:key@a:8700", "me:key@a:8700"),
            )
        ),
    ],
)
async def test_options_are_looked_at_before_anything_opens(given, message):
    """Each fault once, with what would do."""
    with pytest.raises(OptionError, match=message):
        async with agentrail.open_supervisor(**given):
            pytest.fail("its opening time")


@pytest.mark.parametrize(
    ("given", "fault"),
    [
        ({"environ": 5}, "environ is of type int: expected a mapping of texts, or None"),
        ({"scripts": "ab"}, "scripts is of type str: expected a mapping of models, or None"),
        ({"deps_for": 5}, "deps_for is of type int: expected a function of a session id, or None"),
        ({"revive": 5}, "revive is of type int: expected a function of a StoredOpening, or None"),
        ({"environ": {"HOME": 5}}, "environ is of type dict: expected a mapping of texts, or None"),
        ({"data_dir": b"x"}, "data_dir is b'x': expected a path, without NUL or lone surrogates, or None"),
        ({"data_dir": "\0", "store": MemoryStore()}, r"data_dir is '\\x00': expected a path, without NUL"),
        ({"metrics": "x"}, r"metrics is 'x': expected Metrics\(\), or None"),
        ({"mcp": None}, "mcp is None: expected a sequence of McpServer"),
        ({"mcp": "ab"}, "mcp is 'ab': expected a sequence of McpServer"),
        (
            {"store": "memory:", "store_patience": 10**400},
            "store_patience is 10+: expected finite seconds >= 0.1",
        ),
        ({"store": "memory:", "hibernate_after": 10**400}, "hibernate_after is 10+: expected finite seconds"),
        (
            {"store": "memory:", "lease": -(10**5_000)},
            "lease is <int, whose __repr__ raises>: expected seconds",
        ),
    ],
)
async def test_an_argument_of_a_wrong_type_is_refused_by_name(given, fault):
    """Before anything is opened, and not by an error of Python, or by a session that crashes later."""
    with pytest.raises(OptionError, match=fault):
        async with agentrail.open_supervisor(**given):
            pytest.fail("it was opened")


@pytest.mark.parametrize("given", [{}, {"store": "memory:", "keep_days": 1}], ids=["plain", "with a sweep"])
async def test_an_error_of_a_cancelled_block_is_not_lost(given):
    """It leaves the supervisor unchanged, although the sweep of the store and the closing of connections are cancelled too."""

    async def fail_as_cancelled():
        with trio.CancelScope() as scope:
            async with agentrail.open_supervisor(**given):
                scope.cancel()
                raise YourMove

    with pytest.raises(YourMove):
        await fail_as_cancelled()
