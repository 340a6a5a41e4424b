"""What was spent, by hand: 4 GPUs for half an hour are 2 GPU-hours, whatever the cores did beside them."""

from __future__ import annotations

import pytest

from stages.reporting import hours
from stages.reporting.hours import Account, of_job


def test_a_job_with_gpus_counts_gpu_hours_alone():
    assert of_job(1800, {"gpus": 4, "cores": 16}) == Account(1, 1800, gpu_hours=2.0)


def test_a_job_without_counts_the_hours_of_its_cores():
    assert of_job(1800, {"gpus": 0, "cores": 3}) == Account(1, 1800, core_hours=1.5)


def test_a_job_that_does_not_say_counts_its_time_alone():
    assert of_job(60, {}) == Account(1, 60, unknown=1)


def test_accounts_add_up():
    jobs = [of_job(3600, {"gpus": 2, "cores": 4}), of_job(3600, {"gpus": 0, "cores": 4}), of_job(3600, {})]
    assert hours.total(jobs) == Account(3, 10800, 2.0, 4.0, 1)
    assert hours.total([]) == Account()


@pytest.mark.parametrize(
    ("account", "said"),
    [
        (Account(1, 60, gpu_hours=3.21), "3.2 GPU-hours"),
        (Account(1, 60, core_hours=0.0142), "0.014 core-hours without a GPU"),
        (Account(1, 1, core_hours=0.0003), "<0.001 core-hours without a GPU"),
        (Account(2, 60, 1204.4, 1.0), "1,204 GPU-hours and 1.0 core-hours without a GPU"),
        (Account(2, 60, 2.0, unknown=1), "2.0 GPU-hours; 1 of 2 jobs do not say on what they ran"),
        (Account(), "nothing"),
    ],
)
def test_accounts_in_words(account, said):
    assert hours.words(account) == said


def test_the_sentence_of_an_experiment():
    assert hours.sentence(Account(4, 7200, 8.0)) == "Spent: 8.0 GPU-hours (4 runs, 2.0 h)."
    assert hours.sentence(Account(1, 60, 0.5)) == "Spent: 0.5 GPU-hours (1 run, 60 s)."


def test_the_table_ends_with_the_total():
    header, rows = hours.table({"sft": Account(2, 3600, 1.0), "grpo": Account(1, 3600, core_hours=1.0)})
    assert len(header) == len(rows[0])
    assert rows[-1] == ["all", "3", "2.0 h", "1.0", "1.0"]
