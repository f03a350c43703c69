"""The `energyalign` command."""

from __future__ import annotations

import argparse
import contextlib
import errno
import os
import re
import sys
import traceback
from collections.abc import Sequence
from importlib import import_module

from energyalign import __version__
from energyalign.cli.process import children_on_safe_path, stop_code
from energyalign.core._io.signals import Interrupted, stop_signals_raise
from energyalign.core._io.terminal import clean_streams

FAILED = 1
BAD_INPUT = 2  # also what argparse exits with

# Which extra of pyproject.toml brings what a command may miss.
_EXTRAS = {
    "torch": "experiments", "torchvision": "experiments", "lightning_fabric": "experiments",
    "safetensors": "experiments", "PIL": "experiments", "tensorboard": "experiments", "matplotlib": "report",
    "pyarrow": "parquet", "ray": "sweep", "filelock": "experiments", "wandb": "wandb", "mlflow": "mlflow",
}  # fmt: skip

# Torch has no MemoryError: these are of the allocators of CPUs and GPUs.
_OF_TORCH_MEMORY = re.compile("(can't|cannot) allocate memory|not enough memory|out of memory", re.IGNORECASE)
_ON_MEMORY = "Existing files are as they were: end other programs, or take a machine or a job with more memory."

_EXAMPLES = """\
examples:
  energyalign demo                                   see it work, in minutes
  energyalign fit logits.npy --labels labels.npy --counts counts.json --out shifts.json
  energyalign apply test_logits.npy --shifts shifts.json --out corrected.npy
  energyalign report runs/digits-lt-50               see what came out of an experiment
  energyalign onnx model.onnx --shifts shifts.json --out aligned.onnx
"""


COMMANDS = {
    "demo": "train, align and evaluate a small model on real images",
    "fit": "estimate the shifts of a model from its logits",
    "apply": "add shifts to logits",
    "onnx": "add shifts to the logits of an ONNX model",
    "features": "write the features of texts or images by a model of yours",
    "longtail": "train on a long-tailed set, align, and compare with the paper",
    "incremental": "learn classes step by step, align, and compare with the paper",
    "sweep": "run all that a table needs, and complete it whatever fails",
    "report": "write a page with tables, figures and a live part",
    "table": "print a table of the paper with the numbers of your runs beside",
    "compare": "compare two rows over test images and over seeds",
    "figure": "draw a figure of stored runs",
    "data": "check that a data set is there and whole",
    "list": "list methods, datasets, presets, tables or figures",
}
"""What each does; it is a module beside this one, which is imported when the command is called."""


def build_parser(chosen: Sequence[str] = tuple(COMMANDS)) -> argparse.ArgumentParser:
    """The parser of all commands, with the options of those that are chosen; light, so that --help is quick."""
    parser = argparse.ArgumentParser(
        prog="energyalign",
        description="Take class-imbalance bias out of a trained classifier: one number per class, added to its logits.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"energyalign {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, summary in COMMANDS.items():
        command = commands.add_parser(name, help=summary, formatter_class=argparse.RawDescriptionHelpFormatter)
        if name in chosen:
            module = import_module(f"energyalign.cli.{'listing' if name == 'list' else name}")
            command.description, command.epilog = module.DESCRIPTION, module.EXAMPLES
            command.set_defaults(run=module.run)
            module.add_options(command)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; 0 if it went well, else a line that says what to do, and 2 for bad input, 1 for a failed run."""
    with clean_streams():
        try:
            return _run(sys.argv[1:] if argv is None else list(argv))
        except Exception:  # a mistake of ours; Python itself would print what it is about as it is
            traceback.print_exc()
            return FAILED


def _run(given: list[str]) -> int:
    arguments = build_parser(given[:1]).parse_args(given)
    arguments.given = given
    try:
        with children_on_safe_path(), stop_signals_raise():
            arguments.run(arguments)
            sys.stdout.flush()
    except (KeyboardInterrupt, Interrupted) as stop:
        print("energyalign: interrupted; nothing was left half written.", file=sys.stderr)
        return stop_code(stop)
    except BrokenPipeError:
        return _leave_broken_pipe()
    except (MemoryError, RuntimeError, OSError) as error:
        if not _is_of_memory(error):
            raise
        reason = str(error).partition("\n")[0].rstrip(". ") or "Python has none left"
        return _complain(f"not enough memory ({reason}). {_ON_MEMORY}", FAILED)
    except ModuleNotFoundError as error:
        extra = _EXTRAS.get(str(error.name).partition(".")[0])
        if extra is None:
            raise
        return _complain(f"this needs {error.name}: pip install 'energyalign[{extra}]'.", BAD_INPUT)
    except ValueError as error:
        from energyalign.core.errors import EnergyAlignError

        if not isinstance(error, EnergyAlignError):
            raise
        is_pipe = isinstance(error.__cause__, BrokenPipeError)
        return _leave_broken_pipe() if is_pipe else _complain(str(error), error.exit_code)
    return 0


def _is_of_memory(error: MemoryError | RuntimeError | OSError) -> bool:
    if isinstance(error, OSError):  # of a process that could not be started, or a file that could not be mapped
        return error.errno == errno.ENOMEM
    return isinstance(error, MemoryError) or bool(_OF_TORCH_MEMORY.search(str(error)))


def _complain(message: str, exit_code: int) -> int:
    print(f"energyalign: error: {message}", file=sys.stderr)
    return exit_code


def _leave_broken_pipe() -> int:
    """The reader of our output is gone; keep the interpreter from flushing to it once more at exit."""
    with contextlib.suppress(OSError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return FAILED


if __name__ == "__main__":
    sys.exit(main())
