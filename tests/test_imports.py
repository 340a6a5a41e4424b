"""Who may import whom, read off the code."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
STAGES = ROOT / "stages"
ROOMS = sorted(path.parent.name for path in STAGES.glob("*/__init__.py"))
FILES = sorted(STAGES.rglob("*.py"))


def imported(path: Path) -> set[str]:
    """Every module a file imports, lazily or not, as dotted names."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            found |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def top(names: set[str]) -> set[str]:
    return {name.split(".")[0] for name in names}


def is_program(path: Path) -> bool:
    return path.parent == STAGES and 'if __name__ == "__main__"' in path.read_text()


PROGRAMS = {path.stem for path in FILES if is_program(path)}


def test_there_are_programs_and_rooms():
    assert {"prepare", "sample", "grade", "sft", "grpo", "report"} <= PROGRAMS
    assert {"algorithm", "policy", "engines", "tasks", "grading"} <= set(ROOMS)


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_nobody_imports_a_program(path):
    programs = {f"stages.{name}" for name in PROGRAMS}
    assert not {name for name in imported(path) if name in programs or name.rpartition(".")[0] in programs}


@pytest.mark.parametrize("path", sorted((STAGES / "algorithm").glob("*.py")), ids=lambda path: path.name)
def test_the_algorithm_room_imports_torch_alone(path):
    foreign = {name for name in imported(path) if not name.startswith(("stages.algorithm", "torch"))}
    standard = {"__future__", "collections", "dataclasses", "functools", "itertools", "math", "typing"}
    assert top(foreign) <= standard | {"stages"}
    assert "stages" not in top(foreign)


def test_vllm_and_wandb_each_have_one_door():
    for package, door in (("vllm", "engines/vllm.py"), ("wandb", "wandb_log.py")):
        users = {str(path.relative_to(STAGES)) for path in FILES if package in top(imported(path))}
        assert users <= {door}


FORBIDDEN_CALLS = {"eval", "exec", "compile", "sympify", "parse_expr", "__import__"}
FORBIDDEN_MODULES = {"pickle", "marshal", "shelve", "dill", "cloudpickle", "joblib"}


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_nothing_can_run_what_a_model_wrote(path):
    assert not top(imported(path)) & FORBIDDEN_MODULES
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call):
            name = node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")
            plain = isinstance(node.func, ast.Name) or name in ("sympify", "parse_expr")
            assert not (plain and name in FORBIDDEN_CALLS), f"{path}:{node.lineno} calls {name}"
            for keyword in node.keywords:
                constant = keyword.value.value if isinstance(keyword.value, ast.Constant) else None
                assert not (keyword.arg in ("shell", "trust_remote_code") and constant is True), f"{path}:{node.lineno}"


def closure(start: set[Path]) -> set[str]:
    """All modules a set of files reaches by imports at module level, first-party ones followed."""
    found: set[str] = set()
    queue = list(start)
    while queue:
        for node in ast.parse(queue.pop().read_text()).body:
            names: set[str] = set()
            if isinstance(node, ast.Import):
                names = {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                names = {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
            for name in names - found:
                found.add(name)
                for base in (ROOT, ROOT / "workflow"):
                    path = base.joinpath(*name.split("."))
                    queue += [p for p in (path.with_suffix(".py"), path / "__init__.py") if p.is_file()]
    return found


def test_planning_imports_nothing_heavy():
    planning = set((ROOT / "workflow").glob("*.py"))
    assert not top(closure(planning)) & {"torch", "transformers", "sympy", "pandas", "matplotlib", "pyarrow"}


@pytest.mark.parametrize(
    "name", ["prepare", "curate", "grade", "select", "summarize", "report", "pass_rate", "survivors", "collect"]
)
def test_programs_that_need_no_torch_do_not_import_it(name):
    assert not top(closure({STAGES / f"{name}.py"})) & {"torch", "transformers"}
