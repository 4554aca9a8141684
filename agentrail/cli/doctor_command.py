"""`agentrail doctor`: report what is configured, installed and reachable, and how to fix the rest. Costs nothing."""

import importlib.util
import os
import platform
import shlex
import statistics
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import closing
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import Annotated, Final

import msgspec
import trio
from attrs import asdict, evolve
from cyclopts import Parameter

from agentrail.abc.store import Filters
from agentrail.app import (
    ASK_WITHIN_SECONDS,
    VARIABLES,
    VENDOR_URLS,
    choose_model,
    list_models,
    make_provider,
    provider_of,
)
from agentrail.builds import FOLDER, Build, look_at_build
from agentrail.cli.config_setup import (
    AgentOption,
    CommandSetup,
    ConfigFiles,
    model_of_files,
    options_of_files,
    read_setup,
)
from agentrail.cli.doctor_server import (
    CheckVerdict,
    Finding,
    in_thread,
    look_at_activity,
    look_at_extras,
    look_at_mcp_servers,
    look_at_open_files,
    look_at_telemetry,
    within_limit,
)
from agentrail.cli.exit_codes import Exit, describe_error
from agentrail.cli.host_config import directory_of_host, faults_of_host, named_stores
from agentrail.cli.log_output import Debug, send_logs_to_stderr
from agentrail.cli.run_options import BaseUrl, Model
from agentrail.cli.serve_options import ServeFlags, decide_serving, show_serving
from agentrail.cli.storage_options import DEFAULT_STORE, STORE_VARIABLE, DataDirectory
from agentrail.cli.store_access import all_sessions
from agentrail.cli.text_output import print_text
from agentrail.config.settings import Settings
from agentrail.distribution import IMPORT_NAME, NAME, find_foreign, install_command
from agentrail.errors import AgentrailError, ProviderError, StoreUnavailable
from agentrail.providers.failures import Vendor
from agentrail.providers.http import HttpClients
from agentrail.sandboxes.confinement import probe
from agentrail.sandboxes.programs import find_program
from agentrail.stores.data_directory import find_data_directory
from agentrail.stores.sqlite import SqliteStore
from agentrail.stores.sqlite_files import beside, check_place, writer_of
from agentrail.stores.store_names import path_of_store
from agentrail.stores.store_urls import PRIVATE, is_shared_store

# Checks of the default store and the `[host]` store: path, size, writer, and commit time.

_PAGE_BYTES: Final = 4096
_COMMIT_TRIES: Final = 5
_SLOW_MS: Final = 50.0
"""Noticeable from here on: a prompt waits for one commit, a cycle with a tool for four."""
_OF_SERVER: Final = "store of [host]"


def look_at_store(environ: Mapping[str, str], data_dir: Path | None = None) -> tuple[Finding, ...]:
    try:
        directory = find_data_directory(environ, data_dir)
    except AgentrailError as error:
        return (_no_store(str(error)),)
    path = path_of_store(DEFAULT_STORE, directory)
    assert path is not None  # noqa: S101 - the default is a file
    try:
        found = _look_at_file(path)
    except AgentrailError as error:
        return (_no_store(str(error)),)
    return (*found, look_at_fsync(_nearest(directory)))


def look_at_store_of_server(
    settings: Settings | None, environ: Mapping[str, str], store: str | None = None
) -> tuple[Finding, ...]:
    """Check the store of `agentrail serve`: named, of the variable, or of `[host]`. Other commands use it only on request."""
    configured = DEFAULT_STORE if settings is None else named_stores(settings).get("store", DEFAULT_STORE)
    name = store or environ.get(STORE_VARIABLE) or configured
    if is_shared_store(name) and name != PRIVATE:
        from agentrail.cli.doctor_database import look_at_database

        return tuple(look_at_database(name))
    if settings is None and name == DEFAULT_STORE:
        return ()
    try:
        usual = find_data_directory(environ)
        directory = None if settings is None else directory_of_host(settings, environ)
        path = path_of_store(name, directory or usual)
        if path in {None, path_of_store(DEFAULT_STORE, usual)}:
            return ()
        assert path is not None  # noqa: S101 - checked above
        found, *rest = _look_at_file(path)
    except AgentrailError as error:
        text = f"agentrail serve cannot keep sessions: {describe_error(error)}"
        return (Finding(_OF_SERVER, "absent", text, "name another place in [host]"),)
    listing = f"agentrail sessions list --store sqlite:{shlex.quote(str(path))} lists them"
    rest = [evolve(one, name=f"{one.name} of [host]") for one in rest]
    return (evolve(found, name=_OF_SERVER, remedy=listing if path.exists() else found.remedy), *rest)


def _look_at_file(path: Path) -> tuple[Finding, ...]:
    """Describe a store, or report that it does not exist yet."""
    if path.exists():
        check_place(path)
        with closing(SqliteStore(path, read_only=True)) as store:
            sessions = [*all_sessions(store, Filters())]
            store.check_file()
            activity = [*look_at_activity(store, sessions)]
        size = sum(one.stat().st_size for one in (path, *beside(path)) if one.exists())
        pid = writer_of(path)
        by = f", written by process {pid}" if pid is not None else ""
        shown = f"{size / 1_000_000:.1f} MB" if size >= 1_000_000 else f"{size / 1000:.1f} kB"  # noqa: PLR2004 - a million
        text = f"{path}: {len(sessions)} sessions, {shown}, not damaged{by}"
        return (Finding("store", "good", text), *activity)
    place = _nearest(path.parent)
    if not (place.is_dir() and os.access(place, os.W_OK | os.X_OK)):
        message = f"{place} {'cannot be written' if place.is_dir() else 'is not a directory'}"
        raise StoreUnavailable(message)
    return (Finding("store", "absent", f"none yet: sessions will be kept in {path}"),)


def _no_store(why: str) -> Finding:
    return Finding(
        "store",
        "absent",  # a run and a chat also work without a store
        f"sessions cannot be kept: {why}",
        "name another place with --data-dir or AGENTRAIL_DATA_DIR",
    )


def _nearest(directory: Path) -> Path:
    """Return the nearest existing path: the directory or an ancestor, which may be a file."""
    return next(one for one in (directory, *directory.absolute().parents) if os.path.lexists(one))


def look_at_fsync(directory: Path, *, stopwatch: Callable[[], float] = time.perf_counter) -> Finding:
    """Measure how long a page takes to become durable in a directory: the minimum time of a commit."""
    took: list[float] = []
    try:
        with tempfile.TemporaryFile(dir=directory) as file:
            for _ in range(_COMMIT_TRIES):
                began = stopwatch()
                file.write(bytes(_PAGE_BYTES))
                file.flush()
                os.fsync(file.fileno())
                took.append((stopwatch() - began) * 1000)
    except OSError as error:
        return Finding("fsync", "absent", f"could not be tried in {directory}: {error.strerror}")
    middle, worst = statistics.median(took), max(took)
    text = f"{middle:.1f} ms in {directory}, at worst {worst:.1f} ms of {_COMMIT_TRIES} tries"
    if middle < _SLOW_MS:
        return Finding("fsync", "good", text)
    remedy = "each prompt waits for it: keep sessions on a faster disk, with --data-dir"
    return Finding("fsync", "absent", f"slow: {text}", remedy)


# The report.

_MARKS: Final[Mapping[CheckVerdict, str]] = {"good": "✓", "absent": "–", "bad": "✗"}
_NAME_WIDTH: Final = 20


def doctor(  # noqa: PLR0913 - an option each
    *,
    model: Model = None,
    base_url: BaseUrl = None,
    data_dir: DataDirectory = None,
    store: Annotated[
        str | None,
        Parameter(
            help=f"The store of servers to check. Default: {STORE_VARIABLE}, otherwise store in [host]."
        ),
    ] = None,
    agent: AgentOption = None,
    files: ConfigFiles = ConfigFiles(),  # noqa: B008 - frozen
    as_json: Annotated[bool, Parameter(name="--json", help="Print one JSON document.")] = False,
    debug: Debug = False,
) -> Exit:
    send_logs_to_stderr(debug=debug)
    look = partial(
        _look_at_all, files, model=model, base_url=base_url, data_dir=data_dir, store=store, agent=agent
    )
    findings = trio.run(look)
    printed = print_text(_as_json(findings) if as_json else "\n".join(map(show_finding, findings)))
    return decide_health(findings) if printed is Exit.DONE else printed


async def _look_at_all(  # noqa: PLR0913 - an option each
    files: ConfigFiles,
    *,
    model: str | None,
    base_url: str | None,
    data_dir: Path | None,
    store: str | None,
    agent: str | None,
) -> tuple[Finding, ...]:
    """Run all checks, each within its time limit."""
    setup: CommandSetup | None = None

    def read() -> tuple[Finding, ...]:
        nonlocal setup
        setup, found = look_at_files(files, agent)
        return found

    installed = await in_thread("installation", look_at_installation)
    looked_at = await in_thread("configuration", read)
    settings = None if setup is None else setup.configuration.settings

    async def confinement() -> tuple[Finding, ...]:
        return (await look_at_confinement(),)

    return (
        *installed,
        *look_at_extras(settings),
        *looked_at,
        *await within_limit("MCP servers", partial(look_at_mcp_servers, settings)),
        *look_at_serving(setup, os.environ),
        *look_at_open_files(settings),
        *look_at_telemetry(settings, os.environ),
        *look_at_variables(os.environ),
        *await within_limit("bubblewrap", confinement),
        *await in_thread("store", partial(look_at_store, os.environ, data_dir)),
        *await in_thread(_OF_SERVER, partial(look_at_store_of_server, settings, os.environ, store)),
        *await within_limit("model", partial(look_at_model, model, base_url, setup)),
    )


def _as_json(findings: tuple[Finding, ...]) -> str:
    checks = [asdict(one) for one in findings]
    document = {"agentrail_doctor": 1, "healthy": decide_health(findings) is Exit.DONE, "checks": checks}
    return msgspec.json.encode(document).decode()


def decide_health(findings: tuple[Finding, ...]) -> Exit:
    """Return the exit code: whether a run would work."""
    return Exit.FAILED if any(finding.verdict == "bad" for finding in findings) else Exit.DONE


def show_finding(finding: Finding) -> str:
    line = f"{_MARKS[finding.verdict]} {finding.name:<{_NAME_WIDTH}} {finding.text}"
    return f"{line}\n  → {finding.remedy}" if finding.remedy else line


def look_at_installation() -> tuple[Finding, ...]:
    return (
        Finding("python", "good", platform.python_version()),
        show_build(look_at_build(FOLDER, metadata.version(NAME))[0]),
        *look_at_distributions(),
        Finding("trio", "good", metadata.version("trio")),
        _look_at_editor(),
        _look_at_shell(),
    )


def show_build(build: Build) -> Finding:
    """Report the running build, and why it is not the compiled one."""
    if build.fault is not None:
        again = install_command(flags="--force-reinstall --no-deps", editable=False)
        return Finding(
            "build",
            "absent",  # it runs and behaves the same, but slower
            f"pure, though {build.compiled} modules were compiled: {build.fault}",
            f"install it again: AGENTRAIL_COMPILE=1 {again}, or without the variable",
        )
    text = f"compiled: {build.modules} modules" if build.modules else "pure: nothing is compiled"
    return Finding("build", "good", text)


def look_at_distributions() -> tuple[Finding, ...]:
    """Return a finding for each installed project that has our name and is not ours."""
    return tuple(
        Finding(
            "distribution",
            "bad",
            f"another project named {IMPORT_NAME} is installed: {one.version} in {one.folder}"
            + (f" ({one.summary:.80})" if one.summary else ""),
            f"remove it: pip uninstall {IMPORT_NAME}, then {install_command()}",
        )
        for one in find_foreign()
    )


def _look_at_editor() -> Finding:
    if importlib.util.find_spec("prompt_toolkit") is not None:
        return Finding("prompt_toolkit", "good", metadata.version("prompt_toolkit"))
    return Finding(
        "prompt_toolkit",
        "absent",
        "not installed, though agentrail needs it: agentrail chat cannot draw its screen",
        "install it: pip install prompt_toolkit",
    )


def _look_at_shell() -> Finding:
    shell = find_program("bash") or find_program("sh")
    if shell is not None:
        return Finding("shell", "good", shell)
    return Finding(
        "shell",
        "absent",
        "neither bash nor sh was found: the tool shell cannot run commands",
        "install bash, or put it on PATH",
    )


async def look_at_confinement() -> Finding:
    found = await probe("refuse", find_program("bwrap"))
    if found.mode == "bubblewrap":
        return Finding("bubblewrap", "good", "works: commands of the tool shell are confined")
    return Finding(
        "bubblewrap",
        "absent",
        f"cannot confine commands here: {found.why}",
        "install bubblewrap; or --shell-fallback unconfined runs commands with all your rights",
    )


def look_at_variables(environ: Mapping[str, str]) -> tuple[Finding, ...]:
    # Two providers of one vendor use the same variables.
    names = dict.fromkeys(("AGENTRAIL_MODEL", *(name for pair in VARIABLES.values() for name in pair)))
    return tuple(
        Finding(name, "good" if environ.get(name) else "absent", "set" if environ.get(name) else "not set")
        for name in names
    )


def look_at_files(files: ConfigFiles, agent: str | None) -> tuple[CommandSetup | None, tuple[Finding, ...]]:
    try:
        setup = read_setup(files, agent)
    except AgentrailError as error:
        remedy = "agentrail config check lists all faults"
        return None, (Finding("configuration", "bad", describe_error(error), remedy),)
    if setup is None:
        return None, (Finding("configuration", "absent", "no agentrail.toml here or above"),)
    found = setup.configuration.files
    names = ", ".join(one.name for one in (*found.project, *found.user))
    agents = "no agent" if setup.agent is None else f"agent {setup.agent}"
    notice = setup.configuration.notice
    return setup, (
        Finding("configuration", "good", f"{names}; {agents}"),
        *(() if notice is None else (Finding("trust", "absent", notice),)),
    )


def look_at_serving(setup: CommandSetup | None, environ: Mapping[str, str]) -> tuple[Finding, ...]:
    """Check where `agentrail serve` would listen, with the source of each value. Empty if nothing is configured."""
    said = {} if setup is None else setup.configuration.settings.host
    try:
        options = decide_serving(ServeFlags(), environ, said)
    except AgentrailError as error:
        return (Finding("serve", "bad", describe_error(error), "correct it"),)
    wrong = () if setup is None else faults_of_host(setup.configuration.settings)
    if not options.why and not wrong:
        return ()
    if wrong:
        text = " ".join(str(fault) for fault in wrong)
        return (Finding("serve", "bad", text, "correct it in the file"),)
    return (Finding("serve", "good", show_serving(options)),)


async def look_at_model(
    wanted: str | None, base_url: str | None, setup: CommandSetup | None = None
) -> tuple[Finding, ...]:
    """Check which model a run would use, its source, and whether its server can be reached."""
    try:
        chosen = model_of_files(setup, os.environ) if wanted is None else None
        if chosen is None:
            chosen = await choose_model(os.environ, wanted=wanted, base_url=base_url)
        async with HttpClients() as http:
            opts = (
                {}
                if setup is None
                else dict(options_of_files(setup, chosen.model, os.environ)["provider_opts"])
            )
            opts |= {} if base_url is None else {"base_url": base_url}
            make_provider(chosen.model, opts, http=http, environ=os.environ)
            found = Finding("model", "good", f"{chosen.model} ({chosen.why})")
            return (found, await look_at_server(chosen.model, opts.get("base_url"), os.environ, http))
    except AgentrailError as error:
        remedy = "agentrail run --model demo: works without a key and a server"
        return (Finding("model", "bad", describe_error(error), remedy),)


async def look_at_server(
    model: str, base_url: str | None, environ: Mapping[str, str], http: HttpClients
) -> Finding:
    provider = provider_of(model)
    if provider == "demo":
        return Finding("server", "good", "demo: needs none")
    key_variable, url_variable = VARIABLES[provider]
    url = base_url or environ.get(url_variable) or VENDOR_URLS[provider]
    if provider in {"openai", "openai-chat"}:
        return await _look_at_models(model, url, environ.get(key_variable))
    return await _look_at_address(url, http)


async def _look_at_models(model: str, url: str, key: str | None) -> Finding:
    try:
        models = await list_models(url, key)
    except ProviderError as error:
        return _decide_refusal(url, error)
    name = model.partition(":")[2]
    if name in models:
        return Finding("server", "good", f"{url} answers and lists {name}")
    listed = ", ".join(models[:10]) or "none"
    return Finding(
        "server",
        "absent",  # not bad: some servers accept names that they do not list
        f"{url} answers, but does not list {name}",
        f"name one of its models: {listed}{', …' if len(models) > 10 else ''}",  # noqa: PLR2004 - same number
    )


async def _look_at_address(url: str, http: HttpClients) -> Finding:
    vendor = Vendor(name=url, key_help="")
    text = f"{url} answers; the first request shows whether the key is valid"
    try:
        with trio.fail_after(ASK_WITHIN_SECONDS):
            await http.get_text(url, headers={}, vendor=vendor)
    except trio.TooSlowError:
        text = f"{url} did not answer within {ASK_WITHIN_SECONDS:g} s"
        return Finding("server", "bad", text, "look at the network and at --base-url")
    except ProviderError as error:
        if error.status is None:
            return _decide_refusal(url, error)
        # Any response, even an error, shows that the server is reachable.
    return Finding("server", "good", text)


def _decide_refusal(url: str, error: ProviderError) -> Finding:
    if error.status == 404:  # noqa: PLR2004 - a status is its own name
        hint = None if url.rstrip("/").endswith("/v1") else "if a run fails: does the address end in /v1?"
        text = f"{url} answers, but cannot list its models"
        return Finding("server", "good", text, hint)
    remedy = (
        "look at the network and at --base-url"
        if error.status is None
        else "look at the key and at --base-url"
    )
    return Finding("server", "bad", describe_error(error), remedy)
