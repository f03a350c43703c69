"""Serve the page on localhost, and rebuild it whenever its runs have changed."""

from __future__ import annotations

import contextlib
import hashlib
import threading
from collections.abc import Sequence
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Protocol

from energyalign.core.errors import EnergyAlignError
from energyalign.experiments.engine.stored import StoredRun, find_runs
from energyalign.report.page.story import Pictures, draw_pictures
from energyalign.report.page.write import page_of
from energyalign.report.trainings import Training, checkpoints_of

HOST = "127.0.0.1"
_NAMES = (HOST, "localhost")


class Page(Protocol):
    """A page to serve."""

    def mark(self) -> str:
        """Return text that changes whenever the page changes, without building the page."""

    def current(self) -> tuple[bytes, str]:
        """Return the page and its mark."""


class LivePage:
    """The page of the runs in some folders, rebuilt when they change.

    Parameters
    ----------
    folders : sequence of paths
        Run directories, or folders that contain some; new runs are found too.
    title : str, default ""
        Title of the page; empty for the names of the cells.
    """

    def __init__(self, folders: Sequence[str | Path], *, title: str = "") -> None:
        self.folders, self.title = folders, title
        self._lock = threading.Lock()
        self._made, self._page = "", b""
        self._rows, self._pictures = "", Pictures([], [])

    def mark(self) -> str:
        """Return a digest of all rows and checkpoints."""
        runs = find_runs(self.folders)
        return _digest([*_rows_of(runs), *(path for run in runs for path in checkpoints_of(run))])

    def current(self) -> tuple[bytes, str]:
        """Return the page and its mark, which is computed first, so that the page is never older than its mark.

        While files cannot be read, return the last page that could be built.
        """
        with self._lock:
            try:
                mark = self.mark()
                if mark != self._made:
                    runs = find_runs(self.folders)
                    self._page = page_of(runs, title=self.title, mark=mark, draw=self._draw).encode()
                    self._made = mark
            except EnergyAlignError:
                if not self._made:
                    raise
            return self._page, self._made

    def _draw(self, trainings: Sequence[Training]) -> Pictures:
        """Draw figures only when rows have changed: checkpoints do not affect them."""
        rows = _digest(_rows_of([run for training in trainings for run in training.runs]))
        if rows != self._rows:
            self._rows, self._pictures = rows, draw_pictures(trainings)
        return self._pictures


def make_server(page: Page, port: int) -> ThreadingHTTPServer:
    """Return a server, not yet running, for the page at ``/``; it answers only this machine.

    Parameters
    ----------
    page : Page
    port : int
        0 for any free port.
    """

    class Handler(_Handler):
        shown = page

    try:
        return ThreadingHTTPServer((HOST, port), Handler)
    except (OSError, OverflowError) as error:
        raise EnergyAlignError(f"cannot listen on port {port}: {error}. Give another --port, or 0 for any.") from error


class _Handler(BaseHTTPRequestHandler):
    shown: Page
    server_version, sys_version = "energyalign", ""
    timeout = 30  # seconds until the thread of an idle client is released

    def do_GET(self) -> None:
        self._answer(with_body=True)

    def do_HEAD(self) -> None:
        self._answer(with_body=False)

    def _answer(self, *, with_body: bool) -> None:
        # DNS rebinding: another site whose name resolves to this address must not read the page.
        if self.headers.get("Host", "").rsplit(":", 1)[0] not in _NAMES:
            self.send_error(HTTPStatus.FORBIDDEN, "this page is available only on this machine")
            return
        if self.path != "/":
            self.send_error(HTTPStatus.NOT_FOUND, "the only page is /")
            return
        try:
            body, mark = self.shown.current() if with_body else (b"", self.shown.mark())
        except EnergyAlignError as error:
            self.send_error(HTTPStatus.INTERNAL_SERVER_ERROR, "the runs cannot be read", str(error))
            return
        self.send_response(HTTPStatus.OK)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        if with_body:
            self.send_header("Content-Length", str(len(body)))
        self.send_header("ETag", f'"{mark}"')
        self.send_header("Cache-Control", "no-store")
        self.send_header("X-Content-Type-Options", "nosniff")
        self.send_header("X-Frame-Options", "DENY")
        with contextlib.suppress(ConnectionError):  # the client may have disconnected
            self.end_headers()
            self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Do not log: the page asks every two seconds."""


def _rows_of(runs: Sequence[StoredRun]) -> list[Path]:
    return [run.path / "rows.jsonl" for run in runs]


def _digest(paths: Sequence[Path]) -> str:
    """Return a digest of names and modification times; missing files count by name."""
    lines = []
    for path in sorted(paths):
        try:
            lines.append(f"{path} {path.stat().st_mtime_ns}")
        except FileNotFoundError:
            lines.append(str(path))
    return hashlib.sha256("\n".join(lines).encode(errors="surrogateescape")).hexdigest()
