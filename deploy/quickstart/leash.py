"""Runs a command that the kernel kills when its parent dies: ``python -I -S leash.py PARENT COMMAND...``.

A supervisor that is killed outright cannot clean up after itself; prctl(2) PR_SET_PDEATHSIG lets the kernel do it. The
request survives execve(2), so that this program is gone once the command runs. It stands alone, without the package, to start fast.
"""

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1


def main() -> None:
    """Ask for the signal, then become the command."""
    parent, *command = sys.argv[1:]
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    # The parent may have died before the request was made.
    if os.getppid() != int(parent):
        sys.exit(1)
    try:
        os.execvp(command[0], command)  # noqa: S606  # no shell is wanted
    except OSError as error:
        sys.exit(f"{command[0]}: {error.strerror}")


main()
