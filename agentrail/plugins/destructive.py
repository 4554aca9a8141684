"""The destructive commands that `SecurityGuard` knows by their names and words."""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from agentrail.plugins.shell_lines import Command

_POWER: Final = frozenset({"poweroff", "reboot", "halt", "kexec", "rescue", "emergency"})


def _removes_by_force(operands: Sequence[str]) -> bool:
    """Recursive and forced, in any spelling; what stands behind `--` are names."""
    options = [
        word for word in operands[: operands.index("--") if "--" in operands else None] if word[:1] == "-"
    ]
    short = "".join(word[1:] for word in options if not word.startswith("--"))
    long = [word for word in options if len(word) > len("--")]
    recursive = bool(set(short) & set("rR")) or any("--recursive".startswith(word) for word in long)
    return recursive and ("f" in short or any("--force".startswith(word) for word in long))


def _kills_all(operands: Sequence[str]) -> bool:
    """Process -1 is every process; the first `-1` may be a signal, unless another one or `--` stood before it."""
    return "-1" in operands[1:] or list(operands[:1]) == ["--"]


_DESTROYERS: Final[Mapping[str, tuple[Callable[[Sequence[str]], bool], str]]] = {
    "rm": (_removes_by_force, "removes folders by force"),
    "dd": (lambda words: any(word.startswith("if=") for word in words), "copies over raw devices or files"),
    "shred": (lambda _: True, "destroys what it is given"),
    "kill": (_kills_all, "kills all processes"),
    "killall5": (lambda _: True, "kills all processes"),
    "pkill": (lambda words: any(word in {".", ".*", ""} for word in words), "kills all processes"),
    "killall": (lambda words: any(word in {".", ".*", ""} for word in words), "kills all processes"),
    "init": (lambda words: list(words[:1]) in (["0"], ["6"]), "shuts the machine down"),
    "telinit": (lambda words: list(words[:1]) in (["0"], ["6"]), "shuts the machine down"),
    "systemctl": (lambda words: bool(_POWER & set(words)), "shuts the machine down"),
    **dict.fromkeys(("shutdown", "reboot", "halt", "poweroff"), (lambda _: True, "shuts the machine down")),
    **dict.fromkeys(
        ("fdisk", "sfdisk", "cfdisk", "mkfs"), (lambda _: True, "writes file systems or partitions")
    ),
}


def destroys(command: Command) -> str | None:
    """Say what a command destroys; None for one that destroys nothing by its name."""
    program = command.program.partition(".")[0] if command.program.startswith("mkfs.") else command.program
    found = _DESTROYERS.get(program)
    if found is None or not found[0](command.words[1:]):
        return None
    return found[1]
