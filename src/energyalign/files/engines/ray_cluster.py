"""The way into a Ray cluster, there already or started for us.

Ray reads its environment when it is imported: no module of ours imports it before `join_cluster`.
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

_PATIENCE = 10.0  # seconds; Ray itself waits for minutes where nobody answers
_FIRST_WITH_TOKENS = (2, 52)
_own_folder = contextlib.ExitStack()  # that of a cluster that we started


def join_cluster(address: str | None, *, cpus: int | None = None) -> None:
    """Join the cluster at the address, or start one of so many processors on this machine, which ends with us."""
    address = _resolve(address)
    own = _prepare_own(cpus) if address is None else {}
    import ray

    try:
        _knock(address)
        # Ray lets its workers import from the current folder, and takes SIGTERM for itself.
        with contextlib.chdir("/"), _sigterm_kept():
            ray.init(address=address or "local", log_to_driver=False, configure_logging=False, **own)
    except (ConnectionError, ValueError, RuntimeError, OSError) as error:
        reason = str(error).partition("\n")[0]
        raise EnergyAlignError(
            f"no Ray cluster answers at {address or 'this machine'} ({reason}): start one with `ray start --head`, or "
            "leave --address out for one on this machine."
        ) from error
    except (Interrupted, KeyboardInterrupt):
        leave_cluster()
        raise
    if address is None and not ray.util.get_node_ip_address().startswith(("127.", "::1")):
        leave_cluster()
        raise EnergyAlignError(
            f"Ray {ray.__version__} would listen to other machines: install another version, or start a cluster that "
            "is protected as you want it and give its --address."
        )


def leave_cluster() -> None:
    """Leave it, or end the one that was started."""
    import ray

    ray.shutdown()
    _own_folder.close()


def _resolve(address: str | None) -> str | None:
    """The address, or None where Ray would start a cluster: by ``local``, or by ``auto`` and RAY_ADDRESS=local."""
    if address == "":
        raise EnergyAlignError(
            "--address is empty: give that of a Ray cluster, or leave it out for one on this machine."
        )
    if address == "auto":
        address = os.environ.get("RAY_ADDRESS") or address
    return None if address == "local" else address


def _prepare_own(cpus: int | None) -> dict[str, Any]:
    """Options for a cluster that only this process can use: it listens on loopback alone, and asks for a token.

    Its folder is inside a private one: in that of Ray, everybody can write.
    """
    wanted = {"RAY_AUTH_MODE": "token", "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0", "RAY_USAGE_STATS_ENABLED": "0"}
    if "ray" in sys.modules and any(os.environ.get(name) != value for name, value in wanted.items()):
        raise EnergyAlignError(
            "Ray was imported before, and would let others into a cluster that is started now: import it later, or "
            "give the --address of a cluster."
        )
    os.environ |= wanted | {"RAY_AUTH_TOKEN": os.environ.get("RAY_AUTH_TOKEN") or secrets.token_hex(32)}
    import ray

    if tuple(int(part) for part in ray.__version__.split(".")[:2]) < _FIRST_WITH_TOKENS:
        raise EnergyAlignError(
            f"Ray {ray.__version__} would let everybody into its cluster: install "
            f"{'.'.join(map(str, _FIRST_WITH_TOKENS))} or newer with pip install 'energyalign[sweep]'."
        )
    private = tempfile.TemporaryDirectory(prefix="ea-", ignore_cleanup_errors=True)  # names of sockets must be short
    folder = os.path.join(_own_folder.enter_context(private), "ray")
    return {"num_cpus": cpus, "include_dashboard": False, "_temp_dir": folder}


@contextlib.contextmanager
def _sigterm_kept() -> Iterator[None]:
    before = signal.getsignal(signal.SIGTERM)
    try:
        yield
    except SystemExit:  # by the handler of Ray
        raise Interrupted(signal.SIGTERM) from None
    finally:
        signal.signal(signal.SIGTERM, before)


def _knock(address: str | None) -> None:
    """Raise an OSError if nobody listens at host:port; other forms of address are for Ray to understand."""
    host, colon, port = (address or "").removeprefix("ray://").rpartition(":")
    if colon and port.isdigit():
        socket.create_connection((host.strip("[]"), int(port)), _PATIENCE).close()
