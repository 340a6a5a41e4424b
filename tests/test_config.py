"""What a person sees who made a mistake in a value."""

from __future__ import annotations

import json

import pytest

from stages.config import Dpo, Evaluation, Grpo, Instruct, Sft
from stages.judges import Judge
from stages.sources import ModelSource, Pretrain, parse_source
from stages.strict import ConfigError, parse, read_spec

NAMES = {"train": "train", "validation": "validation"}


def message(kind, values) -> str:
    with pytest.raises(ConfigError) as caught:
        parse(kind, values, "experiments.x")
    return str(caught.value)


def test_starter_values_of_the_handout_are_the_defaults():
    grpo = parse(Grpo, NAMES, "x")
    assert (grpo.n_grpo_steps, grpo.learning_rate, grpo.advantage_eps) == (200, 1e-5, 1e-6)
    assert (grpo.rollout_batch_size, grpo.group_size, grpo.train_batch_size) == (256, 8, 256)
    assert (grpo.gradient_accumulation_steps, grpo.epochs_per_rollout_batch) == (128, 1)
    assert (grpo.adam_beta1, grpo.adam_beta2, grpo.weight_decay, grpo.max_grad_norm) == (0.9, 0.95, 0.0, 1.0)
    assert (grpo.sampling_temperature, grpo.sampling_min_tokens, grpo.sampling_max_tokens) == (1.0, 4, 1024)
    assert (grpo.loss_type, grpo.use_std_normalization) == ("reinforce_with_baseline", True)
    assert grpo.micro_train_batch_size == 2
    assert grpo.n_prompts_per_rollout_batch == 32
    assert grpo.n_train_steps_per_rollout_batch == 1


def test_values_of_the_supplement_are_the_defaults():
    tuning, preferring = parse(Instruct, NAMES, "x"), parse(Dpo, NAMES, "x")
    assert (tuning.learning_rate, tuning.lr_schedule, tuning.warmup_fraction) == (2e-5, "cosine", 0.03)
    assert (tuning.train_batch_size, tuning.seq_length, tuning.n_epochs) == (32, 512, 1)
    assert (preferring.optimizer, preferring.learning_rate, preferring.beta) == ("rmsprop", 1e-6, 0.1)
    assert (preferring.train_batch_size, preferring.n_epochs) == (64, 1)
    assert (tuning.sampling_temperature, tuning.stop) == (preferring.sampling_temperature, preferring.stop) == (0.0, ())


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"train_batch_size": 100}, "train_batch_size (100) must be divisible by gradient_accumulation_steps (128)"),
        ({"group_size": 1}, "group_size 1 leaves every advantage at 0"),
        ({"group_size": 1, "loss_type": "no_baseline"}, None),
        ({"group_size": 7}, "rollout_batch_size (256) must be divisible by group_size (7)"),
        (
            {"train_batch_size": 4, "gradient_accumulation_steps": 1},
            "train_batch_size (4) must be at least group_size (8)",
        ),
        ({"rollout_batch_size": 384}, "rollout_batch_size (384) must be divisible by train_batch_size (256)"),
        ({"sampling_temperature": 0.0}, "sampling_temperature must be above 0"),
        ({"learning_rate": "1e-5"}, "x.learning_rate: YAML reads 1e-5 as text, not as a number; write 1.0e-5 (got "),
        ({"n_grpo_steps": True}, "x.n_grpo_steps: Input should be a number (got True)"),
        ({"warmup_fraction": False}, "x.warmup_fraction: Input should be a number (got False)"),
        ({"use_std_normalization": 0}, "x.use_std_normalization: Input should be true or false (got 0)"),
        ({"stop": "</answer>"}, "x.stop: Input should be a list, as in [1, 2] (got '</answer>')"),
        ({"stop": [""]}, "x.stop.0: String should have at least 1 character (got '')"),
        ({"early_end": 3}, "x.early_end: Input should be a section of keys and values (got 3)"),
        ({"early_end": {"zero_reward_steps": True}}, "x.early_end.zero_reward_steps: Input should be a number"),
        ({"train": 2024}, "x.train: Input should be text; in quotes, where YAML reads something else"),
        ({"learnin_rate": 1e-5}, "unknown key; did you mean learning_rate"),
        ({"loss_type": "grpo"}, "'grpo_clip'"),
        ({"prompt": "question_only"}, "prompt 'question_only' is graded by reward 'question_only', not 'r1_zero'"),
        (
            {"sampling_min_tokens": 9, "sampling_max_tokens": 8},
            "sampling_min_tokens (9) exceeds sampling_max_tokens (8)",
        ),
        ({"top_p": 0.9}, "experiments.x.top_p: unknown key"),
        ({"advantage_eps": 0.0}, "experiments.x.advantage_eps"),
        ({"learning_rate": float("nan")}, "experiments.x.learning_rate"),
    ],
)
def test_values_that_cannot_work_are_named(changes, says):
    if says is not None:
        assert says in message(Grpo, NAMES | changes)
    else:
        assert parse(Grpo, NAMES | changes, "x").model_dump().items() >= changes.items()


def test_text_that_yaml_reads_as_a_number_is_that_number():
    """As the command line gives it: `--config 'compute={train_processes: 4}'`."""
    given = {"n_grpo_steps": "9", "max_seconds": "6.5", "learning_rate": "1.0e-3", "use_std_normalization": "no"}
    found = parse(Grpo, NAMES | given, "x")
    assert (found.n_grpo_steps, found.max_seconds, found.learning_rate) == (9, 6.5, 1e-3)
    assert found.use_std_normalization is False


def test_a_learning_rate_that_is_no_number_is_named():
    assert "experiments.x.learning_rate" in message(Sft, NAMES | {"learning_rate": "fast"})


@pytest.mark.parametrize("given", [{}, {"path": "a", "hub": "b"}])
def test_exactly_one_source_of_the_model(given):
    assert "give exactly one of shipped, pretrain, path, hub" in message(ModelSource, given)


@pytest.mark.parametrize("given", [{"hub": "a/b"}, {"hub": "a/b", "revision": "main"}])
def test_a_model_of_the_hub_is_pinned_to_a_commit(given):
    assert "hub needs revision, the commit that pins the model" in message(ModelSource, given)
    assert "revision can only be given" in message(ModelSource, {"path": "a", "revision": "b"})


def test_a_nested_unknown_key_names_its_neighbours():
    assert "pretrain.hidden: unknown key; did you mean hidden_size" in message(ModelSource, {"pretrain": {"hidden": 4}})
    assert "num_heads" in message(ModelSource, {"pretrain": {"num_heads": 3}})
    assert parse(Pretrain, {}, "x").hidden_size == 128


def test_evaluations_and_data_sources():
    assert parse(Evaluation, {"dataset": "d"}, "x").num_examples == "full"
    with pytest.raises(ConfigError, match=r"data\.x"):
        parse_source({"source": "nowhere"}, "data.x")
    with pytest.raises(ConfigError, match="size"):
        parse_source({"source": "arithmetic", "split": "train", "size": 0}, "data.x")


def test_specs_that_cannot_be_read_say_what_to_do(tmp_path):
    with pytest.raises(ConfigError, match="no such file"):
        read_spec(tmp_path / "spec.json")
    (tmp_path / "spec.json").write_text("{")
    with pytest.raises(ConfigError, match="delete it"):
        read_spec(tmp_path / "spec.json")
    (tmp_path / "spec.json").write_text(json.dumps({"a": 1}))
    assert read_spec(tmp_path / "spec.json") == {"a": 1}


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({}, "give exactly one of path (a local file) and hub"),
        ({"hub": "Anthropic/hh-rlhf"}, "hub needs revision, the commit that pins the data"),
        ({"path": "hh", "revision": "0" * 40}, "give path (a local folder) or hub with revision, not both"),
        ({"path": "hh", "subsets": []}, "data.x.hh.subsets"),
        ({"path": "hh", "subsets": ["helpful"]}, "data.x.hh.subsets.0: Input should be 'harmless-base'"),
    ],
)
def test_where_preferences_come_from(values, says):
    with pytest.raises(ConfigError) as caught:
        parse_source({"source": "hh", **values}, "data.x")
    assert says in str(caught.value)


def test_the_alpaca_prompt_is_graded_by_the_box():
    asked = {"dataset": "d", "model": "instruct", "prompt": "alpaca"}
    assert parse(Evaluation, asked | {"reward": "question_only"}, "x").prompt == "alpaca"
    assert "prompt 'alpaca' is graded by reward 'question_only' or 'mmlu'" in message(Evaluation, asked)


@pytest.mark.parametrize("reward", ["mmlu", "gsm8k", "none"])
def test_benchmarks_are_decoded_as_the_supplement_wants(reward):
    asked = {"dataset": "d", "reward": reward}
    base = parse(Evaluation, asked | {"prompt": "zero_shot"}, "x")
    assert (base.sampling_temperature, base.sampling_min_tokens, base.stop) == (0.0, 0, ("# Query:",))
    assert parse(Evaluation, asked | {"prompt": "alpaca"}, "x").stop == ()
    own = {"prompt": "zero_shot", "sampling_temperature": 0.7, "stop": ["```"]}
    given = parse(Evaluation, asked | own, "x")
    assert (given.sampling_temperature, given.stop) == (0.7, ("```",))
    assert parse(Evaluation, given.model_dump(mode="json"), "x") == given


def test_other_evaluations_are_decoded_as_before():
    asked = parse(Evaluation, {"dataset": "d", "prompt": "alpaca", "reward": "question_only"}, "x")
    assert (asked.sampling_temperature, asked.sampling_min_tokens, asked.stop) == (1.0, 4, ("</answer>",))


@pytest.mark.parametrize(
    ("kind", "values", "says"),
    [
        (Evaluation, {"dataset": "d", "prompt": "r1_zero", "reward": "mmlu"}, "graded by reward 'r1_zero', not 'mmlu'"),
        (Evaluation, {"dataset": "d", "prompt": "zero_shot"}, "'mmlu' or 'gsm8k' or 'none', not 'r1_zero'"),
        (Grpo, NAMES | {"prompt": "alpaca", "reward": "none"}, "experiments.x.reward: Input should be 'r1_zero'"),
    ],
)
def test_prompts_and_rewards_that_do_not_fit(kind, values, says):
    assert says in message(kind, values)


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({}, "give exactly one of path (a local file) and hub"),
        ({"hub": "cais/mmlu", "revision": "main"}, "hub needs revision, the commit that pins the data"),
        ({"path": "mmlu", "hub": "cais/mmlu"}, "give path (a local folder or file) or hub with revision, not both"),
        ({"path": "mmlu", "split": "train"}, "data.x.mmlu.split: Input should be 'dev'"),
    ],
)
def test_where_mmlu_comes_from(values, says):
    with pytest.raises(ConfigError) as caught:
        parse_source({"source": "mmlu", **values}, "data.x")
    assert says in str(caught.value)


JUDGE = {"evaluations": {"e": "alpaca_eval"}, "model": {"path": "judge"}}


def test_a_judge_is_greedy_and_has_room_for_a_reason():
    judge = parse(Judge, JUDGE, "judges.x")
    assert (judge.sampling_temperature, judge.sampling_min_tokens, judge.sampling_max_tokens) == (0.0, 0, 512)
    assert (judge.stop, judge.compute) == ((), None)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"model": {"pretrain": {}}}, "a judge is neither shipped nor pretrained"),
        ({"model": {"hub": "org/judge"}}, "model: hub needs revision, the commit that pins the model"),
        ({"model": {"hub": "org/judge", "revision": "main"}}, "(got 'main'; a branch or tag may move"),
        ({"evaluations": {}}, "experiments.x.evaluations"),
        ({"evaluations": {"e": "mt_bench"}}, "experiments.x.evaluations.e: Input should be 'alpaca_eval'"),
        ({"modle": {}}, "unknown key; did you mean model"),
    ],
)
def test_judges_that_cannot_work_are_named(changes, says):
    assert says in message(Judge, JUDGE | changes)


@pytest.mark.parametrize("key", ["values", "compute"])
@pytest.mark.parametrize("value", ["[1]", "3", "null"])
def test_a_specification_whose_sections_are_none_is_refused(tmp_path, key, value):
    (tmp_path / "spec.json").write_text(f'{{"stage": "sft", "{key}": {value}}}')
    with pytest.raises(ConfigError, match=rf"spec\.json: {key} is not a section of keys and values"):
        read_spec(tmp_path / "spec.json")
