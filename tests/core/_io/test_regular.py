"""Inputs that are not regular files are refused at once: opening a pipe without a writer would block forever."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from energyalign.core._io.regular import open_regular
from energyalign.core._io.strict_json import read_json_file, read_lines, read_text


def test_a_file_is_read_also_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"content")
    (tmp_path / "link").symlink_to("file")
    for name in ("file", "link"):
        with open_regular(tmp_path / name) as stream:
            assert stream.read() == b"content"


@pytest.mark.parametrize("read", [open_regular, read_text, read_json_file, lambda path: list(read_lines(path))])
def test_a_pipe_and_a_device_are_refused(tmp_path: Path, read: object) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", Path("/dev/zero")):
        with pytest.raises(ValueError, match="it is not a regular file: save its contents"):
            read(path)  # type: ignore[operator]


def test_what_cannot_be_opened_is_an_error_of_the_system(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "socket"))
        for name in ("socket", "missing", "."):
            with pytest.raises(OSError, match=r"No such|Is a directory"):
                open_regular(tmp_path / name)
