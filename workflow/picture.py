"""Redraw the graph of the rules in README.md, between its two `dag` markers, as the workflow itself states it."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
READERS = {"experiment", "report", "ladder"}  # they read what all others made: their arrows would hide the rest
BLOCK = re.compile(r"(<!-- dag -->\n).*?(<!-- /dag -->)", flags=re.DOTALL)


def graph() -> str:
    """The rules that `snakemake ladder` runs, without READERS, as a Mermaid block: sorted, and without colours."""
    command = [sys.executable, "-m", "snakemake", "--rulegraph", "mermaid-js", "ladder"]
    printed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    names = dict(re.findall(r"(id\d+)\[(\w+)\]", printed))
    arrows = {(names[before], names[after]) for before, after in re.findall(r"(id\d+) --> (id\d+)", printed)}
    shown = {arrow for arrow in arrows if not READERS & set(arrow)}
    return "\n".join(["```mermaid", "flowchart LR", *(f"    {a} --> {b}" for a, b in sorted(shown)), "```"])


def redrawn(readme: str) -> str:
    if not BLOCK.search(readme):
        raise ValueError("README.md has no <!-- dag --> … <!-- /dag --> block to draw in")
    return BLOCK.sub(lambda block: f"{block[1]}{graph()}\n{block[2]}", readme)


if __name__ == "__main__":
    path = ROOT / "README.md"
    path.write_text(redrawn(path.read_text(encoding="utf-8")), encoding="utf-8")
