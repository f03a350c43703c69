"""Files of the repository that repeat information agree."""

from __future__ import annotations

import re
from pathlib import Path

import energyalign

ROOT = Path(__file__).parents[1]
CONSTRAINTS = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()[1:]


def read(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def test_constraints_are_names_and_versions_only() -> None:
    odd = [line for line in CONSTRAINTS if not re.fullmatch(r"[\w.-]+==[\w.]+", line)]
    assert odd == []
    assert len(CONSTRAINTS) > 100


def test_every_direct_dependency_has_a_constraint() -> None:
    pinned = {normalise(line.partition("==")[0]) for line in CONSTRAINTS}
    wanted = set(re.findall(r'^    "([\w-]+)[>=]', read("pyproject.toml"), re.MULTILINE))
    assert len(wanted) > 20
    assert {normalise(name) for name in wanted} <= pinned


def normalise(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def test_pre_commit_has_the_ruff_of_the_constraints() -> None:
    revision = re.search(r"ruff-pre-commit\n    rev: v(\S+)", read(".pre-commit-config.yaml"))
    assert revision is not None
    assert f"ruff=={revision[1]}" in CONSTRAINTS


def test_citation_and_changelog_have_the_version_of_the_package() -> None:
    assert f"\nversion: {energyalign.__version__}\n" in read("CITATION.cff")
    newest = re.search(r"^## (\S+) (\(unreleased\)|- \d{4}-\d\d-\d\d)$", read("CHANGELOG.md"), re.MULTILINE)
    assert newest is not None
    assert newest[1] == energyalign.__version__


def test_workflows_call_targets_that_exist_and_pin_actions_by_commit() -> None:
    targets = set(re.findall(r"^([\w-]+):", read("Makefile"), re.MULTILINE))
    for workflow in (ROOT / ".github" / "workflows").glob("*.yml"):
        text = workflow.read_text(encoding="utf-8")
        called = {word for line in re.findall(r"run: make (.+)", text) for word in line.split() if "=" not in word}
        assert called
        assert called <= targets
        actions = re.findall(r"uses: (\S+)", text)
        assert all(re.search(r"@[0-9a-f]{40}$", action) for action in actions if not action.startswith("./"))
