"""The private PostgreSQL: its directory, its port, and its end."""

import stat
import subprocess

import pytest

from tests.postgres import PostgresServer, postgres_environ


def test_server_runs_in_a_directory_of_its_own(postgres_server: PostgresServer) -> None:
    """Server runs in a directory of its own."""
    directory = postgres_server.cluster.directory
    assert stat.S_IMODE(directory.stat().st_mode) == 0o700
    assert stat.S_IMODE((directory / "password").stat().st_mode) == 0o600
    assert (directory / f".s.PGSQL.{postgres_server.port}").is_socket()
    assert postgres_server.run_sql("SHOW listen_addresses") == "127.0.0.1"
    assert postgres_server.run_sql("SHOW fsync") == "on"


def test_port_asks_for_a_password(postgres_server: PostgresServer, postgres_url: str) -> None:
    """Port asks for a password."""
    psql = [postgres_server.program("psql"), "-XAtwc", "SELECT 1"]
    good = subprocess.run(
        [*psql, postgres_url], check=False, capture_output=True, text=True, env=postgres_environ()
    )
    assert good.stdout == "1\n", good.stderr
    user, _, place = postgres_url.rpartition("@")
    without = f"{user.rpartition(':')[0]}@{place}"
    refused = subprocess.run(
        [*psql, without], check=False, capture_output=True, text=True, env=postgres_environ()
    )
    assert "no password supplied" in refused.stderr


def test_server_is_stalled_killed_and_started_again(
    postgres_server: PostgresServer, postgres_url: str
) -> None:
    """Server is stalled killed and started again."""
    psql = [postgres_server.program("psql"), "-XAtwc", "SELECT 1", postgres_url]
    with postgres_server.stalled(), pytest.raises(subprocess.TimeoutExpired):
        subprocess.run(psql, check=False, capture_output=True, env=postgres_environ(), timeout=0.5)
    first = postgres_server.cluster.pid
    postgres_server.kill()
    assert subprocess.run(psql, check=False, capture_output=True, env=postgres_environ()).returncode == 2
    postgres_server.start()
    assert postgres_server.cluster.pid not in {0, first}
    assert subprocess.run(psql, check=False, capture_output=True, env=postgres_environ()).stdout == b"1\n"
