"""The real Snakefile on a copy of the tree, where the four programs that need torch are played by `stand_in.py`."""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
HERE = Path(__file__).parent
NEED_TORCH = ("base_model", "sample", "sft", "grpo")


@dataclass(frozen=True)
class Tree:
    """A folder with the workflow in it."""

    folder: Path

    def __truediv__(self, path: str) -> Path:
        return self.folder / path

    def snakemake(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run Snakemake here, as its own process; stdout and stderr come together in `.stdout`."""
        inherited = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
        command = [sys.executable, "-m", "snakemake", *arguments]
        return subprocess.run(
            command, cwd=self.folder, env=inherited, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )

    def run(self, *targets: str) -> set[str]:
        """Run to the end; return the captions of the jobs that ran."""
        done = self.snakemake("--cores", "2", *targets)
        assert done.returncode == 0, done.stdout
        return captions(done.stdout)

    def plan(self, *arguments: str) -> set[str]:
        """The captions of the jobs that a dry run lists."""
        planned = self.snakemake("-n", *arguments)
        assert planned.returncode == 0, planned.stdout
        return captions(planned.stdout)

    def refusal(self, *arguments: str) -> str:
        """What a dry run prints that must fail."""
        refused = self.snakemake("-n", *arguments)
        assert refused.returncode != 0, refused.stdout
        return refused.stdout

    def edit(self, path: str, old: str, new: str) -> None:
        text = (self / path).read_text()
        assert old in text, f"{old!r} is not in {path}"
        (self / path).write_text(text.replace(old, new))


def captions(log: str) -> set[str]:
    return set(re.findall(r"^Job \d+: (.*?)\.?$", log, flags=re.MULTILINE))


def stand_in(program: str) -> str:
    """The stand-in, followed by the real program's imports in a function that nobody calls."""
    tree = ast.parse((ROOT / "stages" / f"{program}.py").read_text())
    imports = [node for node in ast.walk(tree) if isinstance(node, (ast.Import, ast.ImportFrom))]
    lines = [f"    {ast.unparse(node)}" for node in imports if getattr(node, "module", None) != "__future__"]
    text, start = (HERE / "stand_in.py").read_text(), 'if __name__ == "__main__":'
    return text.replace(start, "\n".join(["def imports_of_the_program():", *lines, "", "", start]))


def make(folder: Path) -> Tree:
    ignore = shutil.ignore_patterns("__pycache__")
    for name in ("stages", "workflow", "profiles"):
        shutil.copytree(ROOT / name, folder / name, ignore=ignore)
    shutil.copy(ROOT / "Snakefile", folder)
    shutil.copy(HERE / "config.yaml", folder)
    for program in NEED_TORCH:
        (folder / "stages" / f"{program}.py").write_text(stand_in(program))
    return Tree(folder)


@pytest.fixture
def fresh(tmp_path: Path) -> Tree:
    """A tree where nothing has run."""
    return make(tmp_path / "fresh")


@pytest.fixture(scope="session")
def once(tmp_path_factory: pytest.TempPathFactory) -> Tree:
    tree = make(tmp_path_factory.mktemp("workflow") / "finished")
    tree.run()
    return tree


@pytest.fixture
def finished(once: Tree, tmp_path: Path) -> Tree:
    """A tree where everything has run, for the test to edit."""
    shutil.copytree(once.folder, tmp_path / "finished")
    return Tree(tmp_path / "finished")
