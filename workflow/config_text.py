"""A config file as text: what is lost once it is read. Where it is no YAML, and which key stands in it twice.

    python -m workflow.config_text workflow/presets/math_1.5b.yaml

Snakemake reads a file of `--configfile` before the Snakefile, and says of one that is no YAML only that it is none.
This names the line.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import yaml
from snakemake_interface_common.exceptions import WorkflowError


def check(files: Iterable[Path]) -> None:
    """Raise WorkflowError naming file and line. YAML would let the later of two equal keys win without a word.

    A file that is not there is left to Snakemake, as is JSON.
    """
    for file in map(Path, files):
        if file.is_file() and file.suffix != ".json":
            faults = [f"{file}:{line}: {fault}" for line, fault in _faults(file.read_bytes())]
            if faults:
                raise WorkflowError("\n".join(faults))


def _faults(content: bytes) -> Iterator[tuple[int, str]]:
    """(line, what is wrong there)"""
    try:
        root = yaml.compose(content.decode("utf-8-sig"), Loader=yaml.SafeLoader)
    except UnicodeDecodeError as error:
        yield content[: error.start].count(b"\n") + 1, "not UTF-8; save the file as UTF-8"
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        hint = "; indent with spaces, never with tabs" if "\\t" in (error.problem or "") else ""
        yield mark.line + 1 if mark else 1, f"not YAML: {', '.join(filter(None, (error.context, error.problem)))}{hint}"
    except yaml.YAMLError as error:
        yield 1, f"not YAML: {str(error).splitlines()[0]}"
    else:
        yield from _repeated(root, set()) if root is not None else ()


def _repeated(node: yaml.Node, seen: set[int]) -> Iterator[tuple[int, str]]:
    """Keys that stand twice in one mapping; several merges (`<<`) may. An aliased node is looked at once."""
    if id(node) in seen or isinstance(node, yaml.ScalarNode):
        return
    seen.add(id(node))
    if isinstance(node, yaml.SequenceNode):
        for item in node.value:
            yield from _repeated(item, seen)
        return
    first: dict[str, int] = {}
    for key, value in node.value:
        line, name = key.start_mark.line + 1, str(key.value)
        if first.setdefault(name, line) != line and name != "<<":
            yield line, f"{name} stands in line {first[name]} already, and this one would replace it; keep one of them"
        yield from _repeated(value, seen)


if __name__ == "__main__":
    try:
        check(map(Path, sys.argv[1:]))
    except WorkflowError as error:
        sys.exit(f"error: {error}")
