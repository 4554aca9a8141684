"""A prompt that a tool source offers to users: the runtime lists it, and a slash command sends it."""

from collections.abc import Awaitable, Callable

from attrs import field, frozen


@frozen(kw_only=True)
class SourcePrompt:
    """A prompt of a tool source.

    Attributes:
        source: Name of the source.
        name: Name of its command, `<source>:<prompt>`.
        description: Its purpose, in a sentence.
        arguments: A hint for its arguments, such as `<city> [state]`.
        expand: Returns the prompt for typed arguments. Raises `CommandError` for invalid ones, or without an answer.
    """

    source: str
    name: str
    description: str
    arguments: str
    expand: Callable[[str], Awaitable[str]] = field(repr=False)
