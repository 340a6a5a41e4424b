"""The benchmarks' own parts do what their tables say. Nothing here looks at a clock."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from benchmarks import grpo_vs_trl, ladder_peer, logprob_memory, scaling, trl_peer
from benchmarks.blocks import Block, Side, SideError, alternate, total
from stages.policy.loading import save_policy
from tests.tiny import qwen, tokenizer

COUNTING = """
from benchmarks.blocks import Blocks
blocks, step = Blocks({"made of": "tests"}), 0
print("chatter of a library", flush=True)
while count := blocks.next():
    for _ in range(count):
        step += 1
        with open(LOG, "a") as log:
            log.write(NAME)
        blocks.record([step, step + 1], [10, 20])
"""


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("policy") / "base"
    folder.mkdir()
    save_policy(qwen(), tokenizer(), folder)
    return folder


def side(name: str, folder: Path, code: str = COUNTING) -> Side:
    code = code.replace("LOG", repr(str(folder / "order"))).replace("NAME", repr(name))
    return Side(name, [sys.executable, "-c", code], folder, threads=1)


def test_sides_take_turns_and_the_order_turns_round(tmp_path):
    sides = [side(name, tmp_path) for name in "ab"]
    left, right = alternate(sides, steps=5, block=2)
    for one in sides:
        one.close()
    assert (tmp_path / "order").read_text() == "aabb" + "bbaa" + "ab"
    assert [block.rewards for block in left] == [[1.5, 2.5], [3.5, 4.5], [5.5]]
    assert [block.samples for block in right] == [4, 4, 2]
    assert total(left).tokens == 5 * 30
    assert total(left).steps == 5
    assert total(left).seconds == pytest.approx(sum(block.seconds for block in left))
    assert sides[0].about == {"made of": "tests"}


def test_a_side_that_fails_is_named_with_its_last_words(tmp_path):
    broken = side("broken", tmp_path, COUNTING.replace("step += 1", "raise ValueError('no such reward')"))
    with pytest.raises(SideError, match=r"(?s)broken ended with status 1.*no such reward"):
        broken.run(1)
    broken.close()


@pytest.mark.parametrize(
    ("completion", "expected"),
    [
        (" 1 + 2 = 3. </think> <answer> 3 </answer>", 1.0),
        (" 1 + 2 = 4. </think> <answer> 4 </answer>", 0.0),
        (" 1 + 2 = 3. </think>\n<answer> 3 </answer>", 0.0),
        (" </think> <answer> 3", 0.0),
        ("", 0.0),
    ],
)
def test_the_peer_grades_as_the_product_does(completion, expected):
    from stages.grading.rewards import grade_response

    assert trl_peer.reward(completion, "3") == expected
    assert grade_response(completion, "3", "r1_zero").rewards()["reward"] == expected


def test_the_peer_reads_the_products_settings(model):
    values = grpo_vs_trl.make_job(model, steps=1, seed=3)["values"]
    options = trl_peer.trainer_options(values)
    assert options["per_device_train_batch_size"] == 128
    assert options["learning_rate"] == 3.0e-4
    assert options["generation_kwargs"] == {"min_new_tokens": 4, "stop_strings": ["</answer>"]}
    assert options["seed"] == 3


def test_both_sides_see_the_same_prompts(model, tmp_path):
    job = grpo_vs_trl.make_job(model, steps=2, seed=0)
    small = job["values"] | {"sampling_min_tokens": 1, "sampling_max_tokens": 2}
    with ladder_peer.grpo_run(tmp_path, model, small, job["examples"]) as run:
        for _ in range(2):
            ladder_peer.take_step(run)
        rows = [row for row in run.rollouts.fresh if row["sample_index"] == 0]
    seen = [{"prompt": row["prompt"], "answer": row["ground_truth"]} for row in rows]
    assert seen == job["stream"]
    assert [row["step"] for row in run.metrics] == [1, 2]


def test_this_side_runs_in_blocks(model, tmp_path):
    job = grpo_vs_trl.make_job(model, steps=2, seed=0)
    job["values"] |= {"sampling_min_tokens": 3, "sampling_max_tokens": 3}
    (tmp_path / "job.json").write_text(json.dumps(job))
    ladder = Side("ladder", [sys.executable, "-m", "benchmarks.ladder_peer", tmp_path / "job.json"], tmp_path, 1)
    block = ladder.run(2)
    ladder.close()
    assert (block.steps, block.samples, block.tokens) == (2, 256, 768)
    assert ladder.about["torch"] == torch.__version__


def test_the_comparison_reports_ratios_and_quarters():
    blocks = [Block(1.0, 2.0, 256, 1000, [0.1, 0.3]), Block(3.0, 2.0, 256, 1000, [0.5, 0.7])]
    slower = [Block(4.0, 8.0, 256, 1000, [0.1, 0.1]), Block(8.0, 8.0, 256, 1000, [0.1, 0.1])]
    table = grpo_vs_trl.report([blocks], [slower], [{"torch": "1"}, {"trl": "2"}], threads=2)
    assert list(table.columns[3].cells) == ["3.00 x"] + ["4.00 x"] + ["3.00 x"] * 2 + [
        "+0.000",
        "+0.200",
        "+0.400",
        "+0.600",
    ]
    assert "ratio 2.67 to 4.00" in table.caption


def test_learning_curves_of_several_seeds_are_means_with_their_range():
    low, high = ([Block(1.0, 1.0, 128, 500, [start + step / 10 for step in range(4)])] for start in (0.1, 0.3))
    table = grpo_vs_trl.report([low, high], [low, low], [{"torch": "1"}, {"trl": "2"}], threads=2)
    assert list(table.columns[1].cells)[4:6] == ["0.200 (0.100 to 0.300)", "0.300 (0.200 to 0.400)"]
    assert list(table.columns[3].cells)[4:] == ["+0.100"] * 4
    assert "8 steps each over 2 seed(s), in 2 alternating pairs" in table.caption


def test_dense_and_chunked_scores_agree(tmp_path):
    torch.manual_seed(0)
    model = logprob_memory.make_model({"vocabulary": 300, "hidden": 16, "tokens": 12})
    ids = torch.randint(300, (2, 13))
    for name, score in logprob_memory.PATHS.items():
        model.zero_grad()
        log_probs = score(model, ids)
        assert log_probs.shape == (2, 12)
        log_probs.mean().backward()
        tensors = {"log_probs": log_probs.detach()} | {key: p.grad for key, p in model.named_parameters()}
        save_file(tensors, tmp_path / f"{name}.safetensors")
    gaps = logprob_memory.differences(*(tmp_path / f"{name}.safetensors" for name in ("dense", "chunked")))
    assert max(gaps.values()) < 1e-5
    tensors["log_probs"] = tensors["log_probs"] + 1e-3
    save_file(tensors, tmp_path / "off.safetensors")
    gaps = logprob_memory.differences(tmp_path / "dense.safetensors", tmp_path / "off.safetensors")
    assert gaps["log-probs"] == pytest.approx(1e-3, rel=0.05)


def test_the_peak_of_memory_is_seen_after_it_is_freed():
    before = logprob_memory.reset_peak()
    block = torch.ones(32, 2**20)
    del block
    assert logprob_memory.peak() - before > 100 * 2**20


def test_every_response_is_long_and_no_group_is_tied(model, tmp_path):
    from stages.tasks.arithmetic import examples

    settings = scaling.settings_of({"rollouts": 8, "length": 5, "group": 2})
    with ladder_peer.grpo_run(tmp_path, model, settings, examples("train", 8, 0)) as run:
        grading = scaling.do_all_work(run)
        row = ladder_peer.take_step(run)[-1]
    assert row["length"] == 5
    assert row["zero_variance_groups"] == 0
    assert row["gradient_norm"] > 0
    assert {f"seconds_{phase}" for phase in scaling.PHASES if phase != "grade"} <= row.keys()
    assert len(grading) == 1


def test_growth_exponents():
    assert scaling.exponent(1.0, 4.0, 2) == pytest.approx(2.0)
    assert scaling.exponent(3.0, 3.0, 2) == 0.0
    assert scaling.cell(0.4, 0.1, 2) == "0.400 (+2.00)"
    assert scaling.cell(0.4, 0.1, 0) == "0.400"
    assert scaling.cell(0.001, 0.0, 2) == "0.001"
