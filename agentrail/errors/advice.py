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
            "add credit, or raise the limit of the account, on the billing page of the vendor; to wait or to send the request "
            "again does not help"
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
        "the key begins like those of {owner}, and this is {vendor}: {key_help}{instead}",
    )
    NO_KEY = ("There is no key.", "set {variable}, or try --model demo: which needs none")

    # --- addresses

    NO_VERSION = (
        "`base_url` of a compatible server lacks its `/v1` (404).",
        "base_url has no /v1 at its end, and those of compatible servers do: {setting}",
    )
    CALL_IN_URL = (
        "`base_url` ends in the path of a call, such as `/chat/completions`, `/responses` or `/messages`.",
        "leave out {call!r}, which is added to it: {url!r}",
    )
    NO_RESPONSES = (
        "`openai:` with a server that knows Chat Completions only (404).",
        "does this server speak Responses? Those that know Chat Completions only want openai-chat:",
    )
    REDIRECT = (
        "The server redirects to another address (301, 302, 303, 307, 308).",
        (
            "if {url} is the server you mean, make it the base_url: {setting}; a redirect is not followed, because the key would "
            "travel along"
        ),
    )
    REDIRECT_NOWHERE = (
        "The server redirects, and does not say where to.",
        "look at base_url (--base-url with the command); a redirect is not followed, because the key would travel along",
    )
    WEB_PAGE = (
        "A web page came in place of an answer: of a proxy, a login, or another server.",
        (
            "that is a web page and not an answer of a model: look at base_url (--base-url with the command), and whether a proxy "
            "or a login stands in the way"
        ),
    )
    OTHER_FORMAT = (
        "What came is not of the format of the provider.",
        "look at base_url (--base-url with the command): is there a server that speaks this format?",
    )

    # --- connections

    REFUSED = (
        "No server listens at `base_url`.",
        (
            "is the server running, and is that its port? Ollama's is 11434, and its base_url http://localhost:11434/v1. Else look "
            "at the network and at --base-url (in a program base_url)"
        ),
    )
    NO_SUCH_HOST = (
        "The host of `base_url` has no address: a slip in its name, or no network.",
        "is the name of the host in base_url right? Else look at the network and at --base-url (in a program base_url)",
    )
    NO_NETWORK = (
        "The vendor itself cannot be reached, and no `base_url` was given.",
        (
            "is this machine online? {host} cannot be reached. Behind a proxy set HTTPS_PROXY; without a network name a local server "
            "(--base-url with the command) or --model demo:"
        ),
    )
    UNREACHABLE = (
        "No connection comes about, for any other reason.",
        "is the server running? Else look at the network and at --base-url (in a program base_url), then try again",
    )
    PROXY = (
        "The proxy that the environment names cannot be used.",
        "look at the variables HTTPS_PROXY, HTTP_PROXY and ALL_PROXY, or leave them out of account: {setting}",
    )
    CERTIFICATE = (
        "The certificate of the server is not trusted: of a proxy of your company, or made by yourself.",
        "name the file with the authority that signed it: {setting}; or look at the host in base_url (--base-url with the command)",
    )
    NO_TLS = (
        "`https://` for a server that speaks `http://`, or that breaks off the handshake.",
        "does the server speak https:// at that port? Else write http:// in base_url (--base-url with the command)",
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
        "name a model that supports tools, or run without: --tools none with the command, tools=[] in a program",
    )
    OPTION_REFUSED = (
        "The model does not take an option that was set, such as `temperature`.",
        "leave {option} out, or give another value: {setting}",
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
        "look at the part of the model string after the colon (--model with the command)",
    )
    MODEL_NOT_SERVED = (
        "A server of one's own has no such model.",
        (
            "look at the part of the model string after the colon (--model with the command): GET {url}/models lists what the server "
            "has, and `agentrail doctor` asks for it; Ollama fetches a model with `ollama pull`"
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
