"""Processes that a test has started, and the addresses where they listen."""

from __future__ import annotations

import contextlib
import os
import time
from ipaddress import IPv4Address, IPv6Address, ip_address
from pathlib import Path

MARK = "ENERGYALIGN_TEST"


def living(mark: str, session: int) -> set[int]:
    """Return the running processes of a session, and those with the mark in the environment variable `MARK`."""
    found = set()
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            state, _, _, own_session = (folder / "stat").read_text().rpartition(")")[2].split()[:4]
            marked = f"{MARK}={mark}".encode() in (folder / "environ").read_bytes().split(b"\0")
        except OSError:  # it has ended
            continue
        if state != "Z" and (marked or int(own_session) == session):
            found.add(int(folder.name))
    return found


def all_ended(mark: str, session: int, *, seconds: float) -> bool:
    """Return whether all of them end within this time."""
    end = time.monotonic() + seconds
    while (left := living(mark, session)) and time.monotonic() < end:
        time.sleep(0.1)
    return not left


def command_of(pid: int) -> str:
    """Return the command line of a process; empty if it has ended."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
    except OSError:
        return ""


def listening(pids: set[int]) -> set[tuple[IPv4Address | IPv6Address, int]]:
    """Return the addresses and ports at which these processes accept TCP connections."""
    sockets = {link for pid in pids for link in _open_files(pid)}
    found = set()
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            _, local, _, state, *_, inode = line.split()[:10]
            if state == "0A" and f"socket:[{inode}]" in sockets:
                address, _, port = local.partition(":")
                found.add((_address(address), int(port, 16)))
    return found


def _open_files(pid: int) -> list[str]:
    found = []
    with contextlib.suppress(OSError), os.scandir(f"/proc/{pid}/fd") as entries:  # the process may have ended,
        for entry in entries:
            with contextlib.suppress(OSError):  # or closed one of them
                found.append(os.readlink(entry.path))
    return found


def _address(digits: str) -> IPv4Address | IPv6Address:
    """Parse an address of the kernel: groups of four bytes in native byte order."""
    groups = [int(digits[i : i + 8], 16).to_bytes(4, "little") for i in range(0, len(digits), 8)]
    address = ip_address(b"".join(groups))
    return (address.ipv4_mapped or address) if isinstance(address, IPv6Address) else address
