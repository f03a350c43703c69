"""Start real processes that have PyTorch and Lightning loaded, because loading takes longer than the tests."""

from __future__ import annotations

import atexit
import functools
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any


class WarmProcess:
    """A Python program in a process and session of its own; warm_server.py starts it.

    Parameters
    ----------
    program : list
        ``["-m", module, ...]`` or ``[script, ...]``.
    folder : Path
        Its working directory.
    logs : Path
        A folder for its output.
    """

    def __init__(self, program: list[object], folder: Path, logs: Path) -> None:
        logs.mkdir(exist_ok=True)
        self._logs = {name: str(logs / name) for name in ("stdout", "stderr")}
        self.pid = _ask({"program": [str(word) for word in program], "folder": str(folder), **self._logs})
        self._code: int | None = None

    def poll(self) -> int | None:
        """Return the exit code, or None while it runs."""
        if self._code is None:
            self._code = _ask({"pid": self.pid})
        return self._code

    def wait(self) -> int:
        """Wait for the end and return the exit code; kill the process after five minutes."""
        end = time.monotonic() + 300
        while (code := self.poll()) is None:
            if time.monotonic() > end:
                os.killpg(self.pid, signal.SIGKILL)
            time.sleep(0.01)
        return code

    @property
    def stderr(self) -> str:
        """Return its output on stderr so far."""
        return Path(self._logs["stderr"]).read_text()


@functools.cache
def _server() -> subprocess.Popen[str]:
    """Return the server that all tests of this process share; it ends with them."""
    server = subprocess.Popen(
        [sys.executable, str(Path(__file__).with_name("warm_server.py"))],
        env={**os.environ, "OMP_NUM_THREADS": "1"}, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        start_new_session=True,
    )  # fmt: skip
    atexit.register(server.communicate)
    return server


def _ask(request: dict[str, Any]) -> Any:
    server = _server()
    assert server.stdin is not None
    assert server.stdout is not None
    print(json.dumps(request), file=server.stdin, flush=True)
    return json.loads(server.stdout.readline())
