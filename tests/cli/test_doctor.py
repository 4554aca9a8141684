"""`agentrail doctor`."""

import json
import shlex

import pytest
import trio

from agentrail.app import VENDOR_URLS
from agentrail.cli.doctor_command import look_at_fsync, look_at_server, look_at_store
from agentrail.providers.http import HttpClients
from agentrail.testing.check_provider import open_server, reply
from tests.cli.rig import run_agentrail, run_line

SECRET = "sk-a-key-that-nobody-may-see"  # noqa: S105 - no key of anybody


def listing(*names: str) -> str:
    """What `GET /models` answers."""
    return json.dumps({"object": "list", "data": [{"id": name} for name in names]})


async def test_without_a_key_everything_needed_is_there_for_the_demo_model():
    """What is not set is said, not blamed; where the model needs one, the exit code is 1, with the variable and how to try without."""
    ran = await run_agentrail("doctor")
    assert (ran.code, "– ANTHROPIC_API_KEY    not set" in ran.out) == (0, True)
    assert "✓ model                demo: (no key is set" in ran.out
    assert "✓ shell" in ran.out
    assert "bubblewrap " in ran.out

    ran = await run_agentrail("doctor", "--model", "anthropic:x")
    assert (ran.code, "set ANTHROPIC_API_KEY" in ran.out) == (1, True)
    assert "works without a key" in ran.out


async def test_a_server_that_answers_is_reachable():
    """The list of models costs nothing; a server without one, or without the model, is no failure; what an answer proves is said; the key is never shown."""
    lists, text = {"kind": "application/json"}, {"kind": "text/plain"}
    named, base, key = (
        "doctor --model openai-chat:gpt",
        "doctor --model anthropic:x",
        {"ANTHROPIC_API_KEY": SECRET},
    )
    for answer, line, variables, *words in (
        (reply(listing("llama"), **lists), named, {}, "does not list gpt", "name one of its models: llama"),
        (
            reply("nothing here", status="404 Not Found", **text), named, {},
            "answers, but cannot list its models", "does the address end in /v1?",
        ),
        (reply("go away", status="404 Not Found", **text), base, key, "the first request shows whether the key is valid"),
    ):  # fmt: skip
        async with open_server(answer) as served:
            ran = await run_line(f"{line} --base-url {served.url}", variables=variables)
        assert ran.code == 0
        assert all(word in ran.out for word in words), ran.out

    async with open_server(reply(listing("llama", "qwen"), **lists)) as served:
        variables = {"OPENAI_BASE_URL": f"{served.url}/v1", "OPENAI_API_KEY": SECRET}
        ran = await run_line("doctor", variables=variables)
    assert (ran.code, f"openai-chat:llama (the first model of {served.url}/v1)" in ran.out) == (0, True)
    assert "answers and lists llama" in ran.out
    assert "✓ OPENAI_API_KEY       set" in ran.out
    assert SECRET not in ran.out + ran.err
    assert served.headers()["authorization"] == f"Bearer {SECRET}"
    assert served.requests[0][0].startswith(b"GET /v1/models ")


@pytest.mark.parametrize("provider", VENDOR_URLS)
async def test_without_an_address_the_vendor_of_the_model_is_looked_at(provider, monkeypatch):
    """Each has its own: Gemini is not asked for at Anthropic's."""
    asked = []

    async def remember(_clients, url, **_options):
        await trio.lowlevel.checkpoint()
        asked.append(url)
        return listing("x")

    monkeypatch.setattr(HttpClients, "get_text", remember)
    found = await look_at_server(f"{provider}:x", None, {}, HttpClients())
    (url,) = asked
    assert url.removesuffix("/models") == VENDOR_URLS[provider]
    assert found.verdict == "good"
    assert VENDOR_URLS[provider] in found.text


async def test_a_server_that_is_not_there_is_said():
    """Nobody listens: exit code 1, and what to look at."""
    for model in ("openai-chat:x", "anthropic:x"):
        line = f"doctor --model {model} --base-url http://127.0.0.1:9"
        ran = await run_line(line, variables={"ANTHROPIC_API_KEY": SECRET})
        assert (ran.code, "✗ server" in ran.out) == (1, True)
        assert "→ look at the network and at --base-url" in ran.out


async def test_an_empty_address_is_not_the_vendors_own():
    """As from a variable that is not set: the vendor is not called."""
    ran = await run_line("doctor --model anthropic:x --base-url ''", variables={"ANTHROPIC_API_KEY": SECRET})
    assert (ran.code, "✗ server" in ran.out) == (1, False)
    assert "provider option 'base_url': expected an address" in ran.out


# --- the store


async def test_the_store_is_said_with_its_place_size_and_the_time_of_an_fsync(tmp_path):
    """Before the first session: where it will be. Then: how many sessions and bytes; and in both cases what a commit waits for."""
    variables = {"AGENTRAIL_DATA_DIR": str(tmp_path / "data")}
    before = await run_agentrail("doctor", variables=variables)
    assert (
        f"– store                none yet: sessions will be kept in {tmp_path / 'data' / 'sessions.db'}"
        in before.out
    )
    assert "✓ fsync" in before.out or "slow: " in before.out
    assert not (tmp_path / "data").exists()
    assert before.code == 0
    arguments = ("run", "hello", "--model", "demo:fast", "--tools", "none", "--keep")
    assert (await run_agentrail(*arguments, variables=variables)).code == 0
    after = await run_agentrail("doctor", "--data-dir", str(tmp_path / "data"))
    assert f"✓ store                {tmp_path / 'data' / 'sessions.db'}: 1 sessions, " in after.out
    assert "kB, not damaged" in after.out
    assert "written by" not in after.out


def test_a_store_that_cannot_be_kept_is_no_failure(tmp_path):
    """Neither a place that is unknown nor a file that is no store keeps a run from working; each says what to do."""
    (found,) = look_at_store({})
    assert found.verdict == "absent"
    assert "--data-dir" in str(found.remedy)
    (tmp_path / "sessions.db").write_text("a letter to Ada, which is no database\n" * 50)
    (found,) = look_at_store({"AGENTRAIL_DATA_DIR": str(tmp_path / "sessions.db" / "below")})
    assert found.verdict == "absent"
    assert f"{tmp_path / 'sessions.db'} is not a directory" in found.text
    (found,) = look_at_store({"AGENTRAIL_DATA_DIR": str(tmp_path)})
    assert found.verdict == "absent"
    assert "is not a store of agentrail" in found.text


async def test_the_store_of_the_server_is_looked_at_beside_the_usual_one(tmp_path):
    """`[host]` of a trusted project names another place than `run` and `chat` keep sessions in; it is said how they are listed."""
    project, store = tmp_path / "project", tmp_path / "project" / "our own" / "served.db"
    store.parent.mkdir(parents=True)
    (project / "agentrail.toml").write_text('version = 1\n[host]\nstore = "sqlite:our own/served.db"\n')
    options = {"variables": {"AGENTRAIL_DATA_DIR": str(tmp_path / "data")}, "cwd": project}
    before = await run_agentrail("doctor", "--trust-project", **options)
    assert f"– store of [host]      none yet: sessions will be kept in {store}" in before.out
    kept = ("run", "hello", "--model", "demo:fast", "--tools", "none", "--keep", "--store", f"sqlite:{store}")
    assert (await run_agentrail(*kept, **options)).code == 0
    after = await run_agentrail("doctor", "--trust-project", **options)
    assert f"✓ store of [host]      {store}: 1 sessions, " in after.out
    assert f"→ agentrail sessions list --store sqlite:'{store}' lists them" in after.out
    assert "– store                none yet" in after.out
    named = shlex.split(after.out.partition("→ agentrail ")[2].partition(" lists")[0])
    assert len((await run_agentrail(*named, **options)).out.splitlines()) == 1
    assert "store of [host]" not in (await run_agentrail("doctor", **options)).out


async def test_a_store_of_the_server_that_is_wrong_or_the_same(tmp_path):
    """One that keeps nothing, and the usual one, are not said twice; one that cannot be is no failure of a run."""
    (tmp_path / "odd.db").write_text("a letter to Ada, which is no database\n" * 50)
    variables = {"XDG_DATA_HOME": str(tmp_path / "data"), "AGENTRAIL_DATA_DIR": ""}
    for said, finds in (
        ('store = "memory:"', None),
        ('store = "sqlite:"', None),
        ('store = "sqlite:odd.db"', "is not a store of agentrail"),
        ('store = "sqlite:odd.db/below/x.db"', "agentrail serve cannot keep sessions: "),
        ('data_dir = "elsewhere"', "none yet: sessions will be kept in"),
    ):
        (tmp_path / "agentrail.toml").write_text(f"version = 1\n[host]\n{said}\n")
        ran = await run_line("doctor --trust-project", variables=variables, cwd=tmp_path)
        assert ran.code == 0
        lines = [line for line in ran.out.splitlines() if "store of [host]" in line]
        assert [finds in line for line in lines] == [True] if finds else lines == [], said


def test_a_slow_disk_is_said_with_what_to_do(tmp_path):
    """By the median, so that one hiccup is none; a directory that is not there is said too."""
    times = iter(range(100))
    slow = look_at_fsync(tmp_path, stopwatch=lambda: float(next(times)))
    assert slow.text.startswith("slow: 1000.0 ms in ")
    assert "faster disk" in str(slow.remedy)
    hiccup = iter([0.0, 5.0, 5.0, 5.001, 5.001, 5.002, 5.002, 5.003, 5.003, 5.004])
    good = look_at_fsync(tmp_path, stopwatch=lambda: next(hiccup))
    assert good.verdict == "good"
    assert "at worst 5000.0 ms of 5 tries" in good.text
    assert "could not be tried" in look_at_fsync(tmp_path / "no").text
    assert not list(tmp_path.iterdir())
