"""What counts as a change of a stage's code."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest
from snakemake_interface_common.exceptions import WorkflowError

from workflow import fingerprint as module
from workflow.fingerprint import fingerprint, modules

ROOT = Path(__file__).parents[2]
FILES = {
    "stages/__init__.py": "",
    "stages/train.py": '''
        """Train."""
        import torch
        from stages.losses import loss
        def main():
            """Lazy imports count too."""
            from stages.tasks.prompts import load
        ''',
    "stages/losses.py": "def loss(x):\n    return -x\n",
    "stages/other.py": "from . import losses as renamed\n",
    "stages/tasks/__init__.py": "from .prompts import load\n",
    "stages/tasks/prompts.py": "def load(): ...\n",
    "stages/tasks/prompts/plain.prompt": "{question}",
    "stages/room/thing.py": "X = 1\n",
}


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(textwrap.dedent(text))
    return tmp_path


def of(tree: Path, entry: str = "stages.train") -> str:
    """The fingerprint as a new planner would compute it."""
    for cached in (module.fingerprint, module._tree, module._content):
        cached.cache_clear()
    return fingerprint(tree, entry)


def test_modules_follow_every_kind_of_import(tree: Path):
    assert modules(tree, "stages.train") == [
        "stages",
        "stages.losses",
        "stages.tasks",
        "stages.tasks.prompts",
        "stages.train",
    ]
    assert modules(tree, "stages.other") == ["stages", "stages.losses", "stages.other"]


def test_the_name_says_which_stage(tree: Path):
    name, _, digest = of(tree).partition("@")
    assert name == "stages.train"
    assert len(digest) == 16


@pytest.mark.parametrize(
    ("file", "old", "new"),
    [
        ("stages/train.py", "import torch\n", "import torch  # fast\n\n\n"),
        ("stages/train.py", '"""Train."""', '"""Train, at length."""'),
        ("stages/train.py", '"""Lazy imports count too."""', '"""So it says."""'),
        ("stages/losses.py", "return -x", "return (\n        -x\n    )"),
        ("stages/room/thing.py", "1", "2"),
        ("stages/other.py", "losses", "train"),
    ],
)
def test_what_changes_nothing(tree: Path, file: str, old: str, new: str):
    before = of(tree)
    assert old in (tree / file).read_text()
    (tree / file).write_text((tree / file).read_text().replace(old, new))
    assert of(tree) == before


@pytest.mark.parametrize(
    ("file", "old", "new"),
    [
        ("stages/losses.py", "-x", "+x"),
        ("stages/losses.py", "loss(x)", "loss(x, y=None)"),
        ("stages/tasks/prompts.py", "...", "return 1"),
        ("stages/tasks/__init__.py", "load", "load as read"),
        ("stages/tasks/prompts/plain.prompt", "question", "Question"),
        ("stages/__init__.py", "", "VERSION = 1"),
    ],
)
def test_what_changes_it(tree: Path, file: str, old: str, new: str):
    before = of(tree)
    (tree / file).write_text((tree / file).read_text().replace(old, new))
    assert of(tree) != before


def test_a_new_prompt_changes_it_a_readme_or_byte_code_does_not(tree: Path):
    before = of(tree)
    (tree / "stages/tasks/prompts/README.md").write_text("about")
    (tree / "stages/tasks/__pycache__").mkdir()
    (tree / "stages/tasks/__pycache__/prompts.pyc").write_bytes(b"x")
    assert of(tree) == before
    (tree / "stages/tasks/prompts/new.prompt").write_text("{question}?")
    assert of(tree) != before


def test_a_missing_program_is_named(tree: Path):
    with pytest.raises(WorkflowError, match=r"no program stages/trane\.py"):
        of(tree, "stages.trane")


def test_grpo_and_sft_meet_only_in_shared_code():
    """The promise of the workflow: programs and losses are apart, so an edit of one leaves the other alone."""
    sft, grpo = set(modules(ROOT, "stages.sft")), set(modules(ROOT, "stages.grpo"))
    assert {"stages.sft", "stages.algorithm.sft"} <= sft - grpo
    assert {"stages.grpo", "stages.algorithm.policy_gradient"} <= grpo - sft
    assert "stages.tasks.prompts" in sft & grpo
