"""The layers contract knows every room on disk, and the purity contract every pure one."""

import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
PURE_ROOMS = {
    "structs",
    "errors",
    "frozen",
    "messages",
    "events",
    "otp",
    "core",
    "plugins",
    "typed",
    "wire",
    "protocols",
    "config",
    "commands",
}
LINTER = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
LAYERS, PURITY = LINTER["contracts"][:2]


def rooms_on_disk() -> set[str]:
    """The modules and packages directly below the façade."""
    package = ROOT / "agentrail"
    files = {path.stem for path in package.glob("*.py") if path.stem != "__init__"}
    folders = {path.parent.name for path in package.glob("*/__init__.py")}
    return files | folders


def rooms_in_layers() -> dict[str, bool]:
    """Each room that the layers name, and whether it is said to exist."""
    written = [room.strip() for line in LAYERS["layers"] for room in line.split("|")]
    return {room.strip("()"): not room.startswith("(") for room in written}


def test_parentheses_say_what_is_not_written_yet():
    """A room stands in parentheses exactly while it does not exist."""
    said_to_exist = {room for room, exists in rooms_in_layers().items() if exists}
    assert said_to_exist == rooms_on_disk() - set(LAYERS["exhaustive_ignores"])


def test_every_pure_room_is_held_to_purity():
    """The purity contract names exactly the pure rooms that exist."""
    assert set(PURITY["source_modules"]) == {f"agentrail.{room}" for room in PURE_ROOMS & rooms_on_disk()}


def test_the_contract_is_exhaustive():
    """A room that nobody placed fails the build."""
    assert LAYERS["exhaustive"] is True
