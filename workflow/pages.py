"""What a page shows: "report" the main experiments, "ladder" all of them, and either what these were made from."""

from __future__ import annotations

from stages.sources import Curated, PassRate
from workflow import paths
from workflow.schema import BASE, Config


def experiments(config: Config, page: str) -> tuple[str, ...]:
    return config.main if page == "report" else tuple(config.experiments)


def evaluations(config: Config, page: str) -> list[str]:
    """All of them, but on the page of the main experiments neither those that only choose training questions nor those
    of other experiments' winners, or that measure on the test set what those set out from."""
    choosing = {source.evaluation for source in config.data.values() if isinstance(source, PassRate)}
    policies = {BASE, *experiments(config, page)}
    wanted = [
        name
        for name, evaluation in config.evaluations.items()
        if evaluation.model in policies and (name not in config.added or policies & {*config.tests[name]})
    ]
    return [name for name in wanted if page == "ladder" or name not in choosing]


def judgements(config: Config, page: str) -> list[tuple[str, str]]:
    """(judge, evaluation) of all that judges decide about the page's evaluations."""
    shown = evaluations(config, page)
    return [(judge, name) for judge, entry in config.judges.items() for name in entry.evaluations if name in shown]


def datasets(config: Config, page: str) -> list[str]:
    """What the page's evaluations and runs use, and what that was made from, in the order of the config."""
    used = {config.evaluations[name].dataset for name in evaluations(config, page)}
    for name in experiments(config, page):
        used |= {values[key] for values in config.runs[name].values() for key in ("train", "validation")}
    used |= {config.data[name].dataset for name in used if isinstance(config.data[name], Curated)}
    return [name for name in config.data if name in used]


def roles(config: Config, page: str) -> dict[str, list[str]]:
    """What the page's datasets are for: what is trained on, what chooses, the test set, what other evaluations ask.

    What is a part of another dataset stands for that one where the page has it.
    """
    shown = datasets(config, page)
    wholes = {name: config.data[name].dataset for name in shown if isinstance(config.data[name], Curated)}
    runs = [values for name in experiments(config, page) for values in config.runs[name].values()]
    found = {key: {wholes.get(values[key], values[key]) for values in runs} for key in ("train", "validation")}
    asked = {name: config.evaluations[name].dataset for name in evaluations(config, page)}
    found["test"] = {dataset for name, dataset in asked.items() if name in config.tests}
    found["asked"] = {*asked.values()} - found["train"] - found["validation"] - found["test"]
    return {role: [name for name in shown if name in names] for role, names in found.items()}


def logs(config: Config, page: str) -> dict[str, str]:
    """Output, named as the page's table of provenance names it -> the log of the job that made it."""
    found = {"base model": paths.log(config.results, "base_model")}
    found |= {f"evaluation {name}": paths.log(config.results, "sample", name) for name in evaluations(config, page)}
    found |= {
        f"judgement {judge}/{name}": paths.log(config.results, "judge", judge, name)
        for judge, name in judgements(config, page)
    }
    for name in experiments(config, page):
        stage = config.experiments[name].stage
        found |= {f"{name}/{run}": paths.log(config.results, stage, name, run) for run in config.runs[name]}
    return found
