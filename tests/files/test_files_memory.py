"""Files larger than the memory that the process may use."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

pytest.importorskip("resource")

LIMIT = 640 * 2**20
SUM_UNDER_LIMIT = f"""
import resource, sys
resource.setrlimit(resource.RLIMIT_AS, ({LIMIT}, {LIMIT}))
import numpy as np
from energyalign.files import open_shards

path = sys.argv[1]
try:
    np.load(path, mmap_mode="r")
except OSError:
    pass
else:
    sys.exit("the limit does not bind: a map of the whole file fits")
shards = open_shards([path])
total, n_rows = np.zeros(shards.n_classes), 0
for block in shards.blocks():
    total += block.sum(axis=0)
    n_rows += len(block)
assert n_rows == shards.n_rows, n_rows
print(*total)
"""


@pytest.mark.parametrize("fortran_order", [False, True])
def test_a_file_larger_than_the_address_space_is_summed(tmp_path, fortran_order):
    n_rows, n_classes = 2**30 // (4 * 512), 512
    header = {"descr": "<f4", "fortran_order": fortran_order, "shape": (n_rows, n_classes)}
    with (tmp_path / "big.npy").open("wb") as stream:
        np.lib.format.write_array_header_1_0(stream, header)
        start = stream.tell()
        stream.truncate(start + 4 * n_rows * n_classes)  # sparse: takes no room on the disk
        for row, column, value in [(0, 0, 1.5), (n_rows // 2, 7, 2.5), (n_rows - 1, 511, 4.0)]:
            place = column * n_rows + row if fortran_order else row * n_classes + column
            stream.seek(start + 4 * place)
            stream.write(np.float32(value).tobytes())
    # One thread: every thread of a BLAS library reserves address space.
    environment = {"PYTHONPATH": ":".join(filter(None, sys.path)), "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-c", SUM_UNDER_LIMIT, str(tmp_path / "big.npy")],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    (tmp_path / "big.npy").unlink()
    assert done.returncode == 0, done.stderr
    expected = np.zeros(n_classes)
    expected[[0, 7, 511]] = 1.5, 2.5, 4.0
    np.testing.assert_array_equal(np.array(done.stdout.split(), dtype=float), expected)
