"""The base policy: same seed, same weights, with or without an interruption; and folders of the user's."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys

import pytest
import torch
from safetensors.torch import load_file
from transformers import LlamaConfig, LlamaForCausalLM

from stages import base_model
from stages.policy.loading import load_policy, save_policy
from stages.records import METRICS, TIMINGS, DataError, read_table
from stages.sources import ModelSource, Pretrain
from stages.store import State
from tests.tiny import llama, tokenizer
from tests.waiting import wait_for

SMALL = {
    "hidden_size": 16,
    "num_layers": 1,
    "num_heads": 2,
    "vocab_size": 300,
    "n_steps": 6,
    "sequences_per_step": 2,
    "sequence_length": 32,
    "checkpoint_every": 2,
}


def pretrained(folder, **changes) -> tuple[dict[str, torch.Tensor], list[dict]]:
    with State(folder / "state", {"values": changes}) as state:
        rows = base_model.pretrain(Pretrain(**(SMALL | changes)), state, folder / "model")
    return load_file(folder / "model" / "model.safetensors"), [
        {key: value for key, value in row.items() if key not in TIMINGS} for row in rows
    ]


def same(left: dict[str, torch.Tensor], right: dict[str, torch.Tensor]) -> bool:
    return left.keys() == right.keys() and all(torch.equal(left[key], right[key]) for key in left)


def test_same_seed_same_weights_other_seed_others(tmp_path):
    first, rows = pretrained(tmp_path / "a")
    again, same_rows = pretrained(tmp_path / "b")
    other, _ = pretrained(tmp_path / "c", seed=1)
    assert same(first, again)
    assert rows == same_rows
    assert not same(first, other)
    assert [row["step"] for row in rows] == [1, 2, 3, 4, 5, 6]


def test_the_folder_stands_alone_and_holds_no_pickle(tmp_path):
    pretrained(tmp_path)
    names = {path.name for path in (tmp_path / "model").iterdir()}
    assert {"config.json", "model.safetensors", "tokenizer.json"} <= names
    assert not {name for name in names if name.endswith((".bin", ".pt", ".pkl"))}
    model, loaded = load_policy(tmp_path / "model")
    text = "Ana has 12 clips — \\boxed{3}?\n"
    assert loaded.decode(loaded(text).input_ids) == text
    assert len(loaded("1234").input_ids) == 4
    assert not model.training


def command(folder, spec: dict) -> list[str]:
    (folder / "spec.json").write_text(json.dumps(spec))
    names = {"spec": "spec.json", "state": "state", "model": "model", "metrics": "metrics.parquet"}
    options = [part for key, name in names.items() for part in (f"--{key}", str(folder / name))]
    return [sys.executable, "-m", "stages.base_model", *options]


def test_a_killed_pretraining_goes_on_bit_for_bit(tmp_path):
    steps = {"n_steps": 120, "checkpoint_every": 10}
    straight, rows = pretrained(tmp_path / "straight", **steps)
    killed = tmp_path / "killed"
    killed.mkdir()
    spec = {"stage": "base_model", "name": "base", "code": "x", "values": {"pretrain": SMALL | steps}}
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    process = subprocess.Popen(command(killed, spec), env=environment, stderr=subprocess.DEVNULL)
    wait_for(lambda: any((killed / "state").glob("step_*")), process)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert not (killed / "model").exists()
    subprocess.run(command(killed, spec), env=environment, check=True, stderr=subprocess.DEVNULL)
    assert same(straight, load_file(killed / "model" / "model.safetensors"))
    found = read_table(killed / "metrics.parquet", METRICS).to_pylist()
    assert [row["loss"] for row in found] == [row["loss"] for row in rows]
    assert rows[-1]["loss"] < rows[0]["loss"] - 1


def test_a_folder_of_the_user_is_copied_whole(tmp_path):
    model = llama().to(torch.bfloat16)
    save_policy(model, tokenizer(), tmp_path / "mine")
    base_model.copy(ModelSource(path=str(tmp_path / "mine")), tmp_path / "base")
    copied, words = load_policy(tmp_path / "base", dtype=torch.bfloat16)
    assert all(torch.equal(a, b) for a, b in zip(model.parameters(), copied.parameters(), strict=True))
    assert words.eos_token == tokenizer().eos_token


def test_a_hub_id_offline_says_so(tmp_path, monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(DataError, match=r"nobody/nothing.*give a local folder as model\.path instead"):
        base_model.copy(ModelSource(hub="nobody/nothing", revision=40 * "0"), tmp_path / "base")
    assert not (tmp_path / "base").exists()


def test_a_folder_without_weights_is_named(tmp_path):
    with pytest.raises(DataError, match="check the folder"):
        base_model.copy(ModelSource(path=str(tmp_path)), tmp_path / "base")


def settings_of(folder, file: str, **changes) -> None:
    values = json.loads((folder / file).read_text())
    (folder / file).write_text(json.dumps({key: value for key, value in {**values, **changes}.items() if value != ""}))


BROKEN = {
    "more layers than weights": (
        lambda folder: settings_of(folder, "config.json", num_hidden_layers=3),
        r"mine: the weights lack 9 tensors .* such as model\.layers\.2\..*; give the config\.json that was saved with",
    ),
    "another architecture": (
        lambda folder: settings_of(folder, "config.json", model_type="bert", architectures=["BertModel"]),
        "mine: the weights lack",
    ),
    "other sizes": (
        lambda folder: settings_of(folder, "config.json", intermediate_size=16),
        "mine: cannot load a policy from it",
    ),
    "a config that contradicts itself": (
        lambda folder: settings_of(folder, "config.json", num_attention_heads=3),
        "mine: .*check the folder",
    ),
    "an unknown architecture": (
        lambda folder: settings_of(folder, "config.json", model_type="mamba99"),
        "mine: .*model type `mamba99`.*check the folder",
    ),
    "half a file": (
        lambda folder: os.truncate(folder / "model.safetensors", 500),
        "mine: cannot load a policy from it",
    ),
    "a pointer to weights": (
        lambda folder: (folder / "model.safetensors").write_text("version https://git-lfs.github.com/spec/v1\n"),
        "mine: cannot load a policy from it",
    ),
    "half a config": (lambda folder: (folder / "config.json").write_text("{"), "mine: .*not a valid JSON file"),
    "an empty tokenizer": (
        lambda folder: (folder / "tokenizer.json").write_text("{}"),
        "mine: cannot load a policy from it",
    ),
    "no end token": (
        lambda folder: settings_of(folder, "tokenizer_config.json", eos_token="", pad_token=""),
        r"mine: the tokenizer has no end token; name it in tokenizer_config\.json, as eos_token",
    ),
    "fewer rows than tokens": (
        lambda folder: save_policy(llama_of(vocab_size=300), tokenizer(), folder),
        "mine: the tokenizer has 400 tokens, the model 300; give the tokenizer that was saved with it",
    ),
}


def llama_of(**changes) -> LlamaForCausalLM:
    return LlamaForCausalLM(LlamaConfig(**{**llama().config.to_dict(), **changes}))


@pytest.mark.parametrize("spoil", BROKEN)
def test_a_folder_that_makes_no_policy_is_refused_and_named(tmp_path, spoil):
    save_policy(llama(), tokenizer(), tmp_path / "mine")
    change, says = BROKEN[spoil]
    change(tmp_path / "mine")
    with pytest.raises(DataError, match=says):
        base_model.copy(ModelSource(path=str(tmp_path / "mine")), tmp_path / "base")
    assert not (tmp_path / "base").exists()
