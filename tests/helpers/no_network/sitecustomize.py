"""Runs in every Python process with this folder on PYTHONPATH: refuses and records connections to other machines."""

import ipaddress
import os
import sys

_LOCAL_NAMES = {None, "", "localhost", b"localhost"}  # "" only binds a free port; another test checks who listens


def _is_local(host: object) -> bool:
    try:
        return host in _LOCAL_NAMES or ipaddress.ip_address(str(host)).is_loopback
    except ValueError:
        return False


def _watch(event: str, arguments: tuple[object, ...]) -> None:
    if event in ("socket.connect", "socket.bind", "socket.sendto"):
        address = arguments[1]
        host = address[0] if isinstance(address, tuple) else "localhost"  # the others are files
    elif event in ("socket.getaddrinfo", "socket.gethostbyname"):
        host = arguments[0]
    else:
        return
    if not _is_local(host):
        with open(os.environ["NETWORK_NOTES"], "a") as notes:
            notes.write(f"{event} {host} {sys.argv[0]}\n")
        raise OSError(f"{event}: a test has taken the network away")


sys.addaudithook(_watch)
