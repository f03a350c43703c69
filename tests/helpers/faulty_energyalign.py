"""`energyalign` with a fault at an exact moment: a script, started by fault.py.

The first argument describes the fault as JSON; the others are the arguments of the command.

- ``{"count": file}`` writes the number of calls of each file operation to a file.
- ``{"kill": name, "at": n}`` kills this process, as ``kill -9`` does, in the n-th call: in the middle of a write,
  or before any other operation. ``{"kill": "replace", "of": name}`` kills it in the first
  call that creates a file of this name.
- ``{"clock": seconds, "at": n}`` sets the clock, and the times of files, back from the n-th rename on.
- ``{"lr": factor}`` multiplies the learning rate, for which the command has no option.
- ``{"hooks": [{"in": "module:function", "at": n, ...}, ...]}`` acts before the n-th call of a function:
  ``"signal": number`` sends a signal to this process, or to its group if ``"group"`` is true, ``"remove": folder``
  removes a folder, and ``"move": [path, other]`` renames it. Forked processes have the hooks too.
"""

from __future__ import annotations

import importlib
import json
import os
import shutil
import signal
import sys
import time
from collections import Counter
from dataclasses import replace
from typing import Any

CALLS = ("replace", "fsync", "unlink", "mkdir", "rename", "rmdir")


class HalfWritten:
    """A file whose first write stops half-way."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def __enter__(self) -> HalfWritten:
        return self

    def __exit__(self, *_: object) -> None:
        self._stream.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, data: Any) -> None:
        self._stream.write(data[: len(data) // 2])
        self._stream.flush()
        die()

    def writelines(self, lines: Any) -> None:
        self.write("".join(lines))


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def watch(plan: dict[str, Any], counts: Counter[str]) -> None:
    """Count the file operations, and kill the process in the one that the fault names."""

    def reached(name: str, target: object = "") -> bool:
        counts[name] += 1
        here = str(target).endswith(plan["of"]) if "of" in plan else counts[name] == plan.get("at")
        return plan.get("kill") == name and here

    def watched(name: str) -> Any:
        real = getattr(os, name)

        def call(*arguments: Any, **options: Any) -> Any:
            if reached(name, arguments[-1]):
                die()
            return real(*arguments, **options)

        return call

    for name in CALLS:
        setattr(os, name, watched(name))
    opened = os.fdopen

    def fdopen(*arguments: Any, **options: Any) -> Any:
        stream = opened(*arguments, **options)
        return HalfWritten(stream) if reached("write") else stream

    os.fdopen = fdopen


def add_hook(plan: dict[str, Any]) -> None:
    """Run an action before the n-th call of ``module:function``."""
    module, _, name = plan["in"].partition(":")
    place = importlib.import_module(module)
    real, calls = getattr(place, name), Counter[str]()

    def call(*arguments: Any, **options: Any) -> Any:
        calls["all"] += 1
        if calls["all"] == plan["at"]:
            if "remove" in plan:
                shutil.rmtree(plan["remove"])
            if "move" in plan:
                os.rename(*plan["move"])
            if "signal" in plan:
                if plan.get("group"):
                    os.killpg(0, plan["signal"])
                else:
                    os.kill(os.getpid(), plan["signal"])
        return real(*arguments, **options)

    setattr(place, name, call)


def learn_faster(factor: float) -> None:
    """Multiply the learning rate of every recipe."""
    request = importlib.import_module("energyalign.experiments.engine.request").RunRequest
    real = request._recipe

    def changed(*arguments: Any) -> Any:
        recipe = real(*arguments)
        return replace(recipe, optimizer=replace(recipe.optimizer, lr=recipe.optimizer.lr * factor))

    request._recipe = changed


def turn_back(plan: dict[str, Any]) -> None:
    """Set back the clock of this process, and the times of files that it renames."""
    real_time, real_replace, renamed = time.time, os.replace, Counter[str]()

    def now() -> float:
        return real_time() - (plan["clock"] if renamed["all"] >= plan["at"] else 0)

    def renamed_back(source: Any, target: Any) -> None:
        real_replace(source, target)
        renamed["all"] += 1
        os.utime(target, (now(), now()))

    time.time, os.replace = now, renamed_back


def main() -> int:
    plan = json.loads(sys.argv[1])
    sys.argv = ["energyalign", *sys.argv[2:]]
    counts: Counter[str] = Counter()
    if "clock" in plan:
        turn_back(plan)
    elif "lr" in plan:
        learn_faster(plan["lr"])
    elif "hooks" in plan:
        for hook in plan["hooks"]:
            add_hook(hook)
    else:
        watch(plan, counts)
    from energyalign.cli.main import main

    try:
        return main()
    finally:
        if "count" in plan:
            with open(plan["count"], "w") as stream:
                json.dump(counts, stream)


if __name__ == "__main__":
    sys.exit(main())
