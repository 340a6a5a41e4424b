"""Reasoning Gym: every dataset that is let in gives its own answer full marks and no hostile text any.

The package is an extra that needs a C compiler: `make test-extras` installs it and runs this folder.
"""

import inspect
import json
import re
import subprocess
import sys

import pytest
import reasoning_gym

from stages.grading import GraderPool
from stages.records import EXAMPLES, table
from stages.strict import ConfigError
from stages.tasks import reasoning_gym_tasks
from stages.tasks.arithmetic import TooMany, split_of
from stages.tasks.reasoning_gym_answers import MAX_CHARS, REFUSED, REVIEWED, check_reasoning_gym
from stages.tasks.reasoning_gym_tasks import load
from stages.tasks.verifiers import verify

DATASETS = reasoning_gym.factory.DATASETS


def problem_of(row):
    return json.loads(row["ground_truth"].removeprefix("reasoning_gym:"))


HOSTILE = [
    *["", "x", "0", "1", "True", "no", "None", "null", "[]", "{}", "[[]]", "[1]", '{"A": 1}', "½", "٣", "\u0000", "𝟙"],
    *["NaN", "nan", "inf", "-inf", "1e400", "1e999999999", "0x10", "1_000", "nan+nanj", "NaN, NaN", "nan days, 00:00"],
    *["__import__('os').system('true')", "9**9**9**9", "Move disk 9 from Peg 9 to Peg 9", "lambda: 0", "A=1,B=1", "C"],
    *[piece * (MAX_CHARS // len(piece)) for piece in ("[", "(", "9", "\n", "ab ", "A ", "1,", "{1:", "× ", "right ")],
]


@pytest.mark.parametrize("dataset", sorted(REVIEWED))
def test_a_reviewed_verifier(dataset):
    """The answer that belongs to a stored question is right; nothing hostile is, nor does it raise."""
    rows = load(dataset, "train", 2, 0, "gym")
    table(rows, EXAMPLES)
    for row in rows:
        answer = problem_of(row)["answer"]
        assert verify(row["ground_truth"], f" {answer} \n")[0] == "correct"
        for text in HOSTILE:
            if text.strip().lower() != answer.strip().lower():
                assert (text[:40], verify(row["ground_truth"], text)[0]) == (text[:40], "wrong")


def test_the_lists_name_datasets_of_the_package():
    assert set(DATASETS) >= REVIEWED | set(REFUSED)
    assert not REVIEWED & set(REFUSED)


def test_no_reviewed_verifier_evaluates():
    """A check on the review: none of the classes let in names an evaluating call in its `score_answer`."""
    for dataset in REVIEWED:
        source = inspect.getsource(DATASETS[dataset][0].score_answer)
        assert not re.search(r"\b(eval|exec|parse_expr|sympify|literal_eval|Fraction)\(", source), dataset


@pytest.mark.parametrize("dataset", ["binary_matrix", "n_queens", "spiral_matrix", "string_insertion", "puzzle24"])
def test_those_that_evaluate_the_models_text_are_refused(dataset):
    assert re.search(r"eval\(|parse_expr\(", inspect.getsource(DATASETS[dataset][0].score_answer))
    with pytest.raises(ConfigError, match=f"data.gym.dataset: Reasoning Gym's '{dataset}' is refused: its verifier"):
        load(dataset, "train", 2, 0, "gym")


# ---------------------------------------------------------------- scoring


def test_partial_credit_counts_as_wrong():
    problem = {"dataset": "chain_sum", "answer": "12", "metadata": {}}
    assert check_reasoning_gym(problem, "+012.0") == ("correct", "scored 1 by the verifier of chain_sum")
    assert check_reasoning_gym(problem, "It is 12") == ("wrong", "scored 0.25 by the verifier of chain_sum")
    assert check_reasoning_gym(problem, "12" * MAX_CHARS)[0] == "too_long"


def test_many_answers_can_be_right():
    metadata = {"letters": ["a", "b", "a", "b"]}
    problem = {"dataset": "palindrome_generation", "answer": "abba", "metadata": metadata}
    assert [check_reasoning_gym(problem, text)[0] for text in ("abba", "baab", "abab")] == [
        "correct",
        "correct",
        "wrong",
    ]


def test_a_verifier_that_raises_or_prints_does_no_harm(capsys):
    factors = {"dataset": "prime_factorization", "answer": "2 × 3", "metadata": {}}
    verdict, reason = check_reasoning_gym(factors, "two times three")
    assert verdict == "wrong"
    assert reason.startswith("the verifier of prime_factorization raised ValueError: invalid literal")
    hanoi = load("tower_of_hanoi", "train", 1, 0, "gym")[0]
    assert verify(hanoi["ground_truth"], "Move disk 1 from Peg 99 to Peg 98")[0] == "wrong"
    assert capsys.readouterr().out == ""


# ---------------------------------------------------------------- questions


def test_splits_and_seeds():
    train, validation = (load("gcd", split, 40, 0, "gym") for split in ("train", "validation"))
    assert {split_of(row["question"]) for row in train} == {"train"}
    assert {split_of(row["question"]) for row in validation} == {"validation"}
    assert len({row["question"] for row in train}) == 40
    assert load("gcd", "train", 10, 0, "gym") == train[:10]
    assert train[0]["example_id"] == "gym-000001"


def test_neighbouring_seeds_share_hardly_anything():
    """The package draws entry i from seed + i, so that seeds 0 and 1 would have all but one entry in common."""
    raw = [
        {reasoning_gym.create_dataset("gcd", seed=seed, size=30)[i]["question"] for i in range(30)} for seed in (0, 1)
    ]
    assert len(raw[0] & raw[1]) >= 29
    rows = [{row["question"] for row in load("gcd", "train", 30, seed, "gym")} for seed in (0, 1)]
    assert len(rows[0] & rows[1]) < 5


def test_more_questions_than_there_are(monkeypatch):
    entry = {"question": "the only one", "answer": "a", "metadata": {}}
    monkeypatch.setattr(reasoning_gym_tasks, "_entries", lambda dataset, draws, seed: [entry] * draws)
    with pytest.raises(TooMany, match=r"syllogism gave 1 different \w+ questions in 140 draws; ask for fewer"):
        load("syllogism", split_of("the only one"), 2, 0, "gym")


def test_scoring_fits_the_memory_of_a_grading_process():
    """The package and what it imports, within the address space that the pool gives a worker."""
    code = (
        "import resource; resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))\n"
        "from stages.tasks.reasoning_gym_answers import check_reasoning_gym\n"
        "print(check_reasoning_gym({'dataset': 'gcd', 'answer': '6', 'metadata': {}}, '6')[0])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "correct", done.stderr


def test_reasoning_gym_runs_in_a_worker():
    items = []
    for dataset in ("gcd", "tower_of_hanoi", "group_anagrams"):
        for row in load(dataset, "train", 2, 0, dataset):
            answer = json.loads(row["ground_truth"].removeprefix("reasoning_gym:"))["answer"]
            items.append((f" So: </think> <answer> {answer} </answer>", row["ground_truth"]))
            items.append((" So: </think> <answer> Move disk 1 from Peg 99 to Peg 98 </answer>", row["ground_truth"]))
    with GraderPool() as pool:
        assert [verdict.verdict for verdict in pool.grade(items, "r1_zero")] == ["correct", "wrong"] * 6
        assert len(pool.worker_pids) == 1
