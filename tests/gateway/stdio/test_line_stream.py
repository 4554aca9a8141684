"""Lines over standard input and output: cut anywhere, whole, and ended by signals, by a closed end and by silence."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pytest
import trio
import trio.testing

from agentrail.gateway.stdio.line_stream import READER_SECONDS, LineStream
from agentrail.wire.byte_lines import LineTooLong

ECHO = """
import os, subprocess, sys
import trio
import trio.testing
from agentrail.gateway.stdio.line_stream import open_line_stream

async def main():
    async with open_line_stream() as stream:
        await stream.send(b"ready")
        async for line in stream.lines():
            print("a library prints")
            sys.stdout.flush()
            subprocess.run(["sh", "-c", "cat; echo a child prints"])
            await stream.send(line.upper())
        await stream.send(b"over")

trio.run(main)
"""


@contextmanager
def pipes() -> Iterator[tuple[int, LineStream, int]]:
    source, to_us = os.pipe()
    from_us, target = os.pipe()
    ends = [source, to_us, from_us, target]
    try:
        yield to_us, LineStream(source, target, max_bytes=1000), from_us
    finally:
        for end in ends:
            with suppress(OSError):
                os.close(end)


@contextmanager
def echoing() -> Iterator[subprocess.Popen[bytes]]:
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", ECHO], stdin=pipe, stdout=pipe, stderr=pipe) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        try:
            yield process
        finally:
            process.kill()


async def test_lines_come_whole_wherever_their_bytes_are_cut():
    """Pieces are joined at newlines, and what follows the last newline is no line."""
    with pipes() as (to_us, stream, _):
        seen = []
        async with trio.open_nursery() as nursery:

            async def read() -> None:
                seen.extend([line async for line in stream.lines()])

            nursery.start_soon(read)
            for piece in (b"on", b"e\ntwo\n\nth", b"ree\nrest"):
                os.write(to_us, piece)
                await trio.testing.wait_all_tasks_blocked()
            os.close(to_us)
        assert seen == [b"one", b"two", b"", b"three"]
        assert stream.has_ended


async def test_a_line_over_the_limit_is_reported():
    """The beginning of the next line is unknown then."""
    with pipes() as (to_us, stream, _):
        os.write(to_us, b"x" * 1001)
        with pytest.raises(LineTooLong):
            await anext(aiter(stream.lines()))


async def test_lines_of_many_senders_are_not_mixed():
    """A long line is written in pieces, and no other one comes between them."""
    with pipes() as (_, stream, from_us):
        lines = [bytes([65 + number]) * 100_000 for number in range(5)]
        async with trio.open_nursery() as nursery:
            for line in lines:
                nursery.start_soon(stream.send, line)
            data = b""
            while data.count(b"\n") < len(lines):
                await trio.lowlevel.wait_readable(from_us)
                data += os.read(from_us, 65_536)
        assert sorted(data.splitlines()) == lines


async def test_a_cancelled_sender_completes_its_line():
    """Half a line would join with the next one."""
    with pipes() as (_, stream, from_us):
        data = b""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(stream.send, b"next" * 50_000)
            await trio.testing.wait_all_tasks_blocked()
            nursery.cancel_scope.cancel()
            with trio.CancelScope(shield=True):
                while not data.endswith(b"\n"):
                    await trio.lowlevel.wait_readable(from_us)
                    data += os.read(from_us, 65_536)
        assert data == b"next" * 50_000 + b"\n"


async def test_a_client_that_does_not_read_is_lost_after_30_seconds(autojump_clock):
    """Its input ends too, and later lines are dropped at once."""
    with pipes() as (_, stream, _from_us):
        began = trio.current_time()
        await stream.send(b"x" * 1_000_000)
        assert trio.current_time() - began == pytest.approx(READER_SECONDS)
        assert stream.is_lost
        assert [line async for line in stream.lines()] == []
        await stream.send(b"y")


async def test_a_client_that_left_without_reading_is_lost_after_a_second(autojump_clock):
    """The process must be gone within ten seconds, whatever is still to be said."""
    with pipes() as (_, stream, _from_us):
        began = trio.current_time()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(stream.send, b"x" * 1_000_000)
            await trio.testing.wait_all_tasks_blocked()
            stream.end_input()
        assert trio.current_time() - began == pytest.approx(1)
        assert stream.is_lost


async def test_a_closed_reader_ends_the_input():
    """A client that closed its end of our output gets nothing more, and is not waited for."""
    with pipes() as (_, stream, from_us):
        os.close(from_us)
        await stream.send(b"x")
        assert stream.is_lost
        assert [line async for line in stream.lines()] == []


async def test_files_can_be_read_and_written(tmp_path):
    """They cannot be polled."""
    (tmp_path / "in").write_bytes(b"a\nb\n")
    with (tmp_path / "in").open("rb") as source, (tmp_path / "out").open("wb") as target:
        stream = LineStream(source.fileno(), target.fileno())
        async for line in stream.lines():
            await stream.send(line)
    assert (tmp_path / "out").read_bytes() == b"a\nb\n"


def test_standard_output_carries_only_the_protocol():
    """What libraries and child processes print goes to stderr, and a child finds an empty stdin."""
    with echoing() as process:
        out, err = process.communicate(b"hello\nyou\n", timeout=20)
        assert out == b"HELLO\nYOU\nover\n"
        assert err.count(b"a library prints\n") == 2
        assert err.count(b"a child prints\n") == 2


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_while_stdin_is_open(number):
    """No thread waits for input that never comes."""
    with echoing() as process:
        process.send_signal(number)
        assert process.stdout is not None
        assert process.stdout.read() == b"over\n"
        assert process.wait(timeout=20) == 0


def test_a_signal_after_its_end_changes_nothing():
    """A client that closes stdin and then sends SIGTERM may do so while the interpreter exits."""
    program = f"{ECHO}\nimport signal\nsignal.raise_signal(signal.SIGTERM)\n"
    done = subprocess.run([sys.executable, "-c", program], stdin=subprocess.DEVNULL, check=False, timeout=60)
    assert done.returncode == 0


def test_a_second_signal_ends_it_at_once():
    """Even if the client does not read."""
    with echoing() as process:
        assert process.stdin is not None
        process.stdin.write(b"x" * 200_000 + b"\n")
        process.stdin.flush()
        assert process.stderr is not None
        while b"child" not in process.stderr.readline():
            pass
        process.send_signal(signal.SIGINT)
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=20) is not None
