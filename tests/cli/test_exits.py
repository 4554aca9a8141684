"""Exit codes, and errors as sentences."""

import subprocess
import sys
from types import SimpleNamespace

import trio

from agentrail.cli.chat_session import Chat
from agentrail.cli.exit_codes import ADVICE, Exit, describe_error, describe_failure, exit_of
from agentrail.cli.stdio import write_error
from agentrail.errors import ErrorInfo, OptionError, ProviderError, RemoteRefused
from agentrail.events import AbortReceipt, AbortSettled, AgentAbort, AgentEnd, AgentError
from agentrail.messages import TokenUsage

INFO = ErrorInfo(code="rate_limited", message="too many requests.", retry_after_seconds=7.0)


def test_the_end_of_the_cycle_decides_the_exit_code():
    """0 done, 1 failed and aborted, which is over when it has settled, 2 wrong usage, 130 interrupted."""
    for event, code in (
        (AgentEnd(messages=(), usage=TokenUsage(), stop_reason="end"), Exit.DONE),
        (AgentError(error=INFO), Exit.FAILED),
        (AgentAbort(reason=None), None),
        (AbortSettled(receipt=AbortReceipt()), Exit.FAILED),
    ):
        assert exit_of(event) is code
    codes = {"DONE": 0, "FAILED": 1, "USAGE": 2, "NOTHING_LEFT": 3, "INTERRUPTED": 130}
    assert {code.name: code.value for code in Exit} == codes


def test_a_failure_says_what_happened_and_what_to_do():
    """Each failure of a provider has advice, with the time to wait where the server said it; an unknown code has the message alone."""
    codes = {ProviderError.code, *(kind.code for kind in ProviderError.__subclasses__())}
    assert codes <= set(ADVICE)
    assert describe_failure(INFO) == "too many requests. What to do: try again in 7 s."
    assert (
        describe_failure(ErrorInfo(code="stream_stalled", message="silent"))
        == "silent. What to do: try again."
    )
    assert describe_failure(ErrorInfo(code="new", message="silent")) == "silent."


def test_a_question_keeps_its_mark_alone(capfd):
    """No full stop comes after "did you mean 'timeout'?"."""
    asked = "did you mean 'timeout'?"
    write_error(f"{asked}.")
    assert capfd.readouterr().err == f"agentrail: {asked}\n"
    assert describe_error(OptionError([asked])) == asked
    assert (
        describe_error(RemoteRefused("no", code="field_unknown", more={"hint": asked}))
        == f"no. What to do: {asked}"
    )
    assert describe_error(OptionError(["no"])) == "no."


async def test_a_chat_goes_on_where_the_server_takes_no_more_messages_for_a_while():
    """It says how long; the message is none of the chat's."""
    said = []

    async def refuse(_text):
        message = "too many messages"
        raise RemoteRefused(message, code="too_many_requests", more={"retry_after": 7})

    async def say(text):
        said.append(text)

    async def content(text):
        return text

    chat = SimpleNamespace(
        session=SimpleNamespace(prompt=refuse),
        desk=SimpleNamespace(asks_twice=False),
        _say=say,
        _content=content,
        _wait_for_tools=trio.lowlevel.checkpoint,
    )
    await Chat._prompt(chat, "Hi")  # noqa: SLF001 - what a line does
    assert said == ["error: too many messages. What to do: try again in 7 s."]


def test_streams_that_were_closed_can_be_used():
    """Python has no `sys.stdout` then, which the tour and the log use."""
    program = "open_missing_streams(); print(1); sys.stderr.write('2'); sys.exit(len(sys.stdin.read()))"
    line = [
        sys.executable,
        "-c",
        f"import sys; from agentrail.cli.stdio import open_missing_streams; {program}",
    ]
    ran = subprocess.run(["sh", "-c", '"$@" <&- >&- 2>&-', "sh", *line], check=False)
    assert ran.returncode == 0
