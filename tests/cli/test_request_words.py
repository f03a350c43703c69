"""A request written as a command line parses to an equal request, without losing an option."""

from __future__ import annotations

import argparse
from dataclasses import fields

import pytest

from energyalign.cli.main import build_parser
from energyalign.experiments.engine.request import RunRequest
from energyalign.experiments.incremental.config import IncrementalRequest
from energyalign.experiments.longtail.config import LongTailRequest

KINDS: tuple[type[RunRequest], ...] = (LongTailRequest, IncrementalRequest)


def request_of(kind: type[RunRequest], *words: str) -> RunRequest:
    return kind.from_arguments(build_parser().parse_args([kind.command, *words]))


def words_of(request: RunRequest) -> list[str]:
    """Return the request as words of a command line."""
    return [request.dataset, *request.words([item.name for item in fields(request) if item.name != "dataset"])]


def options_of(kind: type[RunRequest]) -> list[argparse.Action]:
    """Return all options of the command's parser."""
    (commands,) = (action for action in build_parser()._actions if isinstance(action, argparse._SubParsersAction))
    actions = commands.choices[kind.command]._actions
    return [action for action in actions if action.option_strings and action.dest != "help"]


def sample(action: argparse.Action) -> list[str]:
    """Return an option with a value other than its default."""
    if action.nargs == 0:
        return [action.option_strings[0]]
    values = {int: ("7", "8"), float: ("0.1", "1e-07")}.get(action.type, ("some", "other ones"))  # type: ignore[call-overload]
    values = tuple(action.choices)[-2:] if action.choices else values
    return [action.option_strings[0], *(values if action.nargs == "+" else values[:1])]


CASES = [(kind, action) for kind in KINDS for action in options_of(kind)]


@pytest.mark.parametrize(("kind", "action"), CASES, ids=[f"{kind.command} {action.dest}" for kind, action in CASES])
def test_every_option_alone(kind: type[RunRequest], action: argparse.Action) -> None:
    request = request_of(kind, "digits", *sample(action))
    assert request != request_of(kind, "digits")  # it has come through
    assert request_of(kind, *words_of(request)) == request
    assert hash(request_of(kind, *words_of(request))) == hash(request)


@pytest.mark.parametrize("kind", KINDS)
def test_none_and_all_at_once(kind: type[RunRequest]) -> None:
    for request in (
        kind(dataset="digits"),
        request_of(kind, "digits"),
        request_of(kind, "folder:my images", *(word for action in options_of(kind) for word in sample(action))),
    ):
        assert request_of(kind, *words_of(request)) == request
    assert kind(dataset="digits") == request_of(kind, "digits")  # from Python as from the command line


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("words", [["--out=-mine"], ["--out", ""], ["--seed", "-1", "0"], ["--scale", "-0.5"]])
def test_values_that_look_like_options(kind: type[RunRequest], words: list[str]) -> None:
    request = request_of(kind, "digits", *words)
    assert request_of(kind, *words_of(request)) == request


def test_words_are_those_of_a_user() -> None:
    words = ["--method", "ce", "ea", "--seed", "1", "2", "--learned-scale", "--from", "runs/a/seed-0"]
    request = request_of(LongTailRequest, "digits", *words)
    assert request.words(("method", "seed", "learned_scale", "source", "epochs", "quick", "corrector")) == words
