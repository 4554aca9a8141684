"""What a command may use up, set by a shell that then becomes the command, or waits for it.

Not by `preexec_fn`, which runs Python between fork and exec and may deadlock in a process with threads.
"""

import math
from typing import Final

from attrs import frozen

_CPU_SLACK_SECONDS: Final = 5
_BLOCK_BYTES: Final = 512  # of `ulimit -f`, after POSIX
_KIB: Final = 1_024

OWN_PROCESSES: Final = 2
"""Of a confined command's namespace, those that are not its own: bubblewrap's first process and the shell."""

_BECOMING: Final = 'exec "$@"'
# The shell stays when the command has ended, because the namespace ends with it: it says so at its own input, a socket, and
# waits until we have counted what is left running. It does not count itself, for a command of the same user may do anything
# to it. After a SIGTERM it stays until no cleaner is left; the sender of that kills all when the time for it is over.
# It says nothing else: in a subshell, because a plain command that is killed makes some shells print "Killed".
_STAYING: Final = (
    'asked=; trap "asked=1" TERM; exec 3>&2 2>/dev/null; (exec "$@" </dev/null 2>&3 3>&-); '
    'code=$?; if [ ! "$asked" ]; then echo >&0; read -r _; fi; set -- /proc/[0-9]*; '
    f'while [ "$asked" ] && [ $# -gt {OWN_PROCESSES} ]; do sleep 0.01; set -- /proc/[0-9]*; done; exit $code'
)


@frozen(kw_only=True)
class CommandLimits:
    """What a command may use up. Each process counts for itself, but for `max_processes`.

    Attributes:
        max_memory_bytes: Of address space.
        max_file_bytes: Of any file that it writes.
        max_open_files: At a time.
        max_processes: At a time, all together; only where commands are confined, because elsewhere all processes of the
            user count. The kernel knows no such limit for root.
        max_temporary_bytes: In `/tmp` and the like, all together; only where commands are confined, because there they are
            in memory.
    """

    max_memory_bytes: int = 4 << 30
    max_file_bytes: int = 1 << 30
    max_open_files: int = 1_024
    max_processes: int = 256
    max_temporary_bytes: int = 2 << 30

    def wrap(
        self, argv: tuple[str, ...], *, timeout_seconds: float, confined: bool, staying: bool
    ) -> tuple[str, ...]:
        """Put a shell around a command that sets its limits.

        Args:
            argv: The command.
            timeout_seconds: How long it may take; it gets a little more than that of processor time.
            confined: Whether all its processes together can be counted.
            staying: Whether the shell stays when the command has ended, says so at its input, and waits for leave to end.
        """
        seconds = math.ceil(timeout_seconds) + _CPU_SLACK_SECONDS
        # A limit that is lower already stays, so a failure is none; and not every system has them all.
        settings = [
            f"ulimit {flag} {value} 2>/dev/null"
            for flag, value in (
                ("-c", 0),
                ("-t", seconds),
                ("-v", self.max_memory_bytes // _KIB),
                ("-f", self.max_file_bytes // _BLOCK_BYTES),
                ("-n", self.max_open_files),
            )
        ]
        if confined:  # the letter depends on the shell
            number = self.max_processes
            settings.append(f"ulimit -u {number} 2>/dev/null || ulimit -p {number} 2>/dev/null")
        script = "; ".join((*settings, _STAYING if staying else _BECOMING))
        return ("/bin/sh", "-c", script, "sh", *argv)
