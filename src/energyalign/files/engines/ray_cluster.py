"""The way into a Ray cluster, there already or started for us."""

from __future__ import annotations

import socket
from typing import Any

import ray

from energyalign.core.errors import EnergyAlignError

_PATIENCE = 10.0  # seconds; Ray itself waits for minutes where nobody answers


def join_cluster(address: str | None, *, cpus: int | None = None) -> None:
    """Join the cluster at the address, or start one of so many processors on this machine, which ends with us."""
    own: dict[str, Any] = {"num_cpus": cpus, "include_dashboard": False} if address is None else {}
    try:
        _knock(address)
        ray.init(address=address or "local", log_to_driver=False, configure_logging=False, **own)
    except (ConnectionError, ValueError, RuntimeError, OSError) as error:
        reason = str(error).partition("\n")[0]
        raise EnergyAlignError(
            f"no Ray cluster answers at {address or 'this machine'} ({reason}): start one with `ray start --head`, or "
            "leave --address out for one on this machine."
        ) from error


def _knock(address: str | None) -> None:
    """Raise an OSError if nobody listens at host:port; other forms of address are for Ray to understand."""
    host, colon, port = (address or "").removeprefix("ray://").rpartition(":")
    if colon and port.isdigit():
        socket.create_connection((host.strip("[]"), int(port)), _PATIENCE).close()
