"""Freeze a plan: a job that waits in a queue for hours runs the workflow, code and config that it was planned with.

Snakemake starts a job as another Snakemake, on the node, which reads the Snakefile and the config again. `hand_over`
gives it copies that nobody edits. What the job computes from is then a matter of its own command line alone.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import time
from pathlib import Path
from typing import Any

from snakemake.sourcecache import LocalSourceFile
from snakemake_interface_common.exceptions import WorkflowError

from stages.store import write_text

STORE = Path(".snakemake/code")
PARTS = ("Snakefile", "workflow", "stages")
KEEP_DAYS = 14  # longer than any job waits and runs


def freeze_code(root: Path, store: Path = STORE) -> Path:
    """Copy the workflow and the stages under `root` into a folder of `store` named after their content; return it."""
    contents = {file.relative_to(root): file.read_bytes() for part in PARTS for file in _files(root / part)}
    digest = hashlib.sha256()
    for file, data in contents.items():
        digest.update(f"{file}\0{len(data)}\0".encode() + data)
    target = (store / digest.hexdigest()[:16]).resolve()
    if not target.exists():
        _fill(target, contents)
    os.utime(target)  # its age is the time since its last use
    _remove_old(store)
    return target


def freeze_config(config: dict[str, Any], store: Path = STORE) -> Path:
    """Write the config, as Snakemake put it together from files and options, to a file named after its content."""
    text = json.dumps(config, indent=1)
    target = (store / f"{hashlib.sha256(text.encode()).hexdigest()[:16]}.json").resolve()
    if not target.exists():
        write_text(target, text)
    os.utime(target)
    return target


def hand_over(workflow: Any, code: Path, config: Path) -> None:
    """Let the jobs of this Snakemake workflow read the frozen Snakefile and config.

    Executors ask the workflow for its main Snakefile, which is the first that it included: there is no setting for it.
    """
    snakefile = str(code / "Snakefile")
    workflow._included[snakefile] = LocalSourceFile(snakefile)
    workflow._included.move_to_end(snakefile, last=False)
    workflow.config_settings.configfiles = [config]
    if workflow.main_snakefile != snakefile or workflow.overwrite_configfiles != [config]:
        raise WorkflowError("this version of Snakemake lets no job read a frozen workflow; install the pinned one")


def _files(part: Path) -> list[Path]:
    """Sources and data files alike (prompts, templates); neither byte code nor an editor's hidden files."""
    if part.is_file():
        return [part]
    inside = (path for path in part.rglob("*") if path.is_file())
    hidden = (".", "__pycache__")
    return sorted(path for path in inside if not any(p.startswith(hidden) for p in path.relative_to(part).parts))


def _fill(target: Path, contents: dict[Path, bytes]) -> None:
    """Write the files under a temporary name, then rename: two planners at once each find a whole folder."""
    temporary = target.with_name(f".{target.name}.{os.getpid()}")
    for path, data in contents.items():
        (temporary / path).parent.mkdir(parents=True, exist_ok=True)
        (temporary / path).write_bytes(data)
    try:
        os.rename(temporary, target)
    except OSError:
        shutil.rmtree(temporary)
        if not target.exists():
            raise


def _remove_old(store: Path) -> None:
    oldest = time.time() - KEEP_DAYS * 86400
    for path in store.iterdir():
        if re.fullmatch(r"[0-9a-f]{16}(\.json)?|\.[0-9a-f]{16}\.\d+", path.name) and path.stat().st_mtime < oldest:
            shutil.rmtree(path, ignore_errors=True) if path.is_dir() else path.unlink(missing_ok=True)
