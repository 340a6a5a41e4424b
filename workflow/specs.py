"""The specification of every job: one JSON file that says all the job may know, written when the job is planned.

The file is an input of its job and the same text is a parameter of it, so that a job runs again exactly when something
in its specification changed. Builders take the config and the job's wildcards, and return it without `code`. Stages
that run a model are told of the hardware (`compute`); the others do the same on any.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pydantic import BaseModel
from snakemake_interface_common.exceptions import WorkflowError

from stages.benchmarks import SimpleSafetyTests
from stages.config import STAGES, ExpertIteration, Sampled
from stages.hardware import Compute
from stages.sources import Curated, PassRate
from stages.store import sha256, write_json
from stages.strict import nearest
from workflow import pages, paths
from workflow.experiments import arms
from workflow.fingerprint import fingerprint
from workflow.schema import BASE, Config

Spec = dict[str, Any]


def base_model(config: Config) -> Spec:
    return {"stage": "base_model", "name": BASE, "values": _plain(config.model)}


def dataset(config: Config, dataset: str) -> Spec:
    source = config.data[dataset]
    stage = {Curated: "curate", PassRate: "pass_rate"}.get(type(source), "prepare")
    return {"stage": stage, "name": dataset, "values": _plain(source)}


def sampling(config: Config, evaluation: str) -> Spec:
    return {**_evaluation("sample", config, evaluation), "compute": _plain(config.compute)}


def grading(config: Config, evaluation: str) -> Spec:
    return _evaluation("grade", config, evaluation)


def _evaluation(stage: str, config: Config, evaluation: str) -> Spec:
    values = config.evaluations[evaluation]
    return {"stage": stage, "name": evaluation, "model": values.model, "values": _plain(values)}


def judging(config: Config, judge: str, evaluation: str) -> Spec:
    """`stop` are the strings that may have ended a response; `categories` says that ground truths name harm areas. What
    else the judge decides about is no part of it."""
    entry = config.judges[judge]
    if evaluation not in entry.evaluations:
        raise WorkflowError(
            f"judge {judge} does not judge {evaluation}; {nearest(evaluation, list(entry.evaluations))}"
        )
    values, judged = entry.model_dump(mode="json", exclude={"evaluations", "compute"}), config.evaluations[evaluation]
    return {
        "stage": "judge",
        "name": f"{judge}/{evaluation}",
        "values": {**values, "prompt": entry.evaluations[evaluation]},
        "stop": list(judged.stop),
        "categories": isinstance(config.data[judged.dataset], SimpleSafetyTests),
        "compute": _plain(compute_of(config, judge)),
    }


def compute_of(config: Config, judge: str) -> Compute:
    return config.judges[judge].compute or config.compute


def training(config: Config, experiment: str, run: str) -> Spec:
    stage = config.experiments[experiment].stage
    return {**_run(stage, config, experiment, run), "compute": _plain(config.compute)}


def collection(config: Config, experiment: str, run: str) -> Spec:
    return _run("collect", config, experiment, run)


def _run(stage: str, config: Config, experiment: str, run: str) -> Spec:
    """`values` are complete but for the inherited keys, which the job takes from winners files when it starts."""
    if run not in config.runs[experiment]:
        hint = nearest(run, list(config.runs[experiment]))
        raise WorkflowError(f"experiment {experiment} has no run {run}; {hint}")
    return {
        "stage": stage,
        "name": f"{experiment}/{run}",
        "model": start_of(config, experiment, run) or BASE,
        "values": config.runs[experiment][run],
        "inherit": dict(config.experiments[experiment].inherit),
    }


def start_of(config: Config, experiment: str, run: str) -> str | None:
    """The experiment whose winner's checkpoint the run starts from; None where it starts from the base policy."""
    return config.runs[experiment][run]["start_from"]


def selection(config: Config, experiment: str) -> Spec:
    plan = config.experiments[experiment].model_dump(mode="json", exclude={"compare_with"})  # no part in choosing
    plan["arms"] = arms(config.experiments[experiment], config.runs[experiment])
    return {"stage": "select", "name": experiment, "experiment": plan, "runs": config.runs[experiment]}


def summary(config: Config, experiment: str) -> Spec:
    own = {"references": references(config, experiment), "board": board(config, experiment)}
    return {**selection(config, experiment), "stage": "summarize", **own}


def board(config: Config, experiment: str) -> Spec:
    """What an accuracy board asks of runs with a budget of seconds beside their values: where the policy and
    the data come from, those that were chosen from others by what they were chosen from. Empty for other runs."""
    runs, stage = config.runs[experiment].values(), config.experiments[experiment].stage
    budgeted = any(values.get("max_seconds") is not None for values in runs)
    if not budgeted or stage == "expert_iteration" or not issubclass(STAGES[stage], Sampled):
        return {}
    used = sorted({values[key] for values in runs for key in ("train", "validation")})
    found = {"stage": stage, "model": _plain(config.model), "data": {name: _origin(config, name) for name in used}}
    return found | ({"reference": True} if config.reference_grader else {})


def reference(config: Config, experiment: str, run: str) -> Spec:
    """The course's grader on the last validation of a run; the file is known by what is in it."""
    file = config.reference_grader
    values = {"file": file, "sha256": sha256(file)}
    return {"stage": "grade", "name": f"{experiment}/{run}", "values": values}


def _origin(config: Config, dataset: str) -> Spec:
    source, chosen = config.data[dataset], {}
    while isinstance(source, (Curated, PassRate)):
        if isinstance(source, PassRate):
            chosen = {"chosen_by": source.evaluation}
            dataset = config.evaluations[source.evaluation].dataset
        else:
            dataset = source.dataset
        source = config.data[dataset]
    return {**_plain(source), "name": dataset, **chosen}


def references(config: Config, experiment: str) -> dict[str, Spec]:
    """The experiments whose winners a summary shows beside its own runs: what they sweep, and where their files lie."""
    return {
        name: {
            **config.experiments[name].model_dump(mode="json", include={"stage", "grid", "cases", "tune"}),
            "winner": paths.winner(config.results, name),
            "runs": {run: paths.run(config.results, name, run) for run in config.runs[name]},
        }
        for name in config.experiments[experiment].compare_with
    }


def report(config: Config, page: str) -> Spec:
    """Everything a page (pages.py) shows, and where it lies."""
    results = config.results
    return {
        "stage": "report",
        "name": page,
        "preset": config.preset,
        "model": _plain(config.model),
        "base_metrics": f"{paths.base_model(results)}.metrics.parquet",
        "data": {name: _plain(config.data[name]) for name in pages.datasets(config, page)},
        "examples": {name: paths.dataset(results, name) for name in pages.datasets(config, page)},
        "evaluations": {
            name: {
                **_plain(evaluation),
                "rollouts": f"{paths.evaluation(results, name)}/rollouts.parquet",
                "graded": f"{paths.evaluation(results, name)}/graded.parquet",
                "metrics": f"{paths.evaluation(results, name)}/metrics.parquet",
                "judgements": {
                    judge: paths.judgement(results, judge, name)
                    for judge, judged in pages.judgements(config, page)
                    if judged == name
                },
            }
            for name, evaluation in config.evaluations.items()
            if name in pages.evaluations(config, page)
        },
        "experiments": {
            name: {
                **_plain(experiment),
                "arms": arms(experiment, config.runs[name]),
                "summary": paths.summary(results, name),
                "winner": paths.winner(results, name),
                "runs": {run: paths.run(results, name, run) for run in config.runs[name]},
                "references": references(config, name),
                "board": board(config, name),
            }
            for name, experiment in config.experiments.items()
            if name in pages.experiments(config, page)
        },
        "tests": {
            name: [one for one in of if one in pages.experiments(config, page)]
            for name, of in config.tests.items()
            if name in pages.evaluations(config, page)
        },
        "roles": pages.roles(config, page),
        "logs": pages.logs(config, page),
    }


# ---------------------------------------------------------------- one round of expert iteration
#
# A round knows nothing of how many there are: with more of them, the first ones stay as they are.


def round_sampling(config: Config, experiment: str, run: str, round: str) -> Spec:
    return {**_round_evaluation("sample", config, experiment, run, round), "compute": _plain(config.compute)}


def round_grading(config: Config, experiment: str, run: str, round: str) -> Spec:
    return _round_evaluation("grade", config, experiment, run, round)


def _round_evaluation(stage: str, config: Config, experiment: str, run: str, round: str) -> Spec:
    values, model = config.runs[experiment][run], _policy_before(config, experiment, run, round)
    shared = {key: values[key] for key in Sampled.model_fields}
    own = {
        "dataset": values["train"],
        "model": model,
        "num_examples": values["question_batch_size"],
        "group_size": values["group_size"],
    }
    return {**_round(stage, experiment, run, round), "model": model, "values": {**shared, **own}}


def round_survivors(config: Config, experiment: str, run: str, round: str) -> Spec:
    removed = config.runs[experiment][run]["remove_duplicates"]
    return {**_round("survivors", experiment, run, round), "values": {"remove_duplicates": removed}}


def round_tuning(config: Config, experiment: str, run: str, round: str) -> Spec:
    """Fine-tuning on the survivors, of which there may be none."""
    plan = config.experiments[experiment]
    settings = ExpertIteration.model_validate(config.runs[experiment][run]).round_of_sft()
    return {
        **_round("sft", experiment, run, round),
        "model": _policy_before(config, experiment, run, round),
        "values": {key: value for key, value in _plain(settings).items() if key not in plan.inherit},
        "inherit": dict(plan.inherit),
        "may_be_empty": True,
        "compute": _plain(config.compute),
    }


def _round(stage: str, experiment: str, run: str, number: str) -> Spec:
    return {"stage": stage, "name": f"{experiment}/{run}/round {number}", "round": int(number)}


def _policy_before(config: Config, experiment: str, run: str, number: str) -> str:
    return f"round {int(number) - 1}" if int(number) > 1 else start_of(config, experiment, run) or BASE


def _plain(model: BaseModel) -> dict[str, Any]:
    return model.model_dump(mode="json")


# ---------------------------------------------------------------- files


def with_code(spec: Spec, root: Path) -> Spec:
    """Add the fingerprint of the stage's program, whose sources lie under `root`."""
    return {**spec, "code": fingerprint(root, f"stages.{spec['stage']}")}


def is_current(path: str | Path, spec: Spec, ignore_code: bool = False) -> bool:
    """Whether the file says `spec`; with `ignore_code`, whether it does but for the code fingerprint."""
    try:
        there = json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    if ignore_code and isinstance(there, dict):
        there = {**there, "code": spec.get("code")}
    return there == json.loads(json.dumps(spec))


def planned_anew(path: str | Path) -> WorkflowError:
    """What a job says, on its node, that finds another specification than its own."""
    return WorkflowError(
        f"{path} is not what this job was planned with: the workflow was started again with other values or code while "
        "the job waited. Nothing was run; the later job does the work."
    )


def write_if_changed(path: str | Path, data: Any) -> None:
    """Write JSON by rename. A file that says the same already keeps its time stamp, and re-runs nothing."""
    if not is_current(path, data):
        write_json(Path(path), data)
