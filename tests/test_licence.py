"""The package's metadata names all licences of its files, and third-party files are unchanged."""

from __future__ import annotations

import hashlib
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
ASSETS = "src/energyalign/report/page/assets"

# From the npm packages echarts 6.1.0 and, for its licence, zrender 6.1.0.
VENDORED = {
    f"{ASSETS}/echarts.min.js": "b66b25aeb4df84e33199dc21694014d336d222cbd9deb0e5a7c14bd6aa0d0fd0",
    f"{ASSETS}/ECHARTS-LICENSE": "634293835b43a6dd2094fa39182a3d9a6b9ca43b7fdb9ac354e8037af2a3093a",
    f"{ASSETS}/ECHARTS-LICENSE-d3": "e1211892da0b0e0585b7aebe8f98c1274fba15bafe47fa1f4ee8a7a502c06304",
    f"{ASSETS}/ECHARTS-LICENSE-zrender": "a681e9d183c72b4af4856935893805eb48c08f0f5a3f260203db7444c20fb98a",
    f"{ASSETS}/ECHARTS-NOTICE": "d491d358344f842685c1b1585970999db65fe30ecf7ef3867af8814f4016c016",
}
# Text in a licence -> its SPDX name.
NOTICES = {
    "Licensed to the Apache Software Foundation": "Apache-2.0",
    "BSD 3-Clause License": "BSD-3-Clause",
    "Permission to use, copy, modify, and/or distribute this software for any\n    purpose with or without fee": "0BSD",
}


def test_files_of_others_are_unchanged() -> None:
    assert {name: hashlib.sha256((ROOT / name).read_bytes()).hexdigest() for name in VENDORED} == VENDORED


def test_there_are_no_others() -> None:
    files = [path for path in (ROOT / "src").rglob("*") if path.is_file() and "__pycache__" not in path.parts]
    texts = [path for path in files if path.suffix not in (".py", ".npz")]
    foreign = {str(path.relative_to(ROOT)) for path in texts if "opyright" in path.read_text(encoding="utf-8")}
    assert foreign == set(VENDORED)


def test_the_metadata_names_every_licence_and_brings_its_text() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    texts = "\n".join((ROOT / name).read_text(encoding="utf-8") for name in VENDORED)
    found = [spdx for notice, spdx in NOTICES.items() if notice in texts]
    assert found == list(NOTICES.values())
    assert project["license"] == " AND ".join(["MIT", *found])
    brought = {str(path.relative_to(ROOT)) for pattern in project["license-files"] for path in ROOT.glob(pattern)}
    assert brought == {"LICENSE", *VENDORED} - {f"{ASSETS}/echarts.min.js"}
    assert (ROOT / "LICENSE").read_text(encoding="utf-8").startswith("MIT License")
