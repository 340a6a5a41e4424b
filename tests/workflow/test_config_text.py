"""What a config file says wrong as a text: told with its line, before anything of it is used."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from snakemake_interface_common.exceptions import WorkflowError

from tests.workflow.conftest import ROOT, Tree
from workflow.config_text import check


def refusal(tmp_path: Path, content: bytes) -> list[str]:
    (tmp_path / "c.yaml").write_bytes(content)
    with pytest.raises(WorkflowError) as refused:
        check([tmp_path / "c.yaml"])
    return str(refused.value).replace(f"{tmp_path}/", "").splitlines()


TWICE = "stands in line 2 already, and this one would replace it; keep one of them"


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"a:\n  b: 1\n  c: 2\n  b: 3\n", f"c.yaml:4: b {TWICE}"),
        (b"x: 0\na: {b: 1}\na: {c: 1}\n", f"c.yaml:3: a {TWICE}"),
        (b"a:\n  - {b: 1,\n     b: 2}\n", f"c.yaml:3: b {TWICE}"),
        (b"a:\n  1: x\n  '1': y\n", f"c.yaml:3: 1 {TWICE}"),
        (b"a:\n  b: 1\n\tc: 2\n", "c.yaml:3: not YAML: while scanning for the next token, found character '\\t' that"),
        (b"a: {b: 1\n", "c.yaml:2: not YAML: while parsing a flow mapping, expected ',' or '}'"),
        (b"a:\n   b: 1\n  c: 2\n", "c.yaml:3: not YAML: "),
        ("a: 1\nb: Größe\n".encode("latin-1"), "c.yaml:2: not UTF-8; save the file as UTF-8"),
        ("a: 1\n".encode("utf-16"), "c.yaml:1: not UTF-8; save the file as UTF-8"),
        (b"a: \x00\n", "c.yaml:1: not YAML: "),
    ],
)
def test_a_fault_of_the_text_is_told_with_its_line(tmp_path: Path, content: bytes, says: str):
    (told,) = refusal(tmp_path, content)
    assert told.startswith(says)


def test_every_repeated_key_is_told_once_even_through_aliases(tmp_path: Path):
    told = refusal(tmp_path, b"a: &x\n  b: 1\n  b: 2\nc: *x\nd: *x\na: 3\n")
    assert [line.split(" ")[:2] for line in told] == [["c.yaml:3:", "b"], ["c.yaml:6:", "a"]]


@pytest.mark.parametrize("line_end", [b"\n", b"\r\n"])
@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
def test_ordinary_files_pass(tmp_path: Path, mark: bytes, line_end: bytes):
    text = b"a: &x {b: 1}\nc: {<<: *x, b: 2}\nd:\n  <<: *x\n  <<: {e: 1}\n"
    (tmp_path / "c.yaml").write_bytes(mark + text.replace(b"\n", line_end))
    (tmp_path / "empty.yaml").touch()
    check([tmp_path / "c.yaml", tmp_path / "empty.yaml", tmp_path / "absent.yaml"])


def test_the_shipped_configs_pass():
    check([*ROOT.glob("*.yaml"), *ROOT.glob("*/*.yaml"), *ROOT.glob("workflow/presets/*.yaml")])


def test_a_config_with_a_repeated_key_is_refused_by_either_way(fresh: Tree):
    fresh.edit("config.yaml", "experiments:\n", "preset: again\nexperiments:\n")
    for arguments in ((), ("--configfile", "config.yaml")):
        assert "preset stands in line" in fresh.refusal(*arguments)


def test_a_preset_that_is_no_yaml_is_told_with_its_line(tmp_path: Path):
    """By the command for it: Snakemake reads --configfile before anything here runs."""
    (tmp_path / "c.yaml").write_text("preset: x\nexperiments:\n  a: [1\n")
    told = subprocess.run(
        [sys.executable, "-m", "workflow.config_text", tmp_path / "c.yaml"], cwd=ROOT, capture_output=True, text=True
    )
    assert (told.returncode, told.stdout) == (1, "")
    assert told.stderr.startswith(f"error: {tmp_path}/c.yaml:4: not YAML: ")
