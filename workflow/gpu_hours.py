"""The GPU-hours of any target before it runs: an upper bound, and an estimate as far as runs like these have finished.

    python -m workflow.gpu_hours results/grpo_lr_sweep --profile slurm
    python -m workflow.gpu_hours results-math_1.5b/sft_sizes --configfile workflow/presets/math_1.5b.yaml

Targets and options are those of snakemake. Jobs that are done already count nothing. The bound is a job's GPUs times
the runtime that it may take in one attempt; the estimate takes the mean seconds of finished runs, of the same
experiment if there are any, else of the same rule.
"""

from __future__ import annotations

import json
import logging
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from snakemake_interface_logger_plugins.common import LogEvent

from workflow import paths
from workflow.experiments import Experiments, lineage
from workflow.schema import Config, load

STATUS = "status.json"


@dataclass(frozen=True)
class Job:
    """One job that is to run. `hours`: what it may take at most; `measured`: what runs like it took, if known."""

    rule: str
    gpus: int
    hours: float
    measured: float | None = None


def planned(arguments: Sequence[str]) -> list[Job]:
    """The jobs that Snakemake would run for these arguments. Exits as Snakemake does where it cannot plan.

    A plan reaches back to the first winner that is still to be chosen; what lies between it and the target comes to
    light when it is known. So what the target builds on is asked for as well.
    """
    from snakemake.cli import parse_args

    parser, options = parse_args(["--dry-run", *arguments])
    infos = dry_run(options, parser)
    config = config_of(options)
    earlier = [paths.winner(config.results, name) for name in built_on(infos, config.experiments)]
    if missing := [winner for winner in earlier if winner not in options.targets]:
        options.targets = [*(options.targets or ["all"]), *missing]
        infos = dry_run(options, parser)
    return [job_of(info.rule_name, info.resources, info.wildcards, info.output) for info in infos]


def dry_run(options: Namespace, parser: ArgumentParser) -> list[logging.LogRecord]:
    """What Snakemake tells of each job of a dry run: a record with rule_name, resources, wildcards and output."""
    from snakemake.cli import args_to_api, print_exception
    from snakemake.logging import logger

    infos: list[logging.LogRecord] = []

    def listen(record: logging.LogRecord) -> bool:
        if getattr(record, "event", None) == LogEvent.JOB_INFO:
            infos.append(record)
        return record.levelno >= logging.WARNING  # all that is printed

    logger.addFilter(listen)
    try:
        if not args_to_api(options, parser):
            raise SystemExit(1)
    except Exception as error:
        print_exception(error)
        raise SystemExit(1) from None
    finally:
        logger.removeFilter(listen)
    return infos


def config_of(options: Namespace) -> Config:
    """The config that the Snakefile reads for these options."""
    from snakemake.cli import parse_config
    from snakemake.common.configfile import load_configfile
    from snakemake.utils import update_config

    merged: dict[str, Any] = {}
    for file in options.configfile or ["config.yaml"]:
        update_config(merged, load_configfile(file))
    update_config(merged, parse_config(options.config))
    return load(merged)


def built_on(infos: Sequence[logging.LogRecord], experiments: Experiments) -> list[str]:
    """The experiments whose winners the planned jobs need, directly or not; summaries need those they show as well."""
    needed: dict[str, None] = {}
    for info in infos:
        name = info.wildcards.get("experiment")
        if name is not None:
            shown = experiments[name].compare_with if info.rule_name == "experiment" else ()
            for source in (*shown, name):
                needed |= dict.fromkeys(lineage(source, experiments))
            needed |= dict.fromkeys(shown)
    return list(needed)


def job_of(rule: str, resources: Any, wildcards: dict[str, str], outputs: Sequence[str]) -> Job:
    gpus, minutes = resources.get("gpu") or 0, resources.get("runtime")
    if gpus and minutes is None:
        raise SystemExit(f"error: rule {rule} asks for GPUs without a runtime; give it one in its resources")
    status = next((Path(path) for path in outputs if Path(path).name == STATUS), None)
    measured = seconds_like(rule, wildcards.get("experiment", ""), status) if gpus and status else None
    return Job(rule, gpus, (minutes or 0) / 60, None if measured is None else measured / 3600)


def seconds_like(rule: str, experiment: str, status: Path) -> float | None:
    """Mean seconds of finished runs, on GPUs, of the same experiment, or else of the same rule; None without any."""
    runs = next((folder for folder in status.parents if folder.name == "runs"), None)
    if runs is None:
        return None
    is_round = status.parent.name.startswith("round_")
    for folder in (runs / experiment, runs):
        found = [read(path) for path in folder.rglob(STATUS) if path.parent.name.startswith("round_") == is_round]
        told = [one["seconds"] for one in found if one.get("gpus") and (folder != runs or one["stage"] == rule)]
        if told:
            return sum(told) / len(told)
    return None


def read(status: Path) -> dict[str, Any]:
    """A run's status, and its stage from the specification beside it; {} where one cannot be read."""
    try:
        stage = json.loads((status.parent / "spec.json").read_text(encoding="utf-8"))["stage"]
        return {**json.loads(status.read_text(encoding="utf-8")), "stage": stage}
    except (OSError, ValueError, KeyError):
        return {}


def table(jobs: Sequence[Job]) -> Table:
    """One row per rule and number of GPUs, and the total."""
    shown = Table(title="Planned GPU-hours")
    for name in ("rule", "jobs", "GPUs each", "at most, each", "GPU-hours at most", "expected"):
        shown.add_column(name, justify="left" if name == "rule" else "right")
    kinds = dict.fromkeys((job.rule, job.gpus, job.hours) for job in jobs if job.gpus)
    for rule, gpus, hours in kinds:
        alike = [job for job in jobs if (job.rule, job.gpus, job.hours) == (rule, gpus, hours)]
        shown.add_row(rule, str(len(alike)), str(gpus), f"{number(hours)} h", bound(alike), expected(alike))
    shown.add_section()
    asking = [job for job in jobs if job.gpus]
    shown.add_row("total", str(len(asking)), "", "", bound(asking), expected(asking))
    return shown


def bound(jobs: Sequence[Job]) -> str:
    return number(sum(job.gpus * job.hours for job in jobs))


def expected(jobs: Sequence[Job]) -> str:
    """The estimate, and for how many of the jobs there is one if not for all."""
    known = [job for job in jobs if job.measured is not None]
    if not known:
        return "–"
    said = number(sum(job.gpus * job.measured for job in known))
    return said if len(known) == len(jobs) else f"{said} for {len(known)} of {len(jobs)}"


def number(hours: float) -> str:
    from stages.reporting.hours import number  # brings pyarrow along, which planning does without

    return number(hours)


def main(arguments: Sequence[str]) -> None:
    if {"-h", "--help"} & set(arguments):
        print(__doc__.strip())
        return
    jobs = planned(arguments)
    console = Console()
    console.print(table(jobs))
    console.print(remark(jobs), soft_wrap=True)


def remark(jobs: Sequence[Job]) -> str:
    if not jobs:
        return "Nothing is left to run."
    others = sum(not job.gpus for job in jobs)
    return f"{others} more jobs need no GPU. A job that exceeds its runtime is stopped and goes on in its next attempt."


if __name__ == "__main__":
    main(sys.argv[1:])
