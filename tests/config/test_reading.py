"""One file, read: all that is wrong with it at once, each with its line, and never a key."""

import pytest
from hypothesis import given, strategies as st

from agentrail.config.config_file import MAX_CONFIG_BYTES, decode_file, read_agent, read_toml
from agentrail.config.schema import BudgetForm, HeaderForm, PluginForm, PromptForm, SecretForm
from agentrail.config.structure import structure_server

KEYS = [
    "sk-proj-abcdefghijklmnop1234",
    "sk-ant-api03-abcdefghijklmnop",
    "AIzaSyA1234567890abcdefghijkl",
    "ghp_abcdefghijklmnopqrstuvwxyz0123",
    "AKIAIOSFODNN7EXAMPLE",
    "xoxb-1234567890-abcdef",
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.c2lnbmF0dXJl",
    "Bearer abcdefghijklmnop1234",
    "-----BEGIN RSA PRIVATE KEY-----MIIabc",
]


def faults_of(text: str) -> list[str]:
    """What is wrong with a file, as it is printed."""
    return [str(fault) for fault in read_toml("f.toml", text).faults]


TEN_FAULTS = """\
version = 1
verison = 1
[defaults]
max_turns = "ten"
on_max_turns = "abrt"
[agents.coder]
max_turn = 5
tools = ["read_file", 4, "shell"]
budget = { max_cost_usd = 1.5, max_cost = 2 }
permissions.denny = ["shell(rm *)"]
[[agents.coder.plugins]]
use = "SecurityGuard"
[[agents.coder.plugins]]
use = "SecurityGuard"
optoins = {}
[[agents.coder.plugins]]
options = {}
[providers.openai]
api_key = "hunter2"
timeout = true
"""


@pytest.mark.blueprint("G-002")
def test_all_faults_of_a_file_are_said_at_once():
    """G-002: unknown keys in tables, arrays of tables, inline tables and dotted keys, wrong types, something missing."""
    said = faults_of(TEN_FAULTS)
    wanted = [
        "f.toml:2: verison: unknown key, did you mean 'version'",
        "f.toml:4: defaults.max_turns: expected a whole number, got the text 'ten'",
        "f.toml:5: defaults.on_max_turns: expected one of answer, abort, stop, got the text 'abrt': did you mean 'abort'",
        "f.toml:7: agents.coder.max_turn: unknown key, did you mean 'max_turns'",
        "f.toml:8: agents.coder.tools[1]: expected a text, got 4",
        "f.toml:9: agents.coder.budget.max_cost: unknown key, did you mean 'max_cost_usd'",
        "f.toml:10: agents.coder.permissions.denny: unknown key, did you mean 'deny'",
        "f.toml:15: agents.coder.plugins[1].optoins: unknown key, did you mean 'options'",
        "f.toml:16: agents.coder.plugins[2].use: is missing: write it",
        "f.toml:20: providers.openai.timeout: expected a finite number, got true",
    ]
    assert [one for one in said if "f.toml:19:" not in one] == wanted
    assert next(one for one in said if "f.toml:19:" in one).startswith(
        "f.toml:19: providers.openai.api_key: "
    )


def test_what_is_right_is_kept_with_its_lines():
    """Items behind a faulty one move up, and so do their lines."""
    read = read_toml("f.toml", TEN_FAULTS)
    coder = read.form.agents["coder"]
    assert coder.tools == ("read_file", "shell")
    assert coder.plugins == (PluginForm(use="SecurityGuard"), PluginForm(use="SecurityGuard"))
    assert coder.budget == BudgetForm(max_cost_usd=1.5)
    assert [read.place("agents", "coder", "plugins", place).line for place in (0, 1)] == [11, 13]
    moved = read_toml("f.toml", '[defaults]\ntools = [\n  1,\n  "a",\n  2,\n  "b",\n]\n')
    assert moved.form.defaults.tools == ("a", "b")
    assert [moved.place("defaults", "tools", place).line for place in (0, 1)] == [4, 6]


@pytest.mark.blueprint("G-003")
@pytest.mark.parametrize("key", KEYS)
def test_a_key_literal_is_refused_and_said_nowhere(key):
    """G-003: wherever it stands, as a value or as the name of one, also in a file that is no TOML."""
    texts = [
        f'[providers.openai]\napi_key = "{key}"\n',
        f'[agents.a]\ndescription = "use {key}"\n',
        f'[agents.a]\ntools = ["{key}"]\n',
        f'[agents.a]\nmodel = {{ "{key}" = 1 }}\n',
        f'["{key}"]\nx = 1\n',
        f'[agents."{key}"]\n',
        f'"{key}" = 1\n"{key}" = 2\n',
        f'x = "{key}\n',
        f'[agents.a]\nuser_data = {{ a = [{{ b = "{key}" }}] }}\n',
    ]
    for text in texts:
        read = read_toml("f.toml", text)
        assert read.faults, text
        assert key not in f"{read.faults} {[str(one) for one in read.faults]} {read.form}", text


@pytest.mark.blueprint("G-003")
@given(
    st.text(alphabet="abcXYZ019!", min_size=1, max_size=20).filter(
        lambda text: text not in "api_keyproviders"
    )
)
def test_a_secret_is_refused_by_its_name_too(secret):
    """A literal where a secret is taken is refused, whatever it looks like, and is in no message."""
    secret = f"!{secret}!"
    for name in ("api_key", "token", "client_secret", "password", "x-api-key"):
        read = read_toml(
            "f.toml", f'[providers.openai]\nheaders = {{ {name} = "{secret}" }}\n{name} = "{secret}"\n'
        )
        assert len(read.faults) >= 2
        assert secret not in f"{[str(one) for one in read.faults]} {read.form}"


def test_secrets_are_said_by_where_they_are():
    """`{ env = … }` and `{ file = … }`, one of both."""
    read = read_toml(
        "f.toml",
        '[providers.openai]\napi_key = { env = "K" }\nheaders = { x = "y", token = { file = "t" } }\n'
        "timeout = 5\n",
    )
    options = read.form.providers["openai"]
    assert read.faults == ()
    assert options.api_key == SecretForm(env="K")
    assert options.headers == {"x": HeaderForm(text="y"), "token": HeaderForm(secret=SecretForm(file="t"))}
    assert [str(SecretForm(env="K")), str(SecretForm(file="t"))] == ['{ env = "K" }', '{ file = "t" }']
    for wrong in ("{}", '{ env = "A", file = "b" }', '{ evn = "A" }', "3", "[]"):
        said = faults_of(f"[providers.openai]\napi_key = {wrong}\n")
        assert said
        assert said[0].startswith("f.toml:2: providers.openai.api_key")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a = \n", "f.toml:1: this is not TOML: Invalid value"),
        ("x = 1\n\nx = 2\n", "f.toml:3: this is not TOML: Cannot overwrite a value"),
        ("[a\n", "f.toml:1: this is not TOML"),
        ("\nx = '''\n\n", "f.toml:2: this is not TOML"),
        (f"a = {'[' * 5000}", "expected at most 32 levels"),
        (f"\na = {'[' * 40}{']' * 40}", "f.toml:2: expected at most 32 levels"),
        (f"\n{'a.' * 100_000}b = 1", "f.toml:2: a key of over 32 parts"),
        ("version = 2", "f.toml:1: version: expected 1, the only supported version, got 2"),
        ('[agents."a b"]', 'f.toml:1: agents."a b": expected a name of 1 to 64 of A-Z a-z 0-9 _ -'),
        ("agents = 3", "f.toml:1: agents: expected a table, got 3"),
        ('[defaults]\ntools = "shell"', "f.toml:2: defaults.tools: expected a list, got the text 'shell'"),
        ("[defaults]\ntools = {}", "f.toml:2: defaults.tools: expected a list, got a table"),
        ("[defaults]\nbase_prompt = 1", "f.toml:2: defaults.base_prompt: expected true or false, got 1"),
        ("[defaults]\nmax_turns = true", "f.toml:2: defaults.max_turns: expected a whole number, got true"),
        ("[defaults]\nprompt = 1", 'f.toml:2: defaults.prompt: expected a text, or { file = "path" }, got 1'),
        ("[defaults]\nprompt = {}", "f.toml:2: defaults.prompt.file: is missing"),
        (
            '[defaults]\nprompt = { text = "a", file = "b" }',
            "f.toml:2: defaults.prompt: there are two prompts, text and file",
        ),
        (
            "[defaults]\nprompt = { replace = { a = 1 } }",
            "f.toml:2: defaults.prompt.replace.a: expected a text",
        ),
        ("[defaults]\non_max_turns = []", "expected one of answer, abort, stop, got a list"),
        ("[defaults]\nprompt_mode = 'zzz'", "expected one of full, task, minimal, none, got the text 'zzz'"),
        ("[defaults]\napproval_timeout_seconds = inf", "expected a finite number, got inf"),
        (f"[defaults]\nmax_turns = '{'x' * 500}'", "xxx…'"),
        ("[defaults]\nzzz = 1", "f.toml:2: defaults.zzz: unknown key, expected one of model, prompt,"),
        ("[[agents]]\nx = 1", "f.toml:1: agents: expected a table, got a list"),
    ],
)
def test_a_fault_says_what_was_expected(text, said):
    """File, line, dotted path, what was expected, what came."""
    found = faults_of(text)
    assert len(found) == 1
    assert said in found[0]


@given(
    st.binary(max_size=60)
    | st.text(max_size=60).map(str.encode)
    | st.sampled_from([b"[[a]]\n", b'"\\u0000"=1'])
)
def test_any_bytes_are_a_file_or_faults(data):
    """No bytes raise anything."""
    text, faults = decode_file("f", data)
    if not faults:
        read_toml("f", text)
        read_agent("f", "a", text)


def test_bytes_that_are_no_text_are_refused():
    """By their line, and before they are read where there are too many."""
    assert str(decode_file("f", b"a\nb\xff")[1][0]).startswith("f:2: expected UTF-8")
    assert "at most 256 KiB" in str(decode_file("f", b" " * (MAX_CONFIG_BYTES + 1))[1][0])
    assert decode_file("f", "é".encode()) == ("é", ())


AGENT = """\
---
description: Reads: all of it.
model: demo:
tools: read_file, grep
fallback_models: []
plugins:
- SecurityGuard
max_turns: 7
approval_timeout_seconds: 1.5
background: true
budget:
  max_cost_usd: 2
permissions:
  deny: ["shell(rm *)", x]
---

You read.

All of it.
"""


def test_an_agent_is_a_markdown_file():
    """Scalars are read as what is wanted, what stands below is the prompt, lines are those of the file."""
    read = read_agent("a.md", "reader", AGENT)
    assert read.faults == ()
    agent = read.form.agents["reader"]
    assert (agent.tools, agent.fallback_models, agent.max_turns) == (("read_file", "grep"), (), 7)
    assert (agent.approval_timeout_seconds, agent.background) == (1.5, True)
    assert agent.prompt == PromptForm(text="You read.\n\nAll of it.")
    assert agent.permissions is not None
    assert agent.permissions.deny == ("shell(rm *)", "x")
    assert read.place("agents", "reader", "prompt").line == 17
    assert read.place("agents", "reader", "budget", "max_cost_usd").line == 12


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("You are.", "a.md:1: expected front matter"),
        (
            "---\nmax_turns: many\n---\n",
            "a.md:2: agents.a.max_turns: expected a whole number, got the text 'many'",
        ),
        ("---\nbackground: yes\n---\n", "a.md:2: agents.a.background: expected true or false"),
        (
            "---\nbudget:\n  max_cost_usd: lots\n---\n",
            "a.md:3: agents.a.budget.max_cost_usd: expected a number",
        ),
        ("---\nmax_turns:\n- 1\n---\n", "a.md:2: agents.a.max_turns: expected a whole number, got a list"),
        ("---\nprompt: x\n---\ny\n", "a.md:2: agents.a.prompt: there are two prompts"),
        ("---\ncolour: x\n---\n", "a.md:2: agents.a.colour: unknown key"),
        (
            "---\ndescription: sk-abcdefghijklmnopqrst\n---\n",
            "a.md:2: agents.a.description: this looks like a key",
        ),
        (
            "---\nmodel: demo:\n---\nsk-abcdefghijklmnopqrst\n",
            "a.md:4: agents.a.prompt: this looks like a key",
        ),
    ],
)
def test_a_fault_of_an_agent_has_its_line(text, said):
    """As in TOML."""
    found = [str(fault) for fault in read_agent("a.md", "a", text).faults]
    assert len(found) == 1
    assert said in found[0]
    assert "sk-abc" not in found[0]


def test_a_server_s_table_is_read_apart_from_its_file():
    """Its login is "oauth" or a token; another value is named, as is a table that is none."""
    form, faults = structure_server({"url": "https://x.example", "auth": {"bearer": {"env": "T"}}})
    assert (faults, form.auth.oauth, form.auth.bearer.env) == ([], False, "T")
    form, faults = structure_server({"url": "https://x.example", "auth": "oauth"})
    assert (faults, form.auth.oauth, form.auth.bearer) == ([], True, None)
    for wrong in ({"auth": "basic"}, {"auth": 7}, {"tools": 7}, 7):
        form, faults = structure_server(wrong)
        assert (form, bool(faults)) == (None, True)


def test_a_byte_order_mark_is_no_part_of_a_file():
    """Editors on Windows write one."""
    assert decode_file("f.toml", b"\xef\xbb\xbfversion = 1\n") == ("version = 1\n", ())
