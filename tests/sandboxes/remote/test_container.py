"""A container for one session: the command that starts it, its life and its end, with a `docker` that starts the server on this machine.

Neither docker nor podman runs on the machines of these tests. What stands in for them is a script of that name, which notes its arguments
and runs what was to run inside, outside; so what the container itself keeps out is docker's word, and not tried here.
"""

import json
import os
import sys
from pathlib import Path

import pytest
import trio

from agentrail.abc import ExecuteOptions
from agentrail.app import make_sandbox
from agentrail.errors import SandboxError
from agentrail.sandboxes.programs import safe_search_path
from agentrail.sandboxes.remote import container
from agentrail.sandboxes.remote.container import (
    ContainerLimits,
    ContainerSandbox,
    decide_command,
    decide_variables,
)
from agentrail.sandboxes.remote.operations import SANDBOX_TOKEN_VARIABLE
from agentrail.testing.orphans import no_orphans
from tests.test_file_systems import deepen

DOCKER = """#!{python}
import json, os, signal, subprocess, sys
arguments = sys.argv[1:]
with open({notes!r}, "a") as notes:
    notes.write(json.dumps({{"arguments": arguments, "has_token": bool(os.environ.get({variable!r}))}}) + chr(10))
if arguments[0] != "run":
    sys.exit(0)
if {fails!r}:
    sys.exit("docker: no such image: nothing/here:1.\\nSee 'docker run --help'.")
if {hangs!r}:
    open({hangs!r}, "w").close()  # a pipe: the test reads from it
    signal.pause()
(mounted,) = [one for one in arguments if one.startswith("type=bind") and one.endswith("target=/run/agentrail")]
source = mounted.split("source=")[1].split(",")[0]
inside = arguments[arguments.index("--entrypoint") + 3:]
command = [one.replace("/run/agentrail", source) for one in inside]
os.execv(sys.executable, [sys.executable, "-m", "agentrail", *command])
"""


@pytest.fixture
def docker(tmp_path, monkeypatch):
    """Puts the script on the path; gives where it notes, and what makes it fail."""
    notes = tmp_path / "notes"

    def put(*, fails=False, hangs=None):
        script = tmp_path / "docker"
        script.write_text(
            DOCKER.format(
                python=sys.executable,
                notes=str(notes),
                variable=SANDBOX_TOKEN_VARIABLE,
                fails=fails,
                hangs=hangs and str(hangs),
            )
        )
        script.chmod(0o755)
        monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[3]))
        monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
        return notes

    return put


def noted(notes):
    return [json.loads(line) for line in notes.read_text().splitlines()]


def test_a_container_has_bounds_no_network_and_no_token_among_its_arguments(tmp_path):
    """One GiB, one processor, nothing to reach, the skills read-only; and what comes behind the image is the server's."""
    command = decide_command(
        "/usr/bin/podman",
        "acme/tools:1",
        name="agentrail-1",
        directory=Path("/tmp/agentrail-1"),  # noqa: S108 - it is not made
        skills=Path("/srv/skills"),
        limits=ContainerLimits(),
    )
    text = " ".join(command)
    for wanted in (
        *(
            "--rm",
            "--network none",
            "--memory 1073741824",
            "--memory-swap 1073741824",
            "--cpus 1",
            "--cap-drop ALL",
        ),
        *("--security-opt no-new-privileges", f"--env {SANDBOX_TOKEN_VARIABLE} ", "--userns keep-id"),
        "type=bind,source=/srv/skills,target=/skills,readonly",
        "--entrypoint agentrail acme/tools:1 sandbox serve --socket /run/agentrail/sandbox.sock",
        "--once --idle-seconds 1800",
    ):
        assert wanted in text, wanted
    plain = decide_command(
        "docker", "x", name="n", directory=Path("/d"), skills=None, limits=ContainerLimits(cpus=0.5)
    )
    assert not any("skills" in one or one == "--userns" for one in plain)
    assert plain[plain.index("--cpus") + 1] == "0.5"


def test_without_a_program_there_is_no_container(tmp_path, monkeypatch):
    """Which is said with what to install; and skills that cannot be mounted are refused before anything starts."""
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SandboxError, match="none of docker and podman is installed"):
        make_sandbox("container:acme/tools", tmp_path)
    with pytest.raises(SandboxError, match="cannot be mounted"):
        ContainerSandbox("x", skills=tmp_path / "a,b", program="docker")


@pytest.mark.check
async def test_a_container_lives_as_long_as_its_sandbox(docker, tmp_path, monkeypatch):
    """It starts with the first call, keeps files and runs commands, and is gone with it; its token is in its environment alone."""
    monkeypatch.setattr(container, "END_SECONDS", 60.0)  # it has all the time that a busy machine takes
    notes = docker()
    project = tmp_path / "project"  # beside the program, which would not be taken from below it
    (project / ".agentrail" / "skills").mkdir(parents=True)
    async with no_orphans():
        sandbox = make_sandbox("container:acme/tools:1", project)
        assert repr(sandbox) == "ContainerSandbox('container:acme/tools:1')"
        assert not notes.exists()
        with trio.fail_after(120):
            assert (await sandbox.write("a", "words")).error is None
            assert (await sandbox.execute("cat a", ExecuteOptions())).output == "words"
            directory = sandbox._directory  # noqa: SLF001 - to see that it goes
            assert directory.stat().st_mode & 0o777 == 0o700
            deepen(directory)  # by the container, which shares it
            await sandbox.aclose()
            await sandbox.aclose()
        assert not directory.exists()
        assert (await sandbox.read("a")).error.code == "io_error"
    (run,) = noted(notes)  # it ended by itself, so nothing had to be removed
    assert run["has_token"]
    token = sandbox.secrets[0]
    assert token not in json.dumps(run)
    assert f"type=bind,source={project}/.agentrail/skills,target=/skills,readonly" in run["arguments"]


@pytest.mark.check
async def test_a_container_that_does_not_start_is_a_refusal_with_its_words(docker):
    """Of docker, and what was tried is removed; a session goes on and may try again."""
    notes = docker(fails=True)
    async with no_orphans():
        sandbox = ContainerSandbox("nothing/here:1")
        with trio.fail_after(60):
            refused = (await sandbox.read("a")).error
            await sandbox.aclose()
    assert refused.code == "io_error"
    assert "container:nothing/here:1" in refused.message
    assert "no such image: nothing/here:1" in refused.message
    assert refused.message.isprintable()
    assert noted(notes)[0]["arguments"][0] == "run"


@pytest.mark.check
async def test_a_container_is_removed_if_its_sandbox_is_closed_while_it_starts(docker, tmp_path):
    """What waits for it is refused, and starts no other one."""
    has_begun, refused = tmp_path / "has_begun", []
    os.mkfifo(has_begun)
    notes = docker(hangs=has_begun)
    async with no_orphans():
        sandbox = ContainerSandbox("acme/tools")

        async def read():
            refused.append((await sandbox.read("a")).error.message)

        with trio.fail_after(60):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(read)
                nursery.start_soon(read)
                await trio.to_thread.run_sync(has_begun.read_bytes)
                await sandbox.aclose()
    assert [one.rpartition(": ")[2] for one in refused] == ["it was closed here."] * 2
    assert [one["arguments"][0] for one in noted(notes)] == ["run", "rm"]


@pytest.mark.check
async def test_a_container_whose_start_is_cancelled_is_removed(docker, tmp_path):
    """Also where it hangs: what was started is gone before the cancellation travels on."""
    has_begun = tmp_path / "has_begun"
    os.mkfifo(has_begun)
    notes = docker(hangs=has_begun)
    async with no_orphans():
        sandbox = ContainerSandbox("acme/tools")
        with trio.fail_after(60):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(sandbox.read, "a")
                await trio.to_thread.run_sync(has_begun.read_bytes)  # as long as it takes to begin
                nursery.cancel_scope.cancel(reason="it has begun")
        await sandbox.aclose()
    assert [one["arguments"][0] for one in noted(notes)][-1] == "rm"


@pytest.mark.parametrize("entry", ["node_modules/.bin", "", ".", "{project}/node_modules/.bin", "{tmp}/link"])
def test_no_program_of_the_project_starts_containers(tmp_path, monkeypatch, entry):
    """A relative entry of `PATH`, one below the working directory, and a link to one: who writes files there would choose what runs."""
    project = tmp_path / "project"
    place = project if entry in {"", "."} else project / "node_modules" / ".bin"
    place.mkdir(parents=True)
    for name in ("docker", "podman"):
        (place / name).write_text("#!/bin/sh\n")
        (place / name).chmod(0o755)
    (tmp_path / "link").symlink_to(place)
    monkeypatch.chdir(project)
    monkeypatch.setenv("PATH", entry.format(project=project, tmp=tmp_path))
    for given in ({}, {"working_dir": project}, {"program": "docker"}):
        with pytest.raises(SandboxError, match=r"none of docker.*put its absolute directory on PATH"):
            ContainerSandbox("image:1", **given)


def test_the_search_path_has_no_entry_that_a_model_can_write_to(tmp_path, monkeypatch):
    """Relative ones, missing ones, and those below a root go; the order stays."""
    for name in ("one", "root/bin", "two"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "root" / "bin")
    entries = [".", "", "bin", *(str(tmp_path / name) for name in ("two", "root/bin", "none", "link", "one"))]
    monkeypatch.setenv("PATH", ":".join(entries))
    assert safe_search_path(tmp_path / "root") == f"{tmp_path}/two:{tmp_path}/one"


def test_what_starts_containers_gets_no_keys(tmp_path):
    """Only what it needs to find its server; helpers are looked for in absolute directories."""
    environ = {
        "OPENAI_API_KEY": "sk-1",
        "AWS_SECRET_ACCESS_KEY": "x",
        "HOME": "/h",
        "DOCKER_HOST": "ssh://a",
        "LC_ALL": "C",
        "PATH": ".",
    }
    assert decide_variables(environ, "/usr/bin") == {
        "HOME": "/h",
        "DOCKER_HOST": "ssh://a",
        "LC_ALL": "C",
        "PATH": "/usr/bin",
    }
