"""`energyalign onnx` as users run it."""

import json
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper
from onnx.helper import make_node
from scipy.special import expit, logit
from skl2onnx import to_onnx
from sklearn.ensemble import RandomForestClassifier

from energyalign import Clusters, MultilabelShifts, Shifts

ENDLESS = """
import sys
import onnxruntime
from energyalign.cli.main import main

run = onnxruntime.InferenceSession.run

def announced(*arguments):
    print("running", flush=True)
    return run(*arguments)

onnxruntime.InferenceSession.run = announced
sys.exit(main(["onnx", "model.onnx", "--shifts", "shifts.json", "--out", "aligned.onnx"]))
"""
VALUES = np.array([0.5, -1.25, 2.0])


def save(nodes, inputs, outputs, path="model.onnx", **constants):
    info = helper.make_tensor_value_info
    graph = helper.make_graph(
        nodes,
        "g",
        [info(name, TensorProto.FLOAT, shape) for name, shape in inputs.items()],
        [info(name, TensorProto.FLOAT, shape) for name, shape in outputs.items()],
        [onnx.numpy_helper.from_array(np.float32(value), name) for name, value in constants.items()],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Write shifts and a linear model of three classes into the working directory."""
    monkeypatch.chdir(tmp_path)
    Shifts(VALUES, np.zeros(3), Clusters.per_class(3), np.full(3, 1 / 3), "lse").save("shifts.json")
    rng = np.random.default_rng(0)
    nodes = [make_node("Gemm", ["x", "W", "b"], ["logits"], "head")]
    save(nodes, {"x": ["n", 4]}, {"logits": ["n", 3]}, W=rng.normal(size=(4, 3)), b=rng.normal(size=3))
    return tmp_path


def logits(path, x, output="logits"):
    return onnxruntime.InferenceSession(path).run([output], {"x": x})[0]


def test_it_says_what_it_did_and_did_it(folder, run):
    code, out, err = run("onnx", "model.onnx", "--shifts", "shifts.json", "--out", "aligned.onnx")
    assert (code, err) == (0, "")
    first, second, *rest = out.splitlines()
    assert rest == []
    assert first == "Wrote aligned.onnx: shifts folded into 'b' of node 'head': the same graph, the same speed."
    assert second.startswith("Verified in onnxruntime on 3 random inputs: the logits are raw + shifts within ")
    assert second.endswith(". Aligned outputs: 'logits' (logits).")
    x = np.random.default_rng(1).normal(size=(5, 4)).astype("float32")
    np.testing.assert_allclose(logits("aligned.onnx", x), logits("model.onnx", x) + VALUES, atol=1e-6)


def test_quiet(folder, run):
    assert run("onnx", "model.onnx", "--shifts", "shifts.json", "--out", "a.onnx", "--quiet") == (0, "", "")
    assert (folder / "a.onnx").exists()


def test_a_new_node_and_the_data_file_are_mentioned(folder, run):
    save([make_node("MatMul", ["x", "W"], ["logits"])], {"x": ["n", 4]}, {"logits": ["n", 3]}, W=np.ones((4, 3)))
    onnx.save_model(
        onnx.load("model.onnx"), "model.onnx", save_as_external_data=True, location="model.data", size_threshold=0
    )
    code, out, _ = run("onnx", "model.onnx", "--shifts", "shifts.json", "--out", "a.onnx")
    assert code == 0
    (data,) = Path().glob("a.onnx.*.data")
    assert out.startswith(f"Wrote a.onnx and {data}: shifts added by one new node, 'energyalign_add', after ")


def test_a_forest_of_skl2onnx(folder, run):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(200, 4)).astype("float32"), rng.integers(0, 3, size=200)
    onnx.save(to_onnx(RandomForestClassifier(3, random_state=0).fit(X, y), X[:1]), "forest.onnx")
    code, out, err = run("onnx", "forest.onnx", "--shifts", "shifts.json", "--out", "a.onnx")
    assert (code, err) == (0, "")
    first, second = out.splitlines()
    assert first.startswith("Wrote a.onnx: shifts added to the logarithm of 'probabilities', which is normalised again")
    assert "the probabilities agree with raw + shifts within " in second
    assert second.endswith("Aligned outputs: 'output_label' (labels), 'output_probability' (probabilities).")


def test_output_and_probe(folder, run):
    """Two heads on rows of 50 numbers, a size that the signature does not state."""
    rng = np.random.default_rng(0)
    nodes = [make_node("MatMul", ["x", "V"], ["a"]), make_node("MatMul", ["x", "W"], ["b"])]
    shapes = {"a": ["n", 3], "b": ["n", 3]}
    save(nodes, {"x": ["n", "width"]}, shapes, V=rng.normal(size=(50, 3)), W=rng.normal(size=(50, 3)))
    command = ["onnx", "model.onnx", "--shifts", "shifts.json", "--out", "a.onnx"]
    code, _, err = run(*command)
    assert code == 2
    assert "--probe inputs.npz" in err
    x = rng.normal(size=(2, 50)).astype("float32")
    np.savez("inputs.npz", x=x)
    code, _, err = run(*command, "--probe", "inputs.npz")
    assert code == 2
    assert "choose one with --output" in err
    code, out, _ = run(*command, "--probe", "inputs.npz", "--output", "b")
    assert code == 0
    assert "on the probe: " in out
    assert "Aligned outputs: 'b' (logits)." in out
    np.testing.assert_allclose(logits("a.onnx", x, "b"), logits("model.onnx", x, "b") + VALUES, atol=1e-5)
    np.testing.assert_array_equal(logits("a.onnx", x, "a"), logits("model.onnx", x, "a"))


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ("missing.onnx --shifts shifts.json", "missing.onnx"),
        ("shifts.json --shifts shifts.json", "shifts.json is damaged or not an ONNX model"),
        ("model.onnx --shifts missing.json", "missing.json"),
        ("model.onnx --shifts four.json", "for 4 classes: output 'logits' has shape (3, 3)"),
        ("model.onnx --shifts shifts.json --output scores", "no output 'scores': choose one of 'logits'"),
        ("model.onnx --shifts shifts.json --probe missing.npz", "missing.npz"),
        ("aligned.onnx --shifts shifts.json", "aligned.onnx is already aligned"),
    ],
)
def test_one_line_for_each_mistake_and_nothing_touched(folder, run, files_in, arguments, named):
    Shifts(np.zeros(4), np.zeros(4), Clusters.per_class(4), np.full(4, 1 / 4), "lse").save("four.json")
    run("onnx", "model.onnx", "--shifts", "shifts.json", "--out", "aligned.onnx")
    before = files_in(folder)
    code, out, err = run("onnx", *arguments.split(), "--out", "new.onnx")
    assert (code, out) == (2, "")
    assert err.startswith("energyalign: error: ")
    assert err.count("\n") == 1
    assert named in err
    assert files_in(folder) == before


def test_the_metadata_of_the_file_names_the_version(folder, run):
    from energyalign import __version__

    run("onnx", "model.onnx", "--shifts", "shifts.json", "--out", "aligned.onnx")
    (note,) = onnx.load("aligned.onnx").metadata_props
    assert json.loads(note.value)["version"] == __version__


def test_help_has_examples_and_loads_nothing_heavy():
    code = """if True:
        import sys
        from energyalign.cli.main import main
        try:
            main(["onnx", "--help"])
        except SystemExit:
            print("loaded:", sorted({"numpy", "onnx", "onnxruntime"} & set(sys.modules)))
    """
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "energyalign onnx model.onnx --shifts shifts.json --out aligned.onnx --probe inputs.npz" in done.stdout
    assert "loaded: []" in done.stdout


def test_a_missing_library_is_one_line(folder):
    code = "import sys; sys.modules['onnxruntime'] = None; from energyalign.cli.main import main; sys.exit(main())"
    command = [sys.executable, "-c", code, *["onnx", "model.onnx", "--shifts", "shifts.json", "--out", "a.onnx"]]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.endswith("pip install 'energyalign[onnx]'.\n")
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("multilabel", [False, True])
def test_sigmoids_with_half_the_strength(folder, run, multilabel):
    """One logit of two classes, or three independent labels."""
    shifts = Shifts([0.0, 2.0], np.zeros(2), Clusters.per_class(2), np.full(2, 0.5), "lse")
    shifts = MultilabelShifts((shifts, shifts, shifts.scaled(-1))) if multilabel else shifts
    shifts.save("shifts.json")
    added = np.array([1.0, 1.0, -1.0] if multilabel else [1.0])
    rng, n = np.random.default_rng(0), len(added)
    nodes = [make_node("Gemm", ["x", "W", "b"], ["logits"], "head"), make_node("Sigmoid", ["logits"], ["chances"])]
    save(nodes, {"x": ["n", 4]}, {"chances": ["n", n]}, W=rng.normal(size=(4, n)), b=rng.normal(size=n))
    code, out, err = run("onnx", "model.onnx", "--shifts", "shifts.json", "--strength", 0.5, "--out", "aligned.onnx")
    assert (code, err) == (0, "")
    assert "'chances' (sigmoids)" in out
    x = rng.normal(size=(5, 4)).astype("float32")
    raw = logit(logits("model.onnx", x, "chances").astype(float))
    np.testing.assert_allclose(logits("aligned.onnx", x, "chances"), expit(raw + added), atol=1e-6)


def test_ctrl_c_ends_a_loop_that_has_no_end(folder):
    info, boolean, whole = helper.make_tensor_value_info, TensorProto.BOOL, TensorProto.INT64
    body = helper.make_graph(
        [make_node("Identity", ["go"], ["goes"]), make_node("Identity", ["h"], ["same"])], "body",
        [info("i", whole, []), info("go", boolean, []), info("h", TensorProto.FLOAT, None)],
        [info("goes", boolean, []), info("same", TensorProto.FLOAT, None)],
    )  # fmt: skip
    nodes = [
        make_node("Constant", [], ["always"], value=onnx.numpy_helper.from_array(np.array(True))),
        make_node("Loop", ["", "always", "x"], ["h"], body=body),
        make_node("Gemm", ["h", "W"], ["y"]),
    ]
    save(nodes, {"x": ["n", 4]}, {"y": ["n", 3]}, W=np.ones((4, 3)))
    child = subprocess.Popen([sys.executable, "-c", ENDLESS], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert child.stdout.readline() == "running\n"
        child.send_signal(signal.SIGINT)
        _, err = child.communicate(timeout=300)
    finally:
        child.kill()
    assert (child.returncode, err) == (130, "energyalign: interrupted; nothing was left half written.\n")
    assert not (folder / "aligned.onnx").exists()
