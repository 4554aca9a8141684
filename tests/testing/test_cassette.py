"""`CassetteModel`: it records once, plays ever after, keeps no key, and names what is different."""

from functools import partial

import pytest
import trio

from agentrail.abc import Capabilities
from agentrail.core.protocol.request import ModelRequest
from agentrail.errors import BadRequest, CycleFailed, OptionError, Overloaded
from agentrail.testing.cassette import SCRUBBED, CassetteModel
from agentrail.testing.check_provider import ProviderCase, check_provider, request_for
from agentrail.testing.models import ScriptedModel, Turn, calls, fails, says
from agentrail.testing.tools import RecordingTool
from tests.pipes import pipe_at
from tests.runtime.rig import on_virtual_time, open_bare
from tests.testing.test_check_provider import open_local

KEY = "sk-live-0123456789abcdefghij"
WEATHER = [
    Turn(thinking="hm", text=("I ", "look."), calls=calls(("record", {"city": "Oslo"})).calls),
    says("Rain.\u2028Snow.\u0085"),  # letters that end a line for Python, and not in JSON
]


async def hold(model, *prompts):
    """Hold a conversation with a model, and give what it said."""
    async with open_bare() as supervisor:
        session = await supervisor.start_session(model=model, tools=[RecordingTool()], session_id="one")
        return [await session.ask(prompt) for prompt in prompts]


def test_an_argument_of_a_wrong_type_is_named():
    """Before any file is read."""
    with pytest.raises(OptionError, match="path is 5: expected a path"):
        CassetteModel(5)
    with pytest.raises(OptionError, match="secrets is 5: expected a sequence"):
        CassetteModel("nowhere", secrets=5)


@pytest.mark.at(157)
async def test_what_was_recorded_is_played(tmp_path):
    """The same conversation, and nobody is asked; what the model can do is known too."""
    path = tmp_path / "new" / "weather.jsonl"
    first = await hold(CassetteModel(path, record=ScriptedModel(WEATHER)), "Weather?")
    nobody = ScriptedModel([])
    played = CassetteModel(path, record=nobody)
    assert await hold(played, "Weather?") == first == ["Rain.\u2028Snow.\u0085"]
    assert (len(played.requests), nobody.requests) == (2, [])
    scripted = ScriptedModel([]).capabilities("object")
    assert played.capabilities(played.requests[0].model_name) == scripted
    assert played.capabilities("unheard-of") == Capabilities()


async def test_another_request_names_the_first_difference(tmp_path):
    """Where, what was recorded, and what came."""
    path = tmp_path / "weather.jsonl"
    await hold(CassetteModel(path, record=ScriptedModel([says("Rain.")])), "Weather?")
    expected = r"request\.messages\[0\]\.content\[0\]\.text is 'Weather\?' in the cassette and 'Time\?' now"
    with pytest.raises(CycleFailed, match=expected):
        await hold(CassetteModel(path), "Time?")
    with pytest.raises(CycleFailed, match=r"request\.messages has 1 entries in the cassette and 3 now"):
        await hold(CassetteModel(path), "Weather?", "Weather?")


@on_virtual_time
async def test_errors_are_played_too(tmp_path):
    """As the same class, with what was said before it; so a retry is a retry again."""
    path = tmp_path / "weather.jsonl"
    script = [fails(Overloaded("busy", retry_after_seconds=2), after="Ra"), says("Rain.")]
    first = await hold(CassetteModel(path, record=ScriptedModel(script)), "Weather?")
    assert await hold(CassetteModel(path), "Weather?") == first == ["Rain."]
    model = CassetteModel(path)
    request = request_for("scripted:object")
    with pytest.raises(BadRequest):
        async with model.open_stream(request):
            pass


async def test_no_key_is_kept(tmp_path, monkeypatch):
    """Neither one that looks like a key, nor one from the environment, nor one that was named; the rest is."""
    monkeypatch.setenv("MY_VENDOR_TOKEN", "correct-horse")
    path = tmp_path / "weather.jsonl"
    prompt = f"The keys are {KEY}, correct-horse and swordfish."
    make = partial(CassetteModel, path, secrets=["swordfish"])
    await hold(make(record=ScriptedModel([says("I keep ", KEY)])), prompt)
    text = path.read_text()
    assert not [secret for secret in (KEY, "correct-horse", "swordfish") if secret in text]
    assert f"The keys are {SCRUBBED}, {SCRUBBED} and {SCRUBBED}." in text
    assert await hold(make(), prompt) == [f"I keep {SCRUBBED}"]


async def test_a_cassette_is_a_provider(tmp_path):
    """It keeps what `check_provider` demands of all of them; without a file the message says what to do, and an empty one is none."""
    with pytest.raises(OptionError, match="pass record=provider once, with a key, to record it"):
        CassetteModel(tmp_path / "missing.jsonl")
    (tmp_path / "empty.jsonl").touch()
    with pytest.raises(CycleFailed, match=r"empty\.jsonl' is empty"):
        await hold(CassetteModel(tmp_path / "empty.jsonl"), "Hi")

    path = tmp_path / "weather.jsonl"
    request: ModelRequest = request_for("scripted:object")
    async with CassetteModel(path, record=ScriptedModel(WEATHER)).open_stream(request) as chunks:
        async for _ in chunks:
            await trio.lowlevel.checkpoint()
    case = ProviderCase(open_provider=partial(open_local, partial(CassetteModel, path)), request=request)
    await check_provider(case)


@pytest.mark.parametrize(
    ("old", "new", "fault"),
    [
        (b"}\n", b"", "delimiter"),  # half a line, as a full disk leaves it
        (b'"chunks"', b'"chunkz"', "Object missing required field `chunks`"),
        (b"Rain", b"R\xffin", "codec can't decode byte 0xff"),
        (b'"text_delta"', b'"text_delta_2"', "it may come from a newer version"),
    ],
)
async def test_a_damaged_line_is_named(tmp_path, old, new, fault):
    """By file and number, before the first request, with the reason and the remedy."""
    path = tmp_path / "weather.jsonl"
    await hold(
        CassetteModel(path, record=ScriptedModel([says("Sun."), says("Rain.")])), "Weather?", "And then?"
    )
    first, second = path.read_bytes().splitlines(keepends=True)
    assert old in second
    path.write_bytes(first + second.replace(old, new))
    with pytest.raises(
        OptionError, match=r"weather\.jsonl:2 is not a line of a cassette.* record it again"
    ) as caught:
        CassetteModel(path)
    assert fault in str(caught.value)


def test_what_is_no_file_is_named_and_not_waited_for(tmp_path):
    """A pipe would wait for its writer, and the command with it; a directory was an error without advice."""
    with (
        pipe_at(tmp_path / "pipe"),
        pytest.raises(OptionError, match="pipe' cannot be read: it is not a file"),
    ):
        CassetteModel(tmp_path / "pipe")
    with pytest.raises(OptionError, match="cannot be read: Is a directory"):
        CassetteModel(tmp_path)
