"""Join a Ray cluster, or start one on this machine.

Ray reads its environment when it is imported: none of our modules imports it before `join_cluster`.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import signal
import socket
import sys
import tempfile
from collections.abc import Iterator
from typing import Any

from energyalign.core._io.signals import Interrupted
from energyalign.core.errors import EnergyAlignError

_PATIENCE = 10.0  # seconds; Ray itself waits for minutes if nothing answers
_FIRST_WITH_TOKENS = (2, 52)
_own_folder = contextlib.ExitStack()  # of a cluster that we started


def join_cluster(address: str | None, *, cpus: int | None = None) -> None:
    """Join the cluster at the address, or start one with `cpus` CPUs on this machine that ends with this process."""
    address = _resolve(address)
    own = _prepare_own(cpus) if address is None else {}
    import ray

    try:
        _check_listening(address)
        # Ray lets its workers import from the current folder, and replaces the handler of SIGTERM.
        with contextlib.chdir("/"), _keep_sigterm():
            ray.init(address=address or "local", log_to_driver=False, configure_logging=False, **own)
    except (ConnectionError, ValueError, RuntimeError, OSError) as error:
        reason = str(error).partition("\n")[0]
        raise EnergyAlignError(
            f"no Ray cluster answers at {address or 'this machine'} ({reason}): start one with `ray start --head`, or "
            "leave --address out to use this machine."
        ) from error
    except (Interrupted, KeyboardInterrupt):
        leave_cluster()
        raise
    if address is None and not ray.util.get_node_ip_address().startswith(("127.", "::1")):
        leave_cluster()
        raise EnergyAlignError(
            f"Ray {ray.__version__} would accept connections from other machines: install another version, or start a "
            "protected cluster yourself and give its --address."
        )


def leave_cluster() -> None:
    """Leave the cluster, or stop it if it was started by this process."""
    import ray

    ray.shutdown()
    _own_folder.close()


def _resolve(address: str | None) -> str | None:
    """Return the address; None where Ray would start a cluster: ``local``, or ``auto`` with RAY_ADDRESS=local."""
    if address == "":
        raise EnergyAlignError("--address must not be empty: give a Ray cluster, or leave it out to use this machine.")
    if address == "auto":
        address = os.environ.get("RAY_ADDRESS") or address
    return None if address == "local" else address


def _prepare_own(cpus: int | None) -> dict[str, Any]:
    """Return options for a cluster that only this process can use: it listens on loopback and needs a token.

    Its folder is private, because every user can write to Ray's default.
    """
    wanted = {"RAY_AUTH_MODE": "token", "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0", "RAY_USAGE_STATS_ENABLED": "0"}
    if "ray" in sys.modules and any(os.environ.get(name) != value for name, value in wanted.items()):
        raise EnergyAlignError(
            "Ray was imported before energyalign could protect the cluster that it starts: import ray after this "
            "call, or give the --address of a running cluster."
        )
    os.environ |= wanted | {"RAY_AUTH_TOKEN": os.environ.get("RAY_AUTH_TOKEN") or secrets.token_hex(32)}
    import ray

    if tuple(int(part) for part in ray.__version__.split(".")[:2]) < _FIRST_WITH_TOKENS:
        raise EnergyAlignError(
            f"Ray must be {'.'.join(map(str, _FIRST_WITH_TOKENS))} or newer to protect its cluster, got "
            f"{ray.__version__}: pip install 'energyalign[sweep]'."
        )
    private = tempfile.TemporaryDirectory(prefix="ea-", ignore_cleanup_errors=True)  # socket paths must be short
    folder = os.path.join(_own_folder.enter_context(private), "ray")
    return {"num_cpus": cpus, "include_dashboard": False, "_temp_dir": folder}


@contextlib.contextmanager
def _keep_sigterm() -> Iterator[None]:
    before = signal.getsignal(signal.SIGTERM)
    try:
        yield
    except SystemExit:  # raised by Ray's handler
        raise Interrupted(signal.SIGTERM) from None
    finally:
        signal.signal(signal.SIGTERM, before)


def _check_listening(address: str | None) -> None:
    """Raise OSError if nothing listens at host:port; other forms of address are left to Ray."""
    host, colon, port = (address or "").removeprefix("ray://").rpartition(":")
    if colon and port.isdigit():
        socket.create_connection((host.strip("[]"), int(port)), _PATIENCE).close()
