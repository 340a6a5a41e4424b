"""Where the files of a results folder lie. Given `{wildcard}` names, these functions make the patterns of the rules."""

from __future__ import annotations


def base_model(results: str) -> str:
    return f"{results}/models/base"


def dataset(results: str, name: str) -> str:
    return f"{results}/data/{name}.parquet"


def evaluation(results: str, name: str) -> str:
    """Folder of rollouts, graded rollouts and metrics of one evaluation."""
    return f"{results}/evaluations/{name}"


def judgement(results: str, judge: str, evaluation: str) -> str:
    """Folder of a judge's verdicts on one evaluation, and what they come to."""
    return f"{results}/judgements/{judge}/{evaluation}"


def run(results: str, experiment: str, run: str) -> str:
    """Folder of one training run. `run` (`key=value/…/seed=<n>`) is an opaque key: nobody parses values out of it."""
    return f"{results}/runs/{experiment}/{run}"


def round_folder(run: str, number: int | str) -> str:
    """Folder of one round of expert iteration, within that of its run."""
    return f"{run}/round_{number}"


def winner(results: str, experiment: str) -> str:
    return f"{results}/winners/{experiment}.json"


def summary(results: str, experiment: str) -> str:
    """Folder of the table, curves, winner and transcripts of one experiment."""
    return f"{results}/{experiment}"


def log(results: str, stage: str, *names: str) -> str:
    """What a stage said: a file; of expert iteration, the last one of a run's, beside those of the rounds."""
    path = "/".join((results, "logs", stage, *names))
    return f"{path}/collect.log" if stage == "expert_iteration" else f"{path}.log"


def round_log(results: str, experiment: str, run: str, number: int | str, stage: str) -> str:
    """What a stage of one round of expert iteration said."""
    return f"{results}/logs/expert_iteration/{experiment}/{run}/round_{number}/{stage}.log"
