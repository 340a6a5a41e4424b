"""A short name for the code that a stage runs, so that an edit re-runs what it touches and nothing else.

The fingerprint of `stages.grpo` covers that module, every first-party module it imports (directly or not, imports
inside functions included) and the data files of those modules. Comments, docstrings and layout are left out: they
change nothing.
"""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from snakemake_interface_common.exceptions import WorkflowError

PACKAGE = "stages"
_WITH_DOCSTRING = (ast.Module, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


@cache
def fingerprint(root: Path, module: str) -> str:
    """`module@<16 hex digits>`, from the sources under `root` (the folder that holds the package)."""
    if _source(root, module) is None:
        raise WorkflowError(f"there is no program {module.replace('.', '/')}.py")
    lines = [f"{name} {_content(root, name)}\n" for name in modules(root, module)]
    return f"{module}@{hashlib.sha256(''.join(lines).encode()).hexdigest()[:16]}"


def modules(root: Path, entry: str) -> list[str]:
    """Names of the first-party modules that run when `entry` is imported, sorted, `entry` among them."""
    found: set[str] = set()
    queue = [entry]
    while queue:
        name = queue.pop()
        if name in found or name.split(".")[0] != PACKAGE or _source(root, name) is None:
            continue
        found.add(name)
        parent = name.rpartition(".")[0]  # its __init__.py runs as well
        queue += [parent, *_imports(root, name)]
    return sorted(found)


@cache
def _content(root: Path, module: str) -> str:
    """Hash of one module: its meaning, and the bytes of its data files."""
    digest = hashlib.sha256(_canonical(_tree(root, module)).encode())
    for file in _data_files(root.joinpath(*module.split("."))):
        digest.update(f"\0{file.relative_to(root)}\0".encode() + file.read_bytes())
    return digest.hexdigest()


def _data_files(folder: Path) -> list[Path]:
    """Files that are not Python in the folder named like a module (`tasks/prompts/` belongs to `tasks.prompts`).

    A sub-folder that is a module of its own answers for its files itself.
    """
    if not folder.is_dir():
        return []
    files = []
    for path in sorted(folder.iterdir()):
        if path.name.startswith((".", "__pycache__", "README")):
            continue
        if path.is_dir():
            is_module = (path / "__init__.py").exists() or path.with_suffix(".py").exists()
            files += [] if is_module else _data_files(path)
        elif path.suffix not in (".py", ".pyc"):
            files.append(path)
    return files


def _source(root: Path, module: str) -> Path | None:
    """The file of a module, None for a name that is no module (a function, say) or a folder without `__init__.py`."""
    base = root.joinpath(*module.split("."))
    candidates = (base / "__init__.py", base.with_suffix(".py"))
    return next((path for path in candidates if path.is_file()), None)


@cache
def _tree(root: Path, module: str) -> ast.Module:
    path = _source(root, module)
    try:
        return ast.parse(path.read_text(encoding="utf-8"))
    except SyntaxError as error:
        shown = path.relative_to(root)
        raise WorkflowError(f"{shown}, line {error.lineno}: {error.msg}; correct it and run again") from None


def _imports(root: Path, module: str) -> Iterator[str]:
    """Every name that a module imports, as absolute dotted names; `from a import b` gives both `a` and `a.b`."""
    package = module.split(".")
    if _source(root, module).name != "__init__.py":
        package = package[:-1]
    for node in ast.walk(_tree(root, module)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else []
            base = ".".join(above + ([node.module] if node.module else []))
            yield base
            yield from (f"{base}.{alias.name}" for alias in node.names)


def _canonical(node: object) -> str:
    """A syntax tree as text: no positions, docstrings or empty fields, hence the same in every Python version."""
    if isinstance(node, list):
        return "[" + ",".join(map(_canonical, node)) + "]"
    if not isinstance(node, ast.AST):
        return repr(node)
    fields = []
    for key, value in ast.iter_fields(node):
        if key == "body" and isinstance(node, _WITH_DOCSTRING) and ast.get_docstring(node, clean=False) is not None:
            value = value[1:]
        if value is None or value == [] or key in ("kind", "type_comment"):
            continue
        fields.append(f"{key}={_canonical(value)}")
    return f"{type(node).__name__}({','.join(fields)})"
