"""A real Slurm of one node, and the real workflow on a copy of the tree. `make test-slurm` runs this folder."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
HERE = Path(__file__).parent
# Cores that are there, and seconds between looks at the queue: this node is small and its jobs are short.
SMALL = ("--set-threads", "grpo=1", "sample=1", "base_model=1", "--slurm-init-seconds-before-status-checks", "2")


def wait_for(found: Callable[[], object], what: str):
    """What `found` returns, as soon as that is something; fail after two minutes."""
    for _ in range(1200):
        if value := found():
            return value
        time.sleep(0.1)
    raise AssertionError(f"waited in vain for {what}")


def slurm(*command: str) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def jobs(of: str) -> list[dict[str, str]]:
    """The Slurm jobs, first to last, whose rule and wildcards begin like this; keys as `scontrol show job` has them."""
    listed = [
        dict(re.findall(r"([\w/:]+)=(\S*)", line)) for line in slurm("scontrol", "-o", "show", "job").splitlines()
    ]
    return [job for job in listed if job.get("Comment", "").startswith(of)]


def accept_jobs(state: str) -> None:
    """UP: queued jobs start. DOWN: they wait."""
    slurm("scontrol", "update", "PartitionName=gpu", f"State={state}")


@dataclass(frozen=True)
class Tree:
    """A folder with the workflow in it."""

    folder: Path

    def __truediv__(self, path: str) -> Path:
        return self.folder / path

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        """Snakemake with the Slurm profile, in the background; what it says lies in snakemake.log."""
        command = [
            sys.executable,
            "-m",
            "snakemake",
            "--profile",
            "slurm",
            *SMALL,
            "--configfile=config.yaml",
            *arguments,
        ]
        variables = {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "OMP_NUM_THREADS")}
        with open(self / "snakemake.log", "w") as log:
            return subprocess.Popen(command, cwd=self.folder, env=variables, text=True, stdout=log, stderr=log)

    def run(self, *arguments: str) -> int:
        return self.start(*arguments).wait()

    def said(self) -> str:
        return (self / "snakemake.log").read_text()


@pytest.fixture(scope="session")
def cluster() -> Iterator[None]:
    script = str(HERE / "cluster.sh")
    subprocess.run([script, "up"], check=True)
    try:
        yield
    finally:
        slurm("scancel", "--user", str(os.getuid()))
        try:  # Slurm kills a job that does not end by itself, but only as long as it runs itself
            wait_for(lambda: not slurm("squeue", "--noheader"), "the queue to be empty")
        finally:
            subprocess.run([script, "down"], check=True)


@pytest.fixture(scope="session")
def make_tree(cluster: None, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Tree]:
    def make(name: str) -> Tree:
        folder = tmp_path_factory.mktemp("slurm") / name
        for part in ("stages", "workflow", "profiles"):
            shutil.copytree(ROOT / part, folder / part, ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copy(ROOT / "Snakefile", folder)
        shutil.copy(HERE / "config.yaml", folder)
        (folder / "slurm").symlink_to("profiles/slurm")
        return Tree(folder)

    return make
