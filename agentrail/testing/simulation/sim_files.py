"""`.sim` files: a life that broke a promise, saved to be lived again, and the test that lives it.

A file has the draws of the life, and what they depend on: the scenario, the commit, the releases of Python and of packages.
Under another commit the story may still play: draws that are new are calm.
"""

import platform
import subprocess
import sys
import warnings
from collections.abc import Callable
from hashlib import blake2b
from importlib import metadata
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec.structs import replace

from agentrail.distribution import NAME
from agentrail.private_paths import write_private
from agentrail.structs import converter_of
from agentrail.testing.digest import canonical
from agentrail.testing.seeded import NotRepeatable
from agentrail.testing.simulation.facts import INTERRUPTED

if TYPE_CHECKING:
    from agentrail.testing.simulation.life import Report

FORMAT: Final = 1

PACKAGES: Final = (NAME, "attrs", "httpcore", "httpx", "msgspec", "starlette", "trio", "trio-websocket")
"""Packages whose release a life depends on."""

_SAID: Final = 200


class DamagedSimFile(ValueError):
    """A file that is no `.sim` file, is damaged, or has a format of another release."""


class SimFile(msgspec.Struct, frozen=True, kw_only=True):
    """A saved life.

    Attributes:
        format: Version of this format.
        made_with: Commit, release of Python and releases of packages, by name.
        scenario: `module:NAME`.
        schedule: Strategy and depth.
        draws: See `Tape`.
        life: Digest of the life. Empty for a part of one, which Ctrl-C ended.
        broken: Checker and sentence. Empty if it broke nothing.
        digest: Digest of this file, without this field.
    """

    format: int
    made_with: dict[str, str]
    scenario: str
    seed: int | str
    nodes: int
    seconds: float
    schedule: tuple[str, int]
    draws: dict[str, int | float]
    life: str
    broken: tuple[str, ...]
    digest: str = ""

    def sealed(self) -> "SimFile":
        """Return it with its digest."""
        plain = replace(self, digest="")
        return replace(self, digest=blake2b(canonical(plain), digest_size=16).hexdigest())


_CONVERT: Final = converter_of(SimFile)


def save(report: "Report", path: Path) -> Path:
    """Write a life to a file in one step, and return its path.

    Raises:
        ValueError: Your move: the scenario is not defined at the top of a module, so it cannot be found again.
        OSError: The file cannot be written, for example on a full disk. An earlier file is unchanged, and nothing half is left.
    """
    name = name_of_scenario(report.scenario)
    if "<" in name:
        message = f"scenario {name} cannot be saved: define it at the top of a module"
        raise ValueError(message)
    saved = SimFile(
        format=FORMAT,
        made_with=environment(),
        scenario=name,
        seed=report.seed if isinstance(report.seed, int) else str(report.seed),
        nodes=report.nodes,
        seconds=report.seconds,
        schedule=(report.schedule.strategy, report.schedule.depth),
        draws=dict(report.drawn),
        life="" if report.broken is not None and report.broken.checker == INTERRUPTED else report.digest,
        broken=() if report.broken is None else (report.broken.checker, report.broken.said),
    ).sealed()
    _write(path, msgspec.json.format(msgspec.json.encode(saved), indent=1) + b"\n")
    return path


def free_place_for(report: "Report", folder: Path) -> Path:
    """Return the path for a life in a folder, where no life of another scenario is."""
    for number in count(1):
        path = folder / f"seed-{report.seed}{f'-{number}' if number > 1 else ''}.sim"
        try:
            if load_sim_file(path).scenario == name_of_scenario(report.scenario):
                return path
        except DamagedSimFile:
            continue  # of another release
        except OSError:  # usually not there
            return path
    raise AssertionError  # there is always a next number


def name_of_scenario(scenario: Any) -> str:
    """Return `module:NAME` of a scenario. A program has the name of its file, by which others import it."""
    module, name = scenario.__module__, getattr(scenario, "__qualname__", "<no name>")
    if module == "__main__":
        main = sys.modules[module]
        module = main.__spec__.name if main.__spec__ else Path(getattr(main, "__file__", "<stdin>")).stem
    return f"{module}:{name}"


def load_sim_file(path: Path) -> SimFile:
    """Read a file.

    Raises:
        DamagedSimFile: Your move: it was changed, cut or made by another release; take it from where it was saved.
        OSError: It cannot be read.
    """
    if path.exists() and not path.is_file():  # a pipe may never end
        message = f"{path} is not a file"
        raise DamagedSimFile(message)
    data = path.read_bytes()
    try:
        found = msgspec.json.decode(data)
        made_with = found.get("format") if isinstance(found, dict) else None
        if isinstance(made_with, int) and made_with != FORMAT:
            message = f"{path} has format {made_with} of .sim files, expected {FORMAT}; use the release that wrote it"
            raise DamagedSimFile(message)
        saved = _CONVERT(found)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        message = f"{path} is not a .sim file, or is damaged: {error}"
        raise DamagedSimFile(message) from error
    if saved != saved.sealed():
        message = (
            f"{path} is damaged: its content does not have its digest {saved.digest!r}; restore the file"
        )
        raise DamagedSimFile(message)
    return saved


def replay(path: Path, scenario: Callable[..., Any] | None = None) -> "Report":
    """Live a saved life again.

    Args:
        path: The file.
        scenario: The scenario. None: it is imported by its name.

    Returns:
        The report. It is not that of the saved life if the code has changed since: `broken` is None if the bug is mended.

    Raises:
        DamagedSimFile: Your move: see `load_sim_file`.
        ImportError, LookupError: Your move: the scenario no longer exists.
        NotRepeatable: This commit with these packages led to another life before.

    Warns:
        NotRepeatable: The life is not that of the file, and the commit, Python or packages are others: the warning names them.
    """
    from agentrail.testing.simulation.life import run  # noqa: PLC0415 - it imports all parts of a world
    from agentrail.testing.simulation.schedule import Schedule  # noqa: PLC0415 - as above
    from agentrail.testing.simulation.worlds import find_scenario  # noqa: PLC0415 - as above

    saved = load_sim_file(path)
    if scenario is None:
        scenario = find_scenario(saved.scenario, ".")
    strategy: Any = saved.schedule[0]
    report = run(
        scenario,
        saved.seed,
        nodes=saved.nodes,
        hours=saved.seconds / 3600,
        schedule=Schedule(strategy, saved.schedule[1]),
        given=saved.draws,
    )
    if saved.life not in {"", report.digest}:
        changed = differences(saved)
        message = (
            f"{path} plays another life than the saved one: {'; '.join(changed) or 'nothing else differs'}"
        )
        if not changed:
            raise NotRepeatable(message)
        warnings.warn(message, NotRepeatable, stacklevel=2)
    return report


def differences(saved: SimFile) -> tuple[str, ...]:
    """Return what a life depends on and may no longer be as it was, such as `trio was 0.34.0, is 0.35.0`."""
    now = environment()
    found = [
        f"{name} was {saved.made_with.get(name) or 'unknown'}, is {now.get(name) or 'unknown'}"
        for name in sorted({*saved.made_with, *now})
        if saved.made_with.get(name) != now.get(name)
    ]
    if not found and (not now["commit"] or now["commit"].endswith("-dirty")):
        found.append(f"commit {now['commit'] or 'unknown'} does not name the source exactly")
    return tuple(found)


def environment() -> dict[str, str]:
    """Return the commit, the release of Python, and those of packages."""
    installed = {name: one.version for name in PACKAGES for one in metadata.distributions(name=name)}
    return {"commit": _commit(), "python": platform.python_version(), **installed}


def write_test(report: "Report", saved: Path, folder: Path) -> Path:
    """Write a test that lives a saved life again, and fails until its bug is mended. The file is copied to its folder, unless it is there.

    Raises:
        ValueError: Your move: the life broke nothing.
        OSError: A file cannot be written.
    """
    if report.broken is None:
        message = f"seed {report.seed} breaks no promise, so there is nothing to test"
        raise ValueError(message)
    seed = saved.stem.removeprefix("seed-") if saved.stem.startswith("seed-") else str(report.seed)
    name = "".join(letter if letter.isalnum() else "_" for letter in seed)
    beside, test = folder / saved.name, folder / f"test_seed_{name}.py"
    if beside != saved:
        _write(beside, saved.read_bytes())
    checker, said = (
        " ".join(text.replace("\\", "/").replace('"', "'").split())[:_SAID]
        for text in (report.broken.checker, report.broken.said)
    )
    _write(
        test,
        _TEST.format(seed=report.seed, name=name, file=saved.name, checker=checker, said=said).encode(),
    )
    return test


_TEST: Final = '''"""Seed {seed} once broke "{checker}"."""

from pathlib import Path

import pytest

from agentrail.testing.simulation.sim_files import replay
from agentrail.testing.simulation.stories import story


@pytest.mark.filterwarnings("ignore::agentrail.testing.seeded.NotRepeatable")
def test_seed_{name}() -> None:
    """The life of this seed breaks no promise. It broke one: {said}."""
    report = replay(Path(__file__).with_name("{file}"))
    assert report.broken is None, story(report)
'''


def _write(path: Path, data: bytes) -> None:
    try:
        write_private(path, data)
    except OSError as error:
        message = f"{error.strerror or error}: the file was not written; make room, or choose another folder"
        raise OSError(error.errno, message, str(path)) from error


def _commit() -> str:
    """The commit of the source, with `-dirty` if it was changed. Empty outside of a repository."""
    command = ["git", "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"]
    try:
        done = subprocess.run(  # noqa: S603 - a fixed command
            command, cwd=Path(__file__).parent, capture_output=True, text=True, check=False, timeout=10
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip()
