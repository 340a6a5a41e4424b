"""What is told of Reasoning Gym datasets that cannot be used, whether the package is installed or not."""

import importlib.metadata

import pytest

from stages.strict import ConfigError
from stages.tasks.reasoning_gym_answers import REFUSED, REVIEWED, VERSION, check_reasoning_gym, fault
from stages.tasks.reasoning_gym_tasks import load


@pytest.fixture
def no_cache():
    fault.cache_clear()
    yield
    fault.cache_clear()


def test_no_dataset_is_reviewed_and_refused():
    assert not REVIEWED & set(REFUSED)


@pytest.mark.parametrize(
    ("dataset", "message"),
    [
        ("countdown", "which evaluates it; `source: countdown` offers the task with a verifier that does not"),
        ("complex_arithmetic", "its verifier calls NaN right"),
        ("rush_hour", "'rush_hour' is not among the Reasoning Gym datasets whose verifier was reviewed"),
        ("chain_sums", "reviewed for use on a model's text: chain_sum"),
    ],
)
def test_what_is_told_of_datasets_that_cannot_be_used(dataset, message):
    assert message in fault(dataset)
    assert check_reasoning_gym({"dataset": dataset, "answer": "1", "metadata": {}}, "1")[0] == "bad_reference"


def test_it_is_told_when_the_package_is_missing_or_another_version(monkeypatch, no_cache):
    def absent(name):
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "version", lambda name: "9.9")
    assert fault("gcd") == (
        f"Reasoning Gym 9.9 is installed and its verifiers were reviewed in {VERSION}; run pip install "
        f"reasoning-gym=={VERSION}"
    )
    fault.cache_clear()
    monkeypatch.setattr(importlib.metadata, "version", absent)
    with pytest.raises(
        ConfigError, match=r"gym\.dataset: Reasoning Gym is not installed; run pip install reasoning-gym="
    ):
        load("gcd", "train", 2, 0, "gym")


@pytest.mark.parametrize("problem", [{}, {"dataset": None}, {"dataset": ["gcd"]}, {"dataset": "composite"}])
def test_a_problem_that_names_no_dataset_is_a_bad_reference(problem):
    assert check_reasoning_gym(problem, "1")[0] == "bad_reference"
