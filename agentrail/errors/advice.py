"""Advice for every known failure, in one table.

A row about an option names its command-line and Python spelling.
"""

import enum
import json
from typing import Final

WHAT_TO_DO: Final = "What to do: "
"""Prefix of advice. A reader that adds its own advice checks for it first."""
_BETWEEN: Final = f". {WHAT_TO_DO}"


class Advice(enum.Enum):
    """Advice by cause.

    Attributes:
        cause: The user's mistake, or the obstacle.
        words: Advice, whose placeholders `advise` fills in.
    """

    def __init__(self, cause: str, words: str) -> None:
        self.cause = cause
        self.words = words

    # --- accounts and keys

    NO_CREDIT = (
        "The account has no credit left, or has reached its limit (`insufficient_quota`, `billing_error`, 402).",
        (
            "add credit, or raise the limit of the account, on the billing page of the vendor; waiting or retrying does not help"
        ),
    )
    KEY_WANTED = (
        "A server of one's own wants a key, and there is none (401).",
        "the server wants a key, and none was sent: {key_help}",
    )
    REGION = (
        "The vendor does not serve this country or region (403 of OpenAI, 400 of Gemini).",
        "the vendor does not serve your country or region, whatever the key: name a model of another vendor, or a server that you may use",
    )
    WRONG_KEY = ("The key is wrong, or may not do this (401, 403).", "correct the key: {key_help}")
    KEY_OF_ANOTHER = (
        "The key is one of another vendor, such as `sk-ant-…` for `openai:`.",
        "the key looks like one of {owner}, but this is {vendor}: {key_help}{instead}",
    )
    NO_KEY = ("There is no key.", "set {variable}, or try --model demo: which needs none")

    # --- addresses

    NO_VERSION = (
        "`base_url` of a compatible server lacks its `/v1` (404).",
        "base_url lacks the /v1 at its end that compatible servers need: {setting}",
    )
    CALL_IN_URL = (
        "`base_url` ends in the path of a call, such as `/chat/completions`, `/responses` or `/messages`.",
        "remove {call!r}, which is added automatically: {url!r}",
    )
    NO_RESPONSES = (
        "`openai:` with a server that knows Chat Completions only (404).",
        "use openai-chat: if this server supports only Chat Completions and not Responses",
    )
    REDIRECT = (
        "The server redirects to another address (301, 302, 303, 307, 308).",
        (
            "if {url} is the right server, use it as base_url: {setting}; redirects are not followed, because they would receive the key"
        ),
    )
    REDIRECT_NOWHERE = (
        "The server redirects, and does not say where to.",
        "check base_url (--base-url with the command); redirects are not followed, because they would receive the key",
    )
    WEB_PAGE = (
        "A web page came in place of an answer: of a proxy, a login, or another server.",
        (
            "that is a web page, not a model's answer: check base_url (--base-url with the command), and whether a proxy or a login page intercepts the request"
        ),
    )
    OTHER_FORMAT = (
        "What came is not of the format of the provider.",
        "check base_url (--base-url with the command): it must point to a server that speaks this format",
    )

    # --- connections

    REFUSED = (
        "No server listens at `base_url`.",
        (
            "check that the server is running and that the port is right. Ollama uses port 11434 and base_url http://localhost:11434/v1. Otherwise check the network and --base-url (base_url in a program)"
        ),
    )
    NO_SUCH_HOST = (
        "The host of `base_url` has no address: a slip in its name, or no network.",
        "check the host name in base_url. Otherwise check the network and --base-url (base_url in a program)",
    )
    NO_NETWORK = (
        "The vendor itself cannot be reached, and no `base_url` was given.",
        (
            "check that this machine is online: {host} cannot be reached. Behind a proxy, set HTTPS_PROXY; offline, name a local server "
            "(--base-url with the command) or --model demo:"
        ),
    )
    UNREACHABLE = (
        "No connection comes about, for any other reason.",
        "check that the server is running. Otherwise check the network and --base-url (base_url in a program), then try again",
    )
    PROXY = (
        "The proxy that the environment names cannot be used.",
        "check the variables HTTPS_PROXY, HTTP_PROXY and ALL_PROXY, or ignore them: {setting}",
    )
    CERTIFICATE = (
        "The certificate of the server is not trusted: of a proxy of your company, or made by yourself.",
        "name the file of the certificate authority that signed it: {setting}; or check the host in base_url (--base-url with the command)",
    )
    NO_TLS = (
        "`https://` for a server that speaks `http://`, or that breaks off the handshake.",
        "check that the server speaks https:// on that port; if not, write http:// in base_url (--base-url with the command)",
    )

    # --- time

    STALLED = (
        "A stream went silent for longer than `stall_seconds`.",
        "try again; if this model is that slow, raise stall_seconds: {setting}",
    )
    NO_ANSWER = (
        "No answer began within `timeout`.",
        "try again; if this model thinks for longer, raise timeout: {setting}",
    )

    PASSING = (
        "The vendor is overloaded, limits your rate or took too long (429, 5xx, 408).",
        "try again in {when}, or name another model (--model with the command)",
    )

    # --- models

    NO_TOOLS = (
        "The model takes no tools (400 of Ollama).",
        "name a model that supports tools, or run without tools: --tools none with the command, tools=[] in a program",
    )
    OPTION_REFUSED = (
        "The model does not take an option that was set, such as `temperature`.",
        "omit {option}, or give another value: {setting}",
    )
    EMPTY = (
        "The answer is empty: thinking used all tokens, or a server of one's own cut the prompt.",
        "ask again in other words, raise max_output_tokens, or name another model",
    )
    MODEL_WITHOUT_PROVIDER = ("A model without its provider, such as `gpt-5`.", "Did you mean {model!r}?")
    PROVIDER_UNKNOWN = (
        "A provider that does not exist, such as `claude:` or `ollama:`.",
        "Did you mean {model!r}{address}?",
    )
    MODEL_UNKNOWN = (
        "The vendor has no such model, or not for this account.",
        "check the part of the model string after the colon (--model with the command)",
    )
    MODEL_NOT_SERVED = (
        "A server of one's own has no such model.",
        (
            "check the part of the model string after the colon (--model with the command): GET {url}/models lists the server's models, as does `agentrail doctor`; Ollama fetches a model with `ollama pull`"
        ),
    )
    WINDOW_FULL = (
        "The conversation is longer than the window of the model.",
        ("ask for less, or name a model with a larger window; if it is smaller than assumed: {setting}"),
    )


def advise(row: Advice, **known: str) -> str:
    """Return a row's advice with its placeholders filled in."""
    return row.words.format_map(known)


def setting(option: str, value: float | str | bool | None = None) -> str:  # noqa: FBT001 - the value of an option
    """Return how to set a provider option, on the command line and in Python."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    typed = "…" if value is None else json.dumps(value) if isinstance(value, bool) else str(value)
    written = repr(value) if isinstance(value, bool) else typed if value is None else json.dumps(value)
    command = f"--base-url {typed}" if option == "base_url" else f"--opt {option}={typed}"
    return f'{command} with the command, provider_opts={{"{option}": {written}}} in a program'


def with_advice(said: str, *advice: str) -> str:
    """Append advice to a message, if there is any."""
    given = "; or: ".join(one for one in advice if one)
    return f"{said.rstrip().rstrip('.')}{_BETWEEN}{given}" if given else said


def without_advice(message: str) -> str:
    """Strip the advice from a message."""
    return message.partition(_BETWEEN)[0]


def with_remark(message: str, remark: str) -> str:
    """Insert a remark between a message and its advice."""
    said, between, advice = message.partition(_BETWEEN)
    return f"{said} ({remark}){between}{advice}"
