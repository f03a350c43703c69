"""Start Python programs in processes that have large libraries loaded: a script, controlled by warm_process.py.

Only third-party libraries are loaded here. A program starts by a fork before anything was computed, imports this
package itself, has its own session, and ends like any interpreter. So it differs from a program started in a shell only
in the seconds that loading the libraries takes.
"""

from __future__ import annotations

import json
import os
import runpy
import signal
import sys
from typing import Any


def serve() -> dict[str, Any] | None:
    """Answer requests, one JSON value per line; return a program to run in a new process, or None at the end."""
    for line in sys.stdin:
        request = json.loads(line)
        if "program" in request:
            answer: int | None = os.fork()
            if answer == 0:
                return request
        else:
            answer = exit_code(request["pid"])
        print(json.dumps(answer), flush=True)
    return None


def exit_code(pid: int) -> int | None:
    """Return the exit code as `subprocess` does: None while it runs, and minus the number of a signal."""
    ended, status = os.waitpid(pid, os.WNOHANG)
    return os.waitstatus_to_exitcode(status) if ended else None


def run(request: dict[str, Any]) -> None:
    """Replace this process by the program: `-m module` or the path of a script, with arguments."""
    os.setsid()
    os.chdir(request["folder"])
    # Jobs started in the background, such as some test suites, ignore Ctrl-C by default.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    for stream, descriptor in (("stdout", 1), ("stderr", 2)):
        os.dup2(os.open(request[stream], os.O_WRONLY | os.O_CREAT | os.O_TRUNC), descriptor)
    first, *others = request["program"]
    if first == "-m":
        sys.argv = others
        sys.path[0] = request["folder"]
        runpy.run_module(others[0], run_name="__main__", alter_sys=True)
    else:
        sys.argv = request["program"]
        sys.path[0] = os.path.dirname(first)
        runpy.run_path(first, run_name="__main__")


if __name__ == "__main__":
    import lightning_fabric  # noqa: F401
    import sklearn.datasets  # noqa: F401
    import torch.utils.tensorboard  # noqa: F401

    program = serve()
    if program is not None:
        run(program)
