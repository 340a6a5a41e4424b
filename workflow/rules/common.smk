# What all rules share: the checked config with its run table, path patterns, wildcard constraints, input functions.
import json
import re
import shlex
import shutil
import sys
from pathlib import Path

from snakemake.logging import logger
from snakemake.settings.enums import RerunTrigger
from snakemake_interface_common.exceptions import WorkflowError

from stages import hardware
from stages.strict import read_spec
from workflow import experiments, pages, paths, preset, snapshot, specs
from workflow.datasets import BASE, absent
from workflow.schema import load

CONFIG = load(config)
preset.check(CONFIG)
CODE = Path(workflow.basedir)
if workflow.is_main_process:  # the processes that it starts for single jobs read the frozen files already
    CODE = snapshot.freeze_code(CODE)
    snapshot.hand_over(workflow, CODE, snapshot.freeze_config(config))
# Every stage runs with the interpreter of this workflow, on the frozen code. Snakemake itself sets OMP_NUM_THREADS,
# MKL_NUM_THREADS and their like to the threads of the job: more threads than cores would slow a job tenfold. A thread
# that waits gives its core away (PASSIVE), or a job of two threads is four times slower beside any other busy process.
PYTHON = (
    f"OMP_WAIT_POLICY=PASSIVE PYTHONUNBUFFERED=1 PYTHONPATH={shlex.quote(str(CODE))}"
    f" {shlex.quote(sys.executable)} -P"
)
# Training stages of several processes start under torchrun, one per GPU of one node; docs/processes.md tells of several
# nodes. They share the threads of the job. PYTHONSAFEPATH is what -P is to the processes that torchrun starts: none of
# them looks for code where it stands.
PROCESSES = CONFIG.compute.train_processes
TRAIN = (
    PYTHON
    if PROCESSES == 1
    else f"each=$((OMP_NUM_THREADS > {PROCESSES} ? OMP_NUM_THREADS / {PROCESSES} : 1));"
    f" OMP_NUM_THREADS=$each MKL_NUM_THREADS=$each PYTHONSAFEPATH=1 {PYTHON}"
    f" -m torch.distributed.run --standalone --nproc-per-node {PROCESSES}"
)

TRAINING_GPUS = hardware.training_gpus(CONFIG.compute)
SAMPLING_GPUS = hardware.sampling_gpus(CONFIG.compute)
RESULTS = CONFIG.results
BASE_MODEL = paths.base_model(RESULTS)
DATASET = paths.dataset(RESULTS, "{dataset}")
EVALUATION = paths.evaluation(RESULTS, "{evaluation}")
JUDGEMENT = paths.judgement(RESULTS, "{judge}", "{evaluation}")
RUN = paths.run(RESULTS, "{experiment}", "{run}")
ROUND = paths.round_folder(RUN, "{round}")
WINNER = paths.winner(RESULTS, "{experiment}")
TOLD = set()  # of what is missing, said once each
SUMMARY = paths.summary(RESULTS, "{experiment}")


def one_of(names):
    """Pattern that matches these names alone, and nothing if there are none."""
    return "|".join(map(re.escape, names)) or "(?!)"


def experiments_of(stage):
    return one_of(name for name, experiment in CONFIG.experiments.items() if experiment.stage == stage)


wildcard_constraints:
    dataset=one_of(CONFIG.data),
    evaluation=one_of(CONFIG.evaluations),
    judge=one_of(CONFIG.judges),
    experiment=one_of(CONFIG.experiments),
    run=r"(?:[^/]+=[^/]+/)*seed=\d+",
    round=r"[1-9]\d*",


def spec_of(build, wildcards):
    return specs.with_code(build(CONFIG, **dict(wildcards.items())), CODE)


def spec_text(build):
    """Parameter function: the specification as text, so that any change of it runs the job again."""
    return lambda wildcards: json.dumps(spec_of(build, wildcards), sort_keys=True)


def refuse_missing_slurm():
    """Before anything is claimed or submitted: Snakemake would try every job, and remove what its last one had made."""
    if workflow.executor_plugin.name == "slurm" and shutil.which("sbatch") is None:
        raise WorkflowError(
            "profile slurm: there is no sbatch here; run it where Slurm's commands are (a login node), or leave --profile "
            "out and give --cores to run on this machine"
        )


def spec_file(path, build):
    """Input function: the specification file of a job, brought up to date when jobs are about to run.

    A dry run writes nothing under results/: it leaves a file that is missing or out of date out of the inputs, which
    lists the job as one to run.
    """

    def file(wildcards):
        target, spec = path.format(**dict(wildcards.items())), spec_of(build, wildcards)
        # With `--rerun-triggers mtime input` code edits are ignored: the file goes on naming the code of its outputs.
        ignore_code = RerunTrigger.PARAMS not in workflow.rerun_triggers
        if specs.is_current(target, spec, ignore_code):
            return target
        if not workflow.is_main_process:
            raise specs.planned_anew(target)
        if workflow.executor_plugin is None or workflow.dryrun:
            return []
        refuse_missing_slurm()
        preset.claim(CONFIG)
        specs.write_if_changed(target, spec)
        # Snakemake lists a folder once and takes what appears in it later for missing: tell it of the new file.
        workflow.iocache.exists_local[target] = True
        return target

    return file


def own(key, path):
    """Input: a file or folder of the user's. One that is missing is told of in any case; a dry run plans without it,
    for any other Snakemake then refuses what would read it."""
    told = absent(key, path)
    if told is not None and told not in TOLD:
        TOLD.add(told)
        logger.warning(f"{told}; put it there, or name another, before you run what reads it")
    planning = workflow.executor_plugin is None or workflow.dryrun
    return [] if told is not None and planning else path


def dataset_of(key):
    """Input function: the dataset that a run names under `key`."""
    return lambda w: paths.dataset(RESULTS, specs.training(CONFIG, w.experiment, w.run)["values"][key])


def inherited_from(wildcards):
    return sorted(set(CONFIG.experiments[wildcards.experiment].inherit.values()))


def started_from(wildcards):
    """The experiments whose winners a run, or any run of an experiment, starts from."""
    run = wildcards.get("run")
    if run is None:
        return CONFIG.experiments[wildcards.experiment].starts()
    start = specs.start_of(CONFIG, wildcards.experiment, run)
    return [] if start is None else [start]


def winners(wildcards):
    """Input function: winners files of the experiments that this one builds on, known once those are finished."""
    return chosen(sorted({*inherited_from(wildcards), *started_from(wildcards)}))


def policy(name):
    """The base policy, or the winner's of an experiment, for an input function."""
    if name == BASE:
        return BASE_MODEL
    (winner,) = chosen([name])
    run = read_spec(Path(winner))["run"]
    if run not in CONFIG.runs[name]:  # the winner of an earlier config: it is chosen anew, and this then planned anew
        run = next(iter(CONFIG.runs[name]))
    return f"{paths.run(RESULTS, name, run)}/model"


def starting_policy(wildcards):
    """Input function: the policy that a run starts from."""
    return policy(specs.start_of(CONFIG, wildcards.experiment, wildcards.run) or BASE)


def chosen(names):
    """Winners files of experiments, for an input function.

    Snakemake plans a job anew after the one checkpoint that it was told to wait for. So the earliest is asked for
    first: told to wait for a later one, which need not run where the earlier winner stays as it was, the job would run
    on the plan that it would run.
    """
    for name in names:
        for earlier in experiments.lineage(name, CONFIG.experiments):
            checkpoints.select.get(experiment=earlier)
    return [checkpoints.select.get(experiment=name).output[0] for name in names]


def winner_options(wildcards):
    return [part for source in inherited_from(wildcards) for part in ("--winners", paths.winner(RESULTS, source))]


def run_folders(wildcards):
    return [paths.run(RESULTS, wildcards.experiment, run) for run in CONFIG.runs[wildcards.experiment]]


def run_files(*names):
    """Input function: these files of every run of an experiment."""
    return lambda wildcards: [f"{folder}/{name}" for folder in run_folders(wildcards) for name in names]
