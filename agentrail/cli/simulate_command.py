"""`agentrail simulate`: live simulated lives from seeds, and tell the story of the first one that breaks a promise."""

import re
import signal
import sys
import warnings
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import msgspec
import trio
from attrs import define, field
from cyclopts import Parameter
from msgspec.structs import replace

from agentrail import outside
from agentrail.cli.ctrl_c import interruptible
from agentrail.cli.exit_codes import Exit, write_faults
from agentrail.cli.log_output import Debug, send_logs_to_stderr
from agentrail.cli.stdio import write_error
from agentrail.cli.text_output import print_text
from agentrail.distribution import install_command
from agentrail.errors import AgentrailError, OptionError
from agentrail.otp.crash_text import describe_bug

if TYPE_CHECKING:
    from agentrail.testing.simulation.lives import Lived, SeedRange

_SEEDS: Final = re.compile(r"(\d{1,15})(?:-(\d{1,15}))?")
_CLOCK: Final = re.compile(r"([01]?\d|2[0-3]):([0-5]\d)")


def simulate(  # noqa: PLR0913 - the options of a command
    file: Annotated[
        Path | None, Parameter(help="play this .sim file again, instead of lives from seeds")
    ] = None,
    *,
    scenario: Annotated[
        str,
        Parameter(name=("--scenario", "--world"), help="a world, or module:NAME of a function of a World"),
    ] = "cluster",
    against: Annotated[
        str | None, Parameter(help="module:NAME of a plugin, or a list of them, to try in the usual world")
    ] = None,
    begin: Annotated[
        str | None,
        Parameter(
            name="--from",
            help="STORE:ID of a stored session, such as sqlite:sessions.db:s1, that each life continues",
        ),
    ] = None,
    seed: Annotated[int | None, Parameter(help="one seed, told as a story")] = None,
    seeds: Annotated[str, Parameter(help="seeds, such as 0-199")] = "0-199",
    nodes: Annotated[int | None, Parameter(help="number of nodes")] = None,
    hours: Annotated[float | None, Parameter(help="virtual time of a life, in hours")] = None,
    store: Annotated[str, Parameter(help="postgres, sqlite or memory")] = "",
    faults: Annotated[str, Parameter(help="only these of --list-faults, or none")] = "",
    jobs: Annotated[int, Parameter(help="number of processes")] = 1,
    until: Annotated[
        str | None, Parameter(help="time of day, such as 06:00, until which seeds go on")
    ] = None,
    save: Annotated[Path, Parameter(help="directory for the .sim files of broken lives")] = Path(),
    shrink: Annotated[
        float, Parameter(help="seconds of a processor to shrink a broken life; 0 leaves it as it is")
    ] = 30.0,
    show_all: Annotated[bool, Parameter(name="--all", help="tell each step")] = False,
    census: Annotated[bool, Parameter(help="list the situations that no life met")] = False,
    list_faults: Annotated[bool, Parameter(help="list the faults, and nothing else")] = False,
    as_json: Annotated[bool, Parameter(name="--json", help="print a line of JSON for each life")] = False,
    debug: Debug = False,
) -> Exit:
    send_logs_to_stderr(debug=debug)
    try:
        if list_faults:
            return print_text(_faults())
        if file is not None:
            return _play(file, shows_all=show_all)
        from agentrail.testing.simulation.lives import SeedRange

        name = _name_of(scenario, against, begin, store, faults)
        limits: dict[str, Any] = {"max_seconds": shrink} if shrink else {"max_lives": 0}
        work = SeedRange(name=name, nodes=nodes, hours=hours, save=str(save), shows_all=show_all, **limits)
        works = _works(work, seed, seeds, jobs, until)
        if seed is not None and not (census or as_json):
            return _tell(works[0])
        return _live_all(works, shows_census=census, as_json=as_json)
    except OptionError as error:
        write_faults(error)
    except ModuleNotFoundError as error:
        write_error(f"simulate needs {error.name}: {install_command('gateway')} and pip install hypothesis.")
    return Exit.USAGE


def _name_of(scenario: str, against: str | None, begin: str | None, store: str, faults: str) -> str:
    if begin and against:
        raise OptionError(["--from and --against are two worlds: give one of them"])
    name = f"from:{begin}" if begin else f"against:{against}" if against else scenario
    return f"with:{store}:{faults}:{name}" if store or faults else name


def _faults() -> str:
    from agentrail.testing.simulation.faults import CATALOGUE, FAULT_RULES

    rows = [(one.family, one.action, FAULT_RULES[one.action].says) for one in CATALOGUE]
    return "\n".join(f"{family:8} {action:17} {says}" for family, action, says in rows)


def _play(file: Path, *, shows_all: bool) -> Exit:
    from agentrail.testing.seeded import NotRepeatable
    from agentrail.testing.simulation.sim_files import DamagedSimFile, replay
    from agentrail.testing.simulation.stories import story

    try:
        with warnings.catch_warnings(record=True) as told:
            report = replay(file)
    except NotRepeatable as error:
        write_error(f"{error}.")
        return Exit.NOTHING_LEFT
    except OSError as error:
        # Perhaps another file, of the scenario.
        raise OptionError(
            [f"{error.filename} cannot be read: {error.strerror}" if error.filename else str(error)]
        ) from error
    except (DamagedSimFile, ImportError, AgentrailError) as error:
        raise OptionError([str(error).rstrip(".")]) from error
    except (Exception, SystemExit) as error:
        raise OptionError(
            [f"{file} ends with an error of the scenario or of a node: {describe_bug(error)}"]
        ) from error
    for one in told:
        write_error(f"{one.message}.")
    if report.broken is None:
        return print_text(f"seed {report.seed} keeps all promises: what it broke is mended")
    printed = print_text(story(report, shows_all=shows_all, saved=file))
    return printed if printed is not Exit.DONE else Exit.FAILED


def _works(
    work: "SeedRange", seed: int | None, seeds: str, jobs: int, until: str | None
) -> "list[SeedRange]":
    """Return the work of each process. They take turns with the seeds."""
    from agentrail.testing.simulation import worlds
    from agentrail.testing.simulation.life import check_life_size

    found = _SEEDS.fullmatch(seeds)
    if found is None:
        raise OptionError([f"--seeds is {seeds!r}: expected numbers, such as 0-199"])
    first, last = int(found[1]), int(found[2] or found[1])
    if last < first or jobs < 1:
        raise OptionError(
            [
                f"--seeds is {seeds!r} and --jobs is {jobs}: expected a first seed up to a last one, and 1 or more"
            ]
        )
    if not 0 <= work.max_seconds < float("inf"):
        raise OptionError([f"--shrink is {work.max_seconds:g}: expected finite seconds >= 0"])
    try:
        found_scenario: Any = worlds.find_scenario(work.name, ".")
        if work.name.startswith(("from:", "with:")):  # it must stay the same in all lives
            work = replace(work, name=f"{work.name[:4]}:{found_scenario.__qualname__}")
        check_life_size(1 if work.nodes is None else work.nodes, 1.0 if work.hours is None else work.hours)
    except (LookupError, ValueError, AgentrailError) as error:
        raise OptionError([str(error).rstrip(".")]) from error
    except (Exception, SystemExit) as error:  # a module that exits would end this command with its code
        raise OptionError([f"{work.name!r} cannot be imported: {describe_bug(error)}"]) from error
    if work.nodes is not None and work.nodes > 1 and work.name.startswith(("with:sqlite:", "with:memory:")):
        raise OptionError([f"--nodes is {work.nodes}: nodes share sessions only with --store postgres"])
    if seed is not None:
        return [replace(work, first=seed, count=1)]
    end = None if until is None else time_of(until)
    numbers = range(first, last + 1)
    return [
        replace(
            work,
            first=first + number,
            step=jobs,
            count=None if end is not None else len(numbers[number::jobs]),
            until=end,
        )
        for number in range(jobs)
    ]


def time_of(until: str) -> float:
    """Return the next such time of day, in seconds since 1970."""
    found = _CLOCK.fullmatch(until)
    if found is None:
        raise OptionError([f"--until is {until!r}: expected a time of day, such as 06:00"])
    now = datetime.fromtimestamp(outside.wall()).astimezone()
    then = now.replace(hour=int(found[1]), minute=int(found[2]), second=0, microsecond=0)
    return (then if then > now else then + timedelta(days=1)).timestamp()


def _tell(work: "SeedRange") -> Exit:
    from agentrail.testing.simulation.lives import LifeFailed, live_one

    try:
        lived = live_one(work, work.first)
    except LifeFailed as error:
        raise OptionError([str(error)]) from error
    printed = print_text(lived.told or f"seed {lived.seed} keeps all promises: {_measured([lived])}")
    return printed if printed is not Exit.DONE else _EXITS[lived.outcome]


_EXITS: Final = {
    "held": Exit.DONE,
    "interrupted": Exit.INTERRUPTED,
    "error": Exit.USAGE,
    "broken": Exit.FAILED,
    "not repeatable": Exit.NOTHING_LEFT,
}
_SAVING_SECONDS: Final = 10.0


@define
class _Campaign:
    """What the processes have told so far."""

    as_json: bool
    lived: "list[Lived]" = field(factory=list)
    trouble: str = ""
    is_over: bool = False

    async def run(self, works: "list[SeedRange]") -> None:
        async with trio.open_nursery() as nursery:
            for work in works:
                nursery.start_soon(self._follow, work, nursery.cancel_scope)

    async def _follow(self, work: "SeedRange", all_of_them: trio.CancelScope) -> None:
        given = msgspec.json.encode(work).decode()
        command = [sys.executable, "-P", "-m", "agentrail.testing.simulation.lives", given]
        # In a group of its own: Ctrl-C reaches it from here, once.
        process = await outside.processes().open(command, stdout=-1, start_new_session=True)
        told: Any = process.stdout
        rest = bytearray()
        try:
            await self._read(told, rest, all_of_them)
            if await process.wait() and not self.trouble:
                self.trouble = f"a process ended with exit code {process.returncode}"
        finally:
            with trio.CancelScope(shield=True, deadline=trio.current_time() + _SAVING_SECONDS):
                if not self.is_over:
                    process.send_signal(signal.SIGINT)  # it saves its life so far
                    await self._read(told, rest, all_of_them)
            process.kill()
            with trio.CancelScope(shield=True):  # it has been killed
                await process.wait()
                await told.aclose()

    async def _read(self, told: Any, rest: bytearray, all_of_them: trio.CancelScope) -> None:
        from agentrail.testing.simulation.lives import LIVED_DECODER

        async for piece in told:
            *whole, rest[:] = (bytes(rest) + piece).split(b"\n")
            for one in whole:
                lived = LIVED_DECODER.decode(one)
                self.lived.append(lived)
                if self.as_json:
                    print_text(one.decode())
                if lived.outcome != "held":
                    self.is_over = True
                    all_of_them.cancel(reason="a life is broken")


def _live_all(works: "list[SeedRange]", *, shows_census: bool, as_json: bool) -> Exit:
    campaign = _Campaign(as_json)
    code = Exit.DONE
    try:
        trio.run(interruptible, partial(campaign.run, works))
    except* KeyboardInterrupt:
        code = Exit.INTERRUPTED
    worst = max(campaign.lived, key=lambda one: list(_EXITS).index(one.outcome), default=None)
    if worst is not None and worst.outcome != "held":
        code = _EXITS[worst.outcome]
    elif campaign.trouble:
        write_error(f"{campaign.trouble}.")
        code = Exit.FAILED
    stories = [one.told for one in (worst,) if one is not None and one.told]
    if code is Exit.USAGE:
        write_error(f"{stories.pop()}.")
    told = [] if as_json else [*stories, _measured(campaign.lived)]
    if shows_census:
        told += _census_of(campaign.lived, as_json=as_json)
    printed = print_text("\n".join(told)) if told else Exit.DONE
    return printed if printed is not Exit.DONE else code


def _measured(lived: "list[Lived]") -> str:
    steps, hours = sum(one.steps for one in lived), sum(one.node_hours for one in lived)
    seconds = sum(one.seconds for one in lived)
    rates = (
        f", {hours / seconds:.2f} node-hours and {steps / seconds:,.0f} steps per second of a core"
        if seconds
        else ""
    )
    return f"{len(lived)} lives, {hours:.1f} node-hours{rates}"


def _census_of(lived: "list[Lived]", *, as_json: bool) -> list[str]:
    from agentrail.testing.simulation.census import Census

    all_of_them = Census()
    for one in lived:
        all_of_them.merge(Census(dict(one.census)))
    empty = all_of_them.empty()
    if as_json:
        return [msgspec.json.encode({"unmet": empty}).decode()]
    return [
        f"{len(empty)} situations were met by no life, and have no reason for that:",
        *(f"  {one}" for one in empty),
    ]
