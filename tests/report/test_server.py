"""One page, for this machine only, updated with its runs."""

from __future__ import annotations

import contextlib
import http.client
import json
import socket
import struct
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from made_row import made_row

from energyalign.core.errors import EnergyAlignError
from energyalign.experiments.train.run_directory import RunDirectory
from energyalign.report import server as served
from energyalign.report.page.story import Pictures
from energyalign.report.server import HOST, LivePage, make_server
from energyalign.report.trainings import Training

CONFIG = {
    "kind": "LongTailConfig", "name": "digits", "head": "cosine", "backbone": "small-cnn", "seed": 0,
    "recipe": {"epochs": 60, "optimizer": {"kind": "SGD"}},
}  # fmt: skip


class Shown:
    """A page that may fail."""

    def __init__(self) -> None:
        self.text = "first"

    def mark(self) -> str:
        if self.text == "broken":
            raise EnergyAlignError("rows.jsonl cannot be read.")
        return self.text

    def current(self) -> tuple[bytes, str]:
        return self.text.encode(), self.mark()


@pytest.fixture
def shown() -> Shown:
    return Shown()


@pytest.fixture
def port(shown: Shown) -> Iterator[int]:
    with make_server(shown, 0) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server.server_address[1]
        server.shutdown()
        thread.join()


def ask(port: int, path: str = "/", *, method: str = "GET", host: str | None = None) -> tuple[int, bytes, str | None]:
    connection = http.client.HTTPConnection(HOST, port, timeout=30)
    try:
        connection.request(method, path, headers={} if host is None else {"Host": host})
        answer = connection.getresponse()
        return answer.status, answer.read(), answer.getheader("ETag")
    finally:
        connection.close()


def test_the_page_as_it_is_now(port: int, shown: Shown) -> None:
    assert ask(port) == (200, b"first", '"first"')
    shown.text = "second"
    assert ask(port, method="HEAD") == (200, b"", '"second"')
    assert ask(port, host=f"localhost:{port}")[0] == 200


@pytest.mark.parametrize("path", ["/index.html", "/../etc/passwd", "/?x", "/rows.jsonl"])
def test_there_is_one_page(port: int, path: str) -> None:
    assert ask(port, path)[0] == 404


@pytest.mark.parametrize("host", ["evil.example", "evil.example:80", "127.0.0.1.evil.example:1", "", "localhost.evil"])
def test_for_no_other_name(port: int, host: str) -> None:
    """A page from another site whose name resolves to this machine must not read ours."""
    status, body, _ = ask(port, host=host)
    assert status == 403
    assert b"first" not in body


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "TRACE", "CONNECT"])
def test_nothing_can_be_sent(port: int, method: str) -> None:
    assert ask(port, method=method)[0] == 501


@pytest.mark.parametrize(
    ("request_bytes", "status"),
    [
        (b"GET / HTTP/1.0\r\n\r\n", 403),  # without a name, it could be any
        (b"GET /" + b"a" * 100_000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n", 414),
        (b"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + b"a" * 100_000 + b"\r\n\r\n", 431),
        (b"GET / HTTP/1.1\r\nHost: localhost\r\n" + b"X: a\r\n" * 200 + b"\r\n", 431),
        (b"GET //etc/passwd HTTP/1.1\r\nHost: localhost\r\n\r\n", 404),
        (b"GET /%2e%2e/%2e%2e/etc/passwd HTTP/1.1\r\nHost: localhost\r\n\r\n", 404),
        (b"GET file:///etc/passwd HTTP/1.1\r\nHost: localhost\r\n\r\n", 404),
        (b"GET http://evil.example/ HTTP/1.1\r\nHost: localhost\r\n\r\n", 404),
        (b"HEAD /../rows.jsonl HTTP/1.1\r\nHost: localhost\r\n\r\n", 404),
    ],
)
def test_requests_that_no_browser_sends(port: int, request_bytes: bytes, status: int) -> None:
    with socket.create_connection((HOST, port), timeout=30) as client:
        client.sendall(request_bytes)
        answer = client.makefile("rb").read(200)
    assert b" %d " % status in answer
    assert ask(port)[0] == 200


def test_a_client_that_says_nothing_keeps_nobody_waiting(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(served._Handler, "timeout", 0.2)
    with contextlib.ExitStack() as stack:
        silent = [stack.enter_context(socket.create_connection((HOST, port), timeout=30)) for _ in range(20)]
        for client in silent:
            client.sendall(b"GET / HTTP/1.1\r\nHost: local")
        assert ask(port)[0] == 200
        assert [client.recv(1) for client in silent] == [b""] * 20  # and is let go


def test_a_client_that_is_gone_before_its_answer(
    port: int, shown: Shown, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shown, "mark", lambda: "long")
    shown.text = "long " * 2_000_000
    with socket.create_connection((HOST, port), timeout=30) as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # gone with a reset
        client.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        client.recv(10)
    assert ask(port)[0] == 200
    assert capfd.readouterr().err == ""


def test_runs_that_cannot_be_read(port: int, shown: Shown) -> None:
    shown.text = "broken"
    status, body, _ = ask(port)
    assert status == 500
    assert b"rows.jsonl cannot be read." in body


def test_a_port_in_use(port: int) -> None:
    with pytest.raises(EnergyAlignError, match=rf"cannot listen on port {port}: .* Give another --port"):
        make_server(Shown(), port)


def test_only_this_machine_is_listened_to() -> None:
    with make_server(Shown(), 0) as server:
        assert server.server_address[0] == "127.0.0.1"


def test_made_anew_only_when_something_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[list[str]] = []
    drawn: list[int] = []

    def page_of(runs, *, draw, mark, **_):
        made.append([run.path.name for run in runs])
        draw([Training("one", tuple(runs))])
        return f"page {len(made)} {mark}"

    monkeypatch.setattr(served, "page_of", page_of)
    monkeypatch.setattr(served, "draw_pictures", lambda trainings: drawn.append(len(trainings)) or Pictures([], []))

    def begin(name: str) -> Path:
        (tmp_path / name / "checkpoints").mkdir(parents=True)
        (tmp_path / name / "config.json").write_text(json.dumps(CONFIG))
        return tmp_path / name

    row = made_row(CONFIG).to_json()
    folder = begin("seed-0")
    page = LivePage([tmp_path])
    text, mark = page.current()
    assert text.decode() == f"page 1 {mark}"
    assert page.mark() == mark
    assert page.current() == (text, mark)
    assert made == [["seed-0"]]
    (folder / "checkpoints" / "epoch-00002-batch-000000.safetensors").touch()
    assert page.mark() != mark
    assert page.current()[0].startswith(b"page 2 ")
    assert len(drawn) == 1  # a checkpoint changes no figure
    RunDirectory(folder).write_rows([row])
    page.current()
    assert len(drawn) == 2
    (folder / "rows.jsonl").write_text("{")
    assert page.current()[0].startswith(b"page 3 ")  # the last that could be made
    RunDirectory(folder).write_rows([row])
    begin("seed-1")  # a run that begins later is seen too
    assert page.current()[0].startswith(b"page 4 ")
    assert made[-1] == ["seed-0", "seed-1"]
