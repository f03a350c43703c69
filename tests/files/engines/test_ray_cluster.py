"""A Ray cluster that we start always listens on this machine only, and requires a token."""

from __future__ import annotations

import os
import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from energyalign.core.errors import EnergyAlignError
from energyalign.files.engines.ray_cluster import join_cluster, leave_cluster

pytestmark = pytest.mark.promise("Servers listen on this machine only and end with their command", "addresses")


class FakeRay(ModuleType):
    """Records how it is started instead of starting anything."""

    __version__ = "2.60.0"
    util = SimpleNamespace(get_node_ip_address=lambda: "127.0.0.1")

    def init(self, **options: Any) -> None:
        self.options = options

    def shutdown(self) -> None:
        """Do nothing."""


@pytest.fixture
def ray(monkeypatch: pytest.MonkeyPatch) -> FakeRay:
    monkeypatch.setattr(os, "environ", {name: text for name, text in os.environ.items() if not name.startswith("RAY_")})
    fake = FakeRay("ray")
    monkeypatch.setitem(sys.modules, "ray", fake)
    os.environ |= {"RAY_AUTH_MODE": "token", "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0", "RAY_USAGE_STATS_ENABLED": "0"}
    return fake


@pytest.mark.parametrize(
    ("address", "environment"), [(None, ""), ("local", ""), ("auto", "local"), (None, "10.0.0.1:1")]
)
def test_a_cluster_of_its_own(ray: FakeRay, address: str | None, environment: str) -> None:
    os.environ["RAY_ADDRESS"] = environment
    join_cluster(address)
    assert ray.options["address"] == "local"
    assert ray.options["_temp_dir"].endswith("/ray")
    assert os.environ["RAY_AUTH_TOKEN"]
    leave_cluster()


def test_the_cluster_of_others(ray: FakeRay) -> None:
    os.environ["RAY_ADDRESS"] = ""
    join_cluster("auto")
    assert ray.options["address"] == "auto"
    assert "_temp_dir" not in ray.options
    leave_cluster()


def test_no_address(ray: FakeRay) -> None:
    """An empty address, as from an unset variable."""
    with pytest.raises(EnergyAlignError, match="--address must not be empty"):
        join_cluster("")
    assert not hasattr(ray, "options")
