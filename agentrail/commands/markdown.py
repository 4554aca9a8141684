"""Turns a Markdown file into a command: front matter (`description`, `argument-hint`, `agent`, `model`), then a prompt. Pure."""

from collections.abc import Iterable, Sequence
from typing import Final, Literal, TypeAlias

from attrs import frozen

from agentrail.commands.built_in import built_in_commands
from agentrail.commands.slash_command import COMMAND_NAME, CommandAnswer, CommandCall, SlashCommand
from agentrail.commands.template import expand_prompt
from agentrail.config.front_matter import HeadFault, read_yaml_head
from agentrail.errors.name_guesses import guess_name

CommandSource: TypeAlias = Literal["project", "user"]

MAX_COMMAND_BYTES: Final = 64 * 1024
KEYS: Final = ("description", "argument-hint", "agent", "model")
_MAX_LINE: Final = 500
_MAX_DESCRIPTION: Final = 100


@frozen(kw_only=True)
class CommandFile:
    """A command file.

    Attributes:
        name: Its name in messages.
        path: Its path below the directory of commands, with `/`: `git/commit.md`.
        data: Its bytes. One more than the limit if it is too long.
        source: Its origin.
        granted: Whether more than its text applies: an untrusted project must not choose the `model`.
    """

    name: str
    path: str
    data: bytes
    source: CommandSource
    granted: bool = True


def read_command(file: CommandFile) -> SlashCommand | str:
    """Turn a file into a command.

    Returns:
        The command, or the reason why there is none, with file and line.
    """
    name = file.path.removesuffix(".md").replace("/", ":").lower()
    if not COMMAND_NAME.fullmatch(name):
        return f"{file.name}: /{name:.80} is not a command name: expected a-z 0-9 _ - in files and directories, at most 8 of them deep"
    if any(one.name == name for one in built_in_commands()):
        return f"{file.name}: /{name} is built in: give the file another name"
    if len(file.data) > MAX_COMMAND_BYTES:
        return f"{file.name}: expected at most {MAX_COMMAND_BYTES // 1024} KiB: make it shorter"
    try:
        text = file.data.decode("utf-8").removeprefix("\ufeff")
    except UnicodeDecodeError:
        return f"{file.name}: expected UTF-8: save the file as UTF-8"
    head: dict[str, object] = {}
    body = text.replace("\r\n", "\n")
    if body.split("\n", 1)[0].rstrip() == "---":
        try:
            read = read_yaml_head(text)
        except HeadFault as fault:
            return f"{file.name}:{fault.line}: {fault.said}"
        head, body = read.values, read.body
        for key, value in head.items():
            said = _fault_of(key, value)
            if said is not None:
                return f"{file.name}:{read.lines.get((key,), 1)}: {said}"
    if not body.strip():
        return f"{file.name}: there is no prompt: write it below the front matter"
    return _command(file, name, {key: str(value) for key, value in head.items()}, body.strip("\n"))


def commands_of_files(files: Iterable[CommandFile]) -> tuple[tuple[SlashCommand, ...], tuple[str, ...]]:
    """Turn all files into commands. A command of the project replaces the user's command of the same name.

    Returns:
        The commands by name, and the reasons for left-out files, a sentence each.
    """
    found: dict[str, SlashCommand] = {}
    left_out: list[str] = []
    of_both: Sequence[CommandFile] = sorted(files, key=lambda one: (one.source == "project", one.path))
    for file in of_both:
        made = read_command(file)
        if isinstance(made, str):
            left_out.append(made)
        elif made.name in found and found[made.name].source == made.source:
            left_out.append(
                f"{file.name}: /{made.name} is already defined in another file: names are case-insensitive"
            )
        else:
            found[made.name] = made
    return tuple(found[name] for name in sorted(found)), tuple(left_out)


def _command(file: CommandFile, name: str, head: dict[str, str], body: str) -> SlashCommand:
    model = head.get("model")

    async def run(call: CommandCall) -> CommandAnswer:  # noqa: RUF029 - a command's function is async
        prompt = expand_prompt(body, call.text, name=name)
        if model is None or file.granted:
            return CommandAnswer(prompt=prompt, model=model)
        said = f"{model}, which {file.name} names, is not used: the project is not trusted (agentrail trust)"
        return CommandAnswer(prompt=prompt, lines=(said,))

    return SlashCommand(
        name=name,
        description=head.get("description") or _first_line(body),
        arguments=head.get("argument-hint", ""),
        run=run,
        needs_session=model
        is not None,  # to switch its model; without a model, a chat can start with the command
        in_history=True,
        background=False,
        source=file.source,
        agent=head.get("agent"),
    )


def _fault_of(key: str, value: object) -> str | None:
    if key not in KEYS:
        return f"{key}: unknown key, {guess_name(key, KEYS)}"
    if isinstance(value, list) and key == "argument-hint":  # front matter parses `[file] [line]` as a list
        return f"{key}: YAML reads a text that begins with [ as a list: put it in quotes"
    if not isinstance(value, str) or not value.strip() or len(value) > _MAX_LINE:
        return f"{key}: expected a text of 1 to {_MAX_LINE} characters"
    return None


def _first_line(body: str) -> str:
    line = next(line for line in body.split("\n") if line.strip()).strip().lstrip("# ")
    return line if len(line) <= _MAX_DESCRIPTION else f"{line[: _MAX_DESCRIPTION - 1]}…"
