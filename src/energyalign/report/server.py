"""The page on localhost, made anew whenever its runs have changed."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Sequence
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from energyalign.core.errors import EnergyAlignError
from energyalign.report.page.write import page_of
from energyalign.report.progress import checkpoints_of
from energyalign.report.runs import find_runs

HOST = "127.0.0.1"
_NAMES = (HOST, "localhost")


class LivePage:
    """The page of the runs in these folders, as it is now; made once for each state of them.

    Parameters
    ----------
    folders : sequence of paths
        Run directories, or folders that hold some: runs that begin later appear too.
    title : str
    """

    def __init__(self, folders: Sequence[str | Path], *, title: str = "") -> None:
        self.folders, self.title = folders, title
        self._lock = threading.Lock()
        self._state, self._page, self._mark = "", b"", ""

    def current(self) -> tuple[bytes, str]:
        """The page and a mark that changes with it."""
        with self._lock:
            runs = find_runs(self.folders)
            watched = [path for run in runs for path in (run.path / "rows.jsonl", *checkpoints_of(run))]
            state = "\n".join(sorted(f"{path} {_changed(path)}" for path in watched)) + f"\n{len(runs)}"
            if state != self._state:
                self._page = page_of(runs, title=self.title, is_served=True).encode()
                self._mark = f'"{hashlib.sha256(self._page).hexdigest()}"'
                self._state = state
            return self._page, self._mark


def make_server(page: Callable[[], tuple[bytes, str]], port: int) -> ThreadingHTTPServer:
    """A server that is not running yet; it gives the page at ``/`` to this machine, and nothing else to anyone.

    Parameters
    ----------
    page : callable
        Gives the bytes and their mark.
    port : int
        0 for any that is free.
    """

    class Handler(_Handler):
        current = staticmethod(page)

    try:
        return ThreadingHTTPServer((HOST, port), Handler)
    except (OSError, OverflowError) as error:
        raise EnergyAlignError(f"cannot listen on port {port}: {error}. Give another --port, or 0 for any.") from error


class _Handler(BaseHTTPRequestHandler):
    current: Callable[[], tuple[bytes, str]]
    server_version, sys_version = "energyalign", ""

    def do_GET(self) -> None:
        self._answer(with_body=True)

    def do_HEAD(self) -> None:
        self._answer(with_body=False)

    def _answer(self, *, with_body: bool) -> None:
        # A page of somewhere else that was led to this address by its name server must not read it.
        if self.headers.get("Host", "").rsplit(":", 1)[0] not in _NAMES:
            self.send_error(HTTPStatus.FORBIDDEN, "this page is for this machine alone")
            return
        if self.path != "/":
            self.send_error(HTTPStatus.NOT_FOUND, "there is one page, at /")
            return
        try:
            body, mark = self.current()
        except EnergyAlignError as error:
            self.send_error(HTTPStatus.INTERNAL_SERVER_ERROR, "the runs cannot be read", str(error))
            return
        self.send_response(HTTPStatus.OK)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.send_header("ETag", mark)
        self.send_header("Cache-Control", "no-store")
        self.send_header("X-Content-Type-Options", "nosniff")
        self.end_headers()
        if with_body:
            self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Nothing: the page asks every two seconds."""


def _changed(path: Path) -> int:
    return path.stat().st_mtime_ns if path.exists() else 0
