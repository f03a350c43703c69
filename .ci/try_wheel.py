"""Try an installed package as a newcomer does: the code of the quickstart, then the command line on files.

`make package` runs it with the interpreter of an environment that has the wheel and its dependencies only.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path

import numpy as np

ROOT = Path(__file__).parents[1]
COMMAND = Path(sys.executable).with_name("energyalign")


def run(arguments: str) -> None:
    subprocess.run([COMMAND, *arguments.split()], check=True)


package = Path(find_spec("energyalign").origin)
assert not package.is_relative_to(ROOT / "src"), f"expected the installed package, got {package}"
assert find_spec("torch") is None, "expected base dependencies only, got torch"

page = (ROOT / "docs" / "quickstart.md").read_text(encoding="utf-8")
with tempfile.TemporaryDirectory() as folder:
    os.chdir(folder)
    names: dict[str, object] = {}
    for block in re.findall(r"^```python\n(.*?)^```$", page, re.MULTILINE | re.DOTALL):
        exec(block, names)
    for name in ("val_logits", "val_labels", "test_logits"):
        np.save(f"{name}.npy", names[name])
    Path("counts.json").write_text(json.dumps(names["train_counts"]), encoding="utf-8")
    run("--help")
    run("fit val_logits.npy --labels val_labels.npy --counts counts.json --evidence held-out --out again.json")
    run("apply test_logits.npy --shifts again.json --out corrected.npy")
    np.testing.assert_allclose(np.load("corrected.npy"), names["corrected"], rtol=1e-12)
    os.chdir(ROOT)
print(f"energyalign works as installed in {package.parent}")
