"""The device check at a tiny shape, and its arithmetic."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
import torch
from rich.console import Console
from torch.utils.flop_counter import FlopCounterMode
from typer.testing import CliRunner

from benchmarks import gpu_check, gpu_parts
from benchmarks.gpu_parts import ENGINES, WAYS, dense, plain, shared, step_flops
from benchmarks.gpu_subject import REAL, SMALL, make_policy, trainer
from stages.engines.transformers import TransformersEngine


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    made = tmp_path_factory.mktemp("policy")
    make_policy(SMALL, made)
    return made


def test_all_paths_score_the_same_responses(folder):
    batch = gpu_parts.group_of_responses(SMALL)
    scores = []
    for path in (dense, plain, shared):
        with trainer(folder) as model:
            scores.append(path(model, batch).detach())
        assert scores[-1].shape == (SMALL.group, SMALL.response)
    for found in scores[1:]:
        torch.testing.assert_close(found, scores[0], atol=5e-2, rtol=0)


def test_operations_are_counted_as_pytorch_counts_them(folder):
    """Of the dense path, which computes nothing twice; attention aside, of which PyTorch counts the hidden half too."""
    batch = gpu_parts.group_of_responses(SMALL)
    with trainer(folder) as model, FlopCounterMode(display=False) as counter:
        dense(model, batch).mean().backward()
    counted = counter.get_flop_counts()["Global"]
    products = sum(count for name, count in counted.items() if "mm" in str(name))
    layers, hidden = SMALL.model["num_hidden_layers"], SMALL.model["hidden_size"]
    length = SMALL.prompt + SMALL.response
    attention = 12 * layers * hidden * SMALL.group * length**2 / 2
    whole = step_flops(SMALL, dense) * (length - 1) / length  # the last token is predicted, not run
    assert products == pytest.approx(whole - attention, rel=0.03)


def test_sharing_and_a_chunked_head_leave_less_to_do():
    assert step_flops(REAL, shared) < step_flops(REAL, plain) < step_flops(REAL, dense)
    parameters = 1.54e9  # Qwen2.5-1.5B, embeddings included once
    tokens = REAL.group * (REAL.prompt + REAL.response)
    assert step_flops(REAL, dense) == pytest.approx(6 * parameters * tokens, rel=0.06)


def test_every_part_runs_and_is_told(tmp_path, monkeypatch):
    """Compiling takes longer than a test may; it has its own (tests/policy/test_trainable.py)."""
    monkeypatch.delitem(WAYS, "the same, compiled")
    out = tmp_path / "out.json"
    done = CliRunner().invoke(gpu_check.app, ["--self-check", "--out", str(out)])
    assert done.exit_code == 0, done.output
    report = json.loads(out.read_text())
    assert list(report["parts"]) == ["train", "engines", "grpo", "padding", "vllm_asleep", "vllm_inside"]
    assert [row["path"] for row in report["parts"]["train"]] == list(WAYS)
    assert report["parts"]["engines"][0]["tokens_per_second"] > 0
    assert 0 < report["parts"]["engines"][0]["gap"] < report["parts"]["engines"][0]["moved"] / 10
    assert {row["phase"] for row in report["parts"]["grpo"] if row["seconds"]} >= {"sample", "score", "train", "sync"}
    wasted = [row["padding"] for row in report["parts"]["padding"]]
    assert wasted == sorted(wasted, reverse=True)
    assert report["device"] in done.output


def test_an_engine_whose_weights_are_not_the_trainers_is_found_out(folder, monkeypatch):
    monkeypatch.setattr(TransformersEngine, "sync", lambda self, model: None)
    with pytest.raises(RuntimeError, match="transformers samples from other weights than the trainer's"):
        list(gpu_parts.engines(SMALL, folder, ENGINES["engines"]))


def test_a_part_that_fails_is_named_and_the_others_run(tmp_path, monkeypatch):
    def broken(sizes, folder):
        raise RuntimeError("no such kernel")
        yield

    monkeypatch.setitem(gpu_parts.PARTS, "engines", broken)
    out = tmp_path / "out.json"
    done = CliRunner().invoke(
        gpu_check.app, ["--self-check", "--part", "engines", "--part", "padding", "--out", str(out)]
    )
    assert done.exit_code == 1
    report = json.loads(out.read_text())
    assert report["failed"] == {"engines": "RuntimeError: no such kernel"}
    assert list(report["parts"]) == ["padding"]


@pytest.mark.parametrize(
    ("name", "tflops"),
    [
        ("NVIDIA H200", 989),
        ("NVIDIA H100 80GB HBM3", 989),
        ("NVIDIA H100 PCIe", 756),
        ("NVIDIA A100-SXM4-80GB", 312),
        ("NVIDIA L40S", 362),
        ("NVIDIA L4", 121),
        ("Tesla T4", None),
        ("CPU (x86_64)", None),
    ],
)
def test_peaks_of_known_devices(name, tflops):
    assert gpu_check.peak(name) == tflops


def test_utilisation_is_work_over_what_the_device_could_do():
    assert gpu_check.utilisation({"flops": 50e12, "seconds": 0.5}, 200) == "50.0%"
    assert gpu_check.utilisation({"flops": 50e12, "seconds": 0.5}, None) == "peak unknown"


def test_a_path_that_does_not_fit_is_told_so():
    row = {"path": "dense logits, prompt per response", "seconds": None, "gib": None, "note": "out of memory"}
    report = {"device": "NVIDIA H200", "sizes": vars(REAL), "peak_tflops": 989, "parts": {"train": [row]}}
    console = Console(width=140, record=True, file=io.StringIO())
    console.print(gpu_check.table("train", report))
    assert "out of memory" in console.export_text()
