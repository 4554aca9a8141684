"""`[host]` of `agentrail.toml`: what `agentrail serve` serves, where and to whom, and which of flag, variable and file wins."""

from pathlib import Path

import attrs
import pytest
from hypothesis import example, given, strategies as st

from agentrail.blueprints.configuration import read_configuration
from agentrail.cli.config_command import show_configuration
from agentrail.cli.config_setup import ConfigFiles
from agentrail.cli.doctor_command import look_at_serving
from agentrail.cli.host_config import faults_of_host, make_profiles, options_of_host
from agentrail.cli.serve_command import decide_all, make_default_application
from agentrail.cli.serve_options import (
    SERVE_KEYS,
    SERVE_VARIABLES,
    ServeFlags,
    ServeOptions,
    decide_serving,
    flag_of,
    show_serving,
)
from agentrail.config.host_limits import HOST_LIMITS
from agentrail.config.schema import HostForm, HostLimitsForm
from agentrail.config.settings import merge_settings
from agentrail.config.trust_limits import narrow_settings
from agentrail.errors import OptionError
from agentrail.gateway.app import OWN_OPTIONS
from agentrail.host.host_options import HostOptions
from agentrail.host.quotas import Limits
from tests.cli.rig import write
from tests.cli.test_config import setup_of
from tests.config.test_settings import joined, project, user

AGENTS = '[agents.scout]\ndescription = "Looks."\nmodel = "demo:fast"\nmax_turns = 7\n[agents.other]\n'


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A project that is the working directory, and a home beside it; no variable is set that says something."""
    for name in ("home", "project"):
        (tmp_path / name).mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for name in (*SERVE_VARIABLES.values(), "AGENTRAIL_CONFIG"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AGENTRAIL_MODEL", "demo:")
    monkeypatch.chdir(tmp_path / "project")
    return tmp_path


def read(place, *, trusted=True, **variables):
    environ = {"HOME": str(place / "home"), **variables}
    return read_configuration(environ, cwd=place / "project", trust_project=trusted)


# --- which one wins

SOURCES = ("flag", "variable", "project", "user")
VALUES = {
    "host": {"flag": "10.0.0.1", "variable": "10.0.0.2", "project": "10.0.0.3", "user": "10.0.0.4"},
    "port": {"flag": 1, "variable": 2, "project": 3, "user": 4},
    "token_file": {one: Path(f"/t/{one}") for one in SOURCES},
    "certfile": {one: Path(f"/c/{one}") for one in SOURCES},
    "keyfile": {one: Path(f"/k/{one}") for one in SOURCES},
    "data_dir": {one: Path(f"/d/{one}") for one in SOURCES},
    "allowed_host": {one: (f"{one}.example", "b.example") for one in SOURCES},
    "allowed_origin": {one: (f"https://{one}.example",) for one in SOURCES},
    "protocol": {
        "flag": ("mcp",),
        "variable": ("a2a", "mcp"),
        "project": ("ai-ui",),
        "user": ("ag-ui", "ai-ui"),
    },
}


def as_toml(value):
    if isinstance(value, tuple):
        return f"[{', '.join(map(as_toml, value))}]"
    return str(value) if isinstance(value, int) else f'"{value}"'


@example({name: {"flag", "variable"} for name in SERVE_KEYS})
@example({name: {"variable", "project"} for name in SERVE_KEYS})
@example({name: {"project", "user"} for name in SERVE_KEYS})
@given(st.fixed_dictionaries({name: st.sets(st.sampled_from(SOURCES)) for name in SERVE_KEYS}))
def test_a_flag_wins_over_a_variable_over_the_project_over_the_user(sayers):
    """12.14: of each option for itself, whoever else says something; and it is known who it was."""

    def said(source):
        return {name: VALUES[name][source] for name in SERVE_KEYS if source in sayers[name]}

    def table(source):
        lines = [f"{SERVE_KEYS[name]} = {as_toml(value)}" for name, value in said(source).items()]
        return "\n".join(["[host]", *lines, ""])

    environ = {
        SERVE_VARIABLES[name]: ", ".join(value) if isinstance(value, tuple) else str(value)
        for name, value in said("variable").items()
    }
    settings = joined(project(table("project")), user(table("user")))
    made = decide_serving(ServeFlags(**said("flag")), environ, settings.host)
    for name in SERVE_KEYS:
        first = next((one for one in SOURCES if one in sayers[name]), None)
        expected = getattr(ServeOptions(), name) if first is None else VALUES[name][first]
        assert getattr(made, name) == expected
        told = {"flag": flag_of(name), "variable": SERVE_VARIABLES[name]}
        told |= {"project": "agentrail.toml:", "user": "~/.agentrail/agentrail.toml:"}
        assert made.why.get(name, "").startswith("" if first is None else told[first])
        assert (name in made.why) is (first is not None)


def test_the_check_and_the_doctor_say_who_won(place):
    """Each with its file and line, and the variable that stands in front."""
    write(place, "[host]\nport = 9000\nallowed_hosts = ['a.example']\n")
    shown = "\n".join(show_configuration(read(place), {"AGENTRAIL_PORT": "1"}))
    assert "9000" in shown
    assert "agentrail.toml:2" in shown
    assert "AGENTRAIL_PORT is set and overrides port" in shown
    (found,) = look_at_serving(setup_of(place), {"AGENTRAIL_PORT": "8701"})
    assert (found.verdict, found.text) == (
        "good",
        "host 127.0.0.1 (the default); port 8701 (AGENTRAIL_PORT); allowed_hosts a.example (agentrail.toml:3)",
    )
    assert look_at_serving(None, {}) == ()
    assert look_at_serving(None, {"AGENTRAIL_PORT": "x"})[0].verdict == "bad"
    write(place, "[host]\nport = 99999\n")
    (found,) = look_at_serving(setup_of(place), {})
    assert (found.verdict, "agentrail.toml:2: host.port: 99999 is not a port" in found.text) == ("bad", True)
    write(place, "[host]\nprotocols = ['grpc']\n")
    (found,) = look_at_serving(setup_of(place), {})
    assert (found.verdict, "agentrail.toml:2: host.protocols" in found.text) == ("bad", True)
    assert show_serving(ServeOptions()) == "host 127.0.0.1 (the default); port 8700 (the default)"


# --- what is wrong

WRONG_KEYS = "host port profiles[1] store memories heartbeat base_path protocols idle_after"
WRONG = """\
[host]
host = "*"
port = 70000
profiles = ["scout", "scuot"]
store = "mysql:"
memories = "x"
heartbeat = 0.0
base_path = "agents"
protocols = ["grpc"]
idle_after = -1.0
[host.limits]
max_streams = 0
max_json_depth = 1000
[agents.scout]
"""


def test_all_that_is_wrong_is_said_at_once_each_with_its_line(place):
    """12.11: of the files, of variables and of flags in one message; what a file says twice over is said once."""
    write(place, WRONG)
    with pytest.raises(OptionError) as caught:
        decide_all(ServeFlags(certfile=Path("c")), ConfigFiles(trust_project=True), None)
    faults = caught.value.faults
    lines = dict(enumerate(WRONG_KEYS.split(), 2))
    lines |= {12: "limits.max_streams", 13: "limits.max_json_depth"}
    assert [fault.split(": ")[:2] for fault in faults[:-2]] == [
        [f"agentrail.toml:{line}", f"host.{name}"] for line, name in lines.items()
    ]
    assert faults[-2] == "--certfile and --keyfile belong together: give both, or none"
    assert faults[-1].startswith("others reach --host *, so calls need a token: ")
    assert "did you mean 'scout'?" in faults[2]
    assert faults[1].endswith("70000 is not a port: expected 0 to 65535, 0 for one that is free")


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        (
            'data_dir = "\\u0000"',
            "data_dir: path is '\\x00': expected a path, without NUL or lone surrogates",
        ),
        (
            'keyfile = "a\\u0000"',
            "keyfile: path is 'a\\x00': expected a path, without NUL or lone surrogates",
        ),
        (
            'data_dir = "~nobodyatall/x"',
            "data_dir: '~nobodyatall/x' is in the home directory of a user who has",
        ),
        ('memories = "sqlite:\\u0000"', "memories: path is '\\x00': expected a path, without NUL"),
        ('knowledge = "sqlite:~nobodyatall"', "knowledge: '~nobodyatall' is in the home directory of a user"),
        ('audit = "file:a\\u0000"', "audit: path is 'a\\x00': expected a path, without NUL"),
        ('audit = "file:~nobodyatall/x"', "audit: '~nobodyatall/x' is in the home directory of a user"),
        ('audit = "sqlite:x"', "audit: 'sqlite:x': expected 'file:PATH', or 'store' for a store in a file"),
        ('data_dir = "~/here"\nmemories = "sqlite:there"', None),
        ('audit = "store"', None),
        ('audit = "file:~/audit.jsonl"', None),
    ],
)
def test_a_path_that_no_file_can_have_is_told_with_its_line(place, line, fault):
    """It passed the check, and only failed later, or without its place in the file."""
    write(place, f"[host]\n{line}\n")
    expected = [] if fault is None else [f"agentrail.toml:2: host.{fault}"]
    found = [str(one) for one in faults_of_host(read(place).settings)]
    assert [one[: len(words)] for one, words in zip(found, expected, strict=True)] == expected
    if fault is not None:
        with pytest.raises(OptionError) as caught:
            decide_all(ServeFlags(), ConfigFiles(trust_project=True), None)
        assert [*caught.value.faults] == found
        assert expected[0] in look_at_serving(setup_of(place), {})[0].text


@pytest.mark.parametrize(
    ("given", "log"), [("file:logs/a", "project/logs/a"), ("file:~/a", "home/a"), ("file:/a/b", "/a/b")]
)
def test_the_audit_log_of_a_file_is_relative_to_it(place, monkeypatch, given, log):
    """As every path of `[host]`, wherever the server is started."""
    write(place, f'[host]\naudit = "{given}"\n')
    settings = read(place).settings
    monkeypatch.chdir(place)
    assert options_of_host(settings)["audit"] == f"file:{place / log}"


def test_keys_and_types_that_are_none_are_faults(place):
    """12.11: with what was expected and the nearest name."""
    for text, said in (
        ("prot = 1", "host.prot: unknown key, did you mean 'port'"),
        ('port = "1"', "host.port: expected a whole number, got the text '1'"),
        ('on_disconnect = "stop"', "host.on_disconnect: expected one of continue, abort"),
        (
            "limits = { max_stream = 1 }",
            "host.limits.max_stream: unknown key, did you mean 'max_streams'",
        ),
        ("profiles = []", "host.profiles: names no agent that may be served"),
        ('token = "abc"', "host.token: this looks like a key"),
    ):
        write(place, f"[host]\n{text}\n")
        made = read(place)
        faults = [str(one) for one in (*made.faults, *faults_of_host(made.settings))]
        assert [one for one in faults if said in one and one.startswith("agentrail.toml:2: ")], text


def test_values_of_telemetry_that_no_export_takes_are_faults(place):
    """With their line, although only commands that run sessions make the export."""
    for text, said in (
        (
            'endpoint = "localhost:4318"',
            "endpoint: expected an address such as http://localhost:4318/v1/traces, got",
        ),
        ("sample = 7", "sample: expected a number from 0 to 1, got 7"),
        ('endpoint = "https://collector/v1/traces"\nsample = 0.5', None),
    ):
        write(place, f"[telemetry]\n{text}\n")
        faults = [str(one) for one in faults_of_host(read(place).settings)]
        assert [one.startswith(f"agentrail.toml:2: telemetry.{said}") for one in faults] == [True] * bool(
            said
        )


def test_a_form_of_a_host_has_what_a_host_takes():
    """Each key is a flag, an option of a server, or about profiles; limits are those of a host, and so are the numbers a project may lower."""
    names = {one.name for one in attrs.fields(HostForm)}
    known = {*OWN_OPTIONS, *(one.name for one in attrs.fields(HostOptions)), *SERVE_KEYS.values()}
    assert names - known == {"shared_workspace", "expose"}
    assert {one.name: one.default for one in attrs.fields(Limits)} == dict(HOST_LIMITS)
    assert [one.name for one in attrs.fields(HostLimitsForm)] == list(HOST_LIMITS)


# --- what is served


async def test_faults_of_several_agents_are_said_at_once(place):
    """Each with its line, before anything is served."""
    write(place, '[agents.a]\ntools = ["shel"]\n[agents.b]\nplugins = ["CostGard"]\n')
    with pytest.raises(OptionError) as caught:
        await make_profiles(read(place), {"AGENTRAIL_MODEL": "demo:"})
    assert [fault.split(": ")[0] for fault in caught.value.faults] == ["agentrail.toml:2", "agentrail.toml:4"]


async def test_a_file_says_whose_card_is_public(place):
    """A profile is private unless its agent says so."""
    write(place, "[agents.a]\npublic = true\n[agents.b]\n[agents.c]\npublic = false\n")
    made = await make_profiles(read(place), {"AGENTRAIL_MODEL": "demo:"})
    assert [one.profile.public for one in made] == [True, False, False]


async def test_an_application_is_made_of_what_files_say(place, capfd):
    """Options, limits, profiles; a place that needs tokens refuses an agent that writes, unless the files say that users share it."""
    text = f"[host]\nconsole = false\nchat_timeout = 5.0\nlimits = {{ max_streams = 7 }}\nstore = 'memory:'\n{AGENTS}"
    write(place, text)
    made, options = decide_all(ServeFlags(port=1), ConfigFiles(trust_project=True), None)
    assert (options.port, options.why["port"]) == (1, "--port")
    app = await make_default_application(options, made)
    served = app.state.host
    chosen = served.options
    assert (chosen.chat_timeout, chosen.limits.max_streams, chosen.store) == (5.0, 7, "memory:")
    assert (served.gateway.has_console, served.drain_delay) == (False, 0.0)
    assert [*served.options.checked_profiles.by_id] == ["scout", "other"]
    assert "profile scout: model demo: (AGENTRAIL_MODEL is set)" in capfd.readouterr().err
    write(place, f'[defaults]\ntools = ["write_file"]\n{AGENTS}')
    made, options = decide_all(ServeFlags(), ConfigFiles(trust_project=True), None)
    with pytest.raises(OptionError, match="shared_workspace"):
        await make_default_application(options, made, has_tokens=True)


def test_an_application_of_ones_own_says_where_its_sessions_are(place):
    """What listens holds for it too; the data directory of files and of the environment is for those that files make."""
    write(place, '[host]\nport = 9000\ndata_dir = "d"\n')
    made = decide_all(ServeFlags(), ConfigFiles(trust_project=True), "mine:app")[1]
    assert (made.port, made.data_dir) == (9000, None)
    demo = decide_all(ServeFlags(demo=True), ConfigFiles(trust_project=True), None)[1]
    assert (demo.port, demo.why) == (8700, {})
    with pytest.raises(OptionError, match="--data-dir is for serving without"):
        decide_all(ServeFlags(data_dir=Path("d")), ConfigFiles(), "mine:app")


# --- trust


@pytest.mark.blueprint("G-026")
def test_an_untrusted_project_serves_no_more_than_without_it(place, capfd):
    """G-026: not elsewhere, to nobody else, with no tokens of its own; fewer agents, no console and smaller limits are let be."""
    write(
        place,
        '[host]\nhost = "0.0.0.0"\nport = 1\ntoken_file = "mine.toml"\nallowed_origins = ["https://evil.example"]\nstore = "sqlite:/tmp/x"\n'
        'console = false\ninspector = true\nprofiles = ["scout", "none"]\nshell_fallback = "unconfined"\nshared_workspace = true\n'
        f"limits = {{ max_streams = 3, max_body_bytes = 99999999 }}\n{AGENTS}",
    )
    made, options = decide_all(ServeFlags(), ConfigFiles(), None)
    assert options == ServeOptions()
    granted = {"console": False, "profiles": ("scout",), "limits.max_streams": 3}
    assert {name: one.plain for name, one in made.settings.host.items()} == granted
    first = capfd.readouterr().err.splitlines()[0]
    for refused in ("host.host = 0.0.0.0", "host.port = 1", "host.token_file", "the profile none"):
        assert refused in first
    assert [str(one) for one in made.not_granted if "host" in str(one)][-1] == (
        "host.limits.max_body_bytes = 99999999 (agentrail.toml:12)"
    )


# Few names, so that the user and the project often speak of the same limit; of one nothing is said where no one does.
LIMIT = st.tuples(
    st.sampled_from(["max_attachments", "messages_per_minute", "cost_per_day_usd"]), st.integers(1, 80)
)
HOSTS = st.fixed_dictionaries(
    {},
    optional={
        "host": st.just('"0.0.0.0"'),
        "console": st.sampled_from(["true", "false"]),
        "inspector": st.sampled_from(["true", "false"]),
        "profiles": st.lists(st.sampled_from(["a", "b", "c"]), max_size=3).map(
            lambda one: as_toml(tuple(one))
        ),
        "drain_timeout": st.just("1.0"),
        "protocols": st.just("[]"),
        "limits": st.lists(LIMIT, max_size=4, unique_by=lambda one: one[0]).map(
            lambda pairs: f"{{ {', '.join(f'{name} = {value}' for name, value in pairs)} }}"
        ),
    },
)


@pytest.mark.blueprint("G-026")
@example({"limits": "{ max_attachments = 8 }"}, {"limits": "{ max_attachments = 5 }"})
@example(
    {"console": "true", "inspector": "true", "profiles": '["a", "c"]'},
    {"console": "false", "profiles": '["a"]'},
)
@given(HOSTS, HOSTS)
def test_no_untrusted_file_serves_more_than_is_served_without_it(said, floor):
    """G-026: whatever it says, each limit is at most that of the user or the usual one, and nothing but switches and agents is left."""

    def table(values, agents):
        lines = [f"{name} = {value}" for name, value in values.items()]
        return "\n".join(["[host]", *lines, *(f"[agents.{one}]" for one in agents), ""])

    own = joined(user(table(floor, "ab")))
    left, _ = narrow_settings(joined(project(table(said, "c"))), own)
    result = merge_settings(left, own).host
    for name, limit in HOST_LIMITS.items():
        key = f"limits.{name}"
        most = own.host[key].value if key in own.host else limit
        assert most is None or key not in result or result[key].value <= most
    for name in ("console", "inspector"):
        assert name not in left.host or left.host[name].value is False
    switches = {"console", "inspector", "profiles"}
    assert {name for name in left.host if not name.startswith("limits.")} <= switches
    may = own.host["profiles"].plain if "profiles" in own.host else ("a", "b", "c")
    assert "profiles" not in left.host or set(left.host["profiles"].plain) <= set(may)
