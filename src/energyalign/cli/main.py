"""The `energyalign` command."""

from __future__ import annotations

import argparse
import contextlib
import errno
import os
import re
import sys
import textwrap
import traceback
from collections.abc import Sequence
from importlib import import_module

from energyalign import __version__
from energyalign.cli.process import (
    children_on_safe_path,
    import_with_own_settings,
    restart_on_safe_path,
    stop_code,
)
from energyalign.core._io.signals import Interrupted, stop_signals_raise
from energyalign.core._io.terminal import clean_streams

FAILED = 1
BAD_INPUT = 2  # also what argparse exits with

# Optional dependencies, and the extra of pyproject.toml that installs each.
_EXTRAS = {
    "torch": "experiments", "torchvision": "experiments", "lightning_fabric": "experiments",
    "safetensors": "experiments", "PIL": "experiments", "tensorboard": "experiments", "matplotlib": "report",
    "pyarrow": "parquet", "ray": "sweep", "filelock": "experiments", "wandb": "wandb", "mlflow": "mlflow",
}  # fmt: skip

# Torch raises RuntimeError, not MemoryError, when an allocation on CPU or GPU fails.
_TORCH_OUT_OF_MEMORY = re.compile("(can't|cannot) allocate memory|not enough memory|out of memory", re.IGNORECASE)

_EXAMPLES = """\
examples:
  energyalign demo                                   see it work, in minutes
  energyalign fit logits.npy --labels labels.npy --counts counts.json --out shifts.json
  energyalign apply test_logits.npy --shifts shifts.json --out corrected.npy
  energyalign onnx model.onnx --shifts shifts.json --out aligned.onnx
  energyalign report runs/digits-lt-50               see the results of an experiment

`energyalign COMMAND --help` shows the options of a command, and examples.
"""


COMMANDS = {
    "demo": "train, align and evaluate small models on real images",
    "fit": "estimate the shifts of a model from its logits",
    "apply": "add shifts to logits",
    "onnx": "add shifts to the logits of an ONNX model",
    "features": "compute features of texts or images with your own model",
    "longtail": "train on a long-tailed data set, align, and compare with the paper",
    "incremental": "learn classes step by step, align, and compare with the paper",
    "sweep": "run every training that a table needs, and print the table",
    "report": "write an HTML page with tables, figures and interactive parts",
    "table": "print a table of the paper next to the numbers of your runs",
    "compare": "compare two rows over test images and over seeds",
    "figure": "draw a figure from stored runs",
    "data": "check that a data set is complete",
    "list": "list methods, datasets, presets, tables or figures",
}
"""Commands and their summaries. The module of a command is imported only when it is called."""


def build_parser(chosen: Sequence[str] = tuple(COMMANDS)) -> argparse.ArgumentParser:
    """Return the parser of all commands. Only the chosen ones get their options, which keeps --help quick."""
    parser = argparse.ArgumentParser(
        prog="energyalign",
        description="Remove class-imbalance bias from a trained classifier: add one number per class to its logits.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"energyalign {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, summary in COMMANDS.items():
        command = commands.add_parser(name, help=summary, formatter_class=argparse.RawDescriptionHelpFormatter)
        if name in chosen:
            module = import_module(f"energyalign.cli.{'listing' if name == 'list' else name}")
            command.description = textwrap.fill(module.DESCRIPTION, width=100)
            command.epilog = module.EXAMPLES
            command.set_defaults(run=module.run, fail=command.error)
            module.add_options(command)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code: 0 on success, 1 if a run failed, 2 for bad input."""
    if argv is None:
        restart_on_safe_path()
    with clean_streams():
        try:
            return _run(sys.argv[1:] if argv is None else list(argv))
        except Exception:  # a bug; Python itself would print the traceback unescaped, to the real stream
            traceback.print_exc()
            return FAILED


def _run(given: list[str]) -> int:
    parser = build_parser(given[:1])
    arguments, unknown = parser.parse_known_args(given)
    if unknown:  # argparse would print the usage of `energyalign`, which does not show the options of the command
        getattr(arguments, "fail", parser.error)(f"unrecognized arguments: {' '.join(unknown)}")
    arguments.given = given
    try:
        with children_on_safe_path(), stop_signals_raise():
            import_with_own_settings()
            arguments.run(arguments)
            sys.stdout.flush()
    except (KeyboardInterrupt, Interrupted) as stop:
        print("energyalign: interrupted; nothing was left half written.", file=sys.stderr)
        return stop_code(stop)
    except BrokenPipeError:
        return _leave_broken_pipe()
    except (MemoryError, RuntimeError, OSError) as error:
        if not _is_out_of_memory(error):
            raise
        reason = str(error).partition("\n")[0].rstrip(". ") or "Python has none left"
        return _complain(
            f"not enough memory ({reason}). Existing files are unchanged. Close other programs, or use a machine or "
            "a job with more memory.",
            FAILED,
        )
    except ModuleNotFoundError as error:
        extra = _EXTRAS.get(str(error.name).partition(".")[0])
        if extra is None:
            raise
        message = f"this command needs {error.name}, which is not installed: pip install 'energyalign[{extra}]'."
        return _complain(message, BAD_INPUT)
    except ValueError as error:
        from energyalign.core.errors import EnergyAlignError

        if not isinstance(error, EnergyAlignError):
            raise
        is_pipe = isinstance(error.__cause__, BrokenPipeError)
        return _leave_broken_pipe() if is_pipe else _complain(str(error), error.exit_code)
    return 0


def _is_out_of_memory(error: MemoryError | RuntimeError | OSError) -> bool:
    if isinstance(error, OSError):  # a process could not be started, or a file could not be mapped
        return error.errno == errno.ENOMEM
    return isinstance(error, MemoryError) or bool(_TORCH_OUT_OF_MEMORY.search(str(error)))


def _complain(message: str, exit_code: int) -> int:
    print(f"energyalign: error: {message}", file=sys.stderr)
    return exit_code


def _leave_broken_pipe() -> int:
    """Redirect stdout to /dev/null: its reader is gone, and the interpreter would flush to it again at exit."""
    with contextlib.suppress(OSError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return FAILED


if __name__ == "__main__":
    sys.exit(main())
