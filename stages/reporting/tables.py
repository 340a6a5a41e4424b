"""Tables of an experiment and of the whole ladder, as rows; and rows as CSV and Markdown."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from stages.reporting import wording
from stages.reporting.runs import METRIC, Configuration, Run, column, final, mean, measured

# Column of table.csv -> heading where people read it. Swept keys come before these.
MEASURED = {
    "steps": "steps",
    "seconds": "seconds",
    "start_answer_reward": "reward before",
    "final_answer_reward": "final reward",
    "best_answer_reward": "best reward",
    "best_step": "best at step",
    "final_format_reward": "final format",
    "token_entropy": "entropy (nats)",
    "gradient_norm": "gradient norm",
    "length": "length",
    "length_correct": "length, correct",
    "length_incorrect": "length, incorrect",
}
AGGREGATES = {"mean": mean, "min": min, "max": max}


def run_row(run: Run, keys: Iterable[str]) -> dict[str, Any]:
    """One run in numbers. `final_*` and unmarked columns are means of the last three rows that have the value:
    rewards are of validation; entropy, gradient norm and lengths of training where it has them, else of validation."""
    validated = [row for row in run.validation if measured(row.get(METRIC))]
    best = max(validated, key=lambda row: (row[METRIC], -row["step"]), default={})
    row = {key: run.values.get(key) for key in keys}
    row |= {"seed": run.seed, "status": run.status, "reason": run.reason, "steps": run.steps, "seconds": run.seconds}
    row |= {"start_answer_reward": run.start, "final_answer_reward": run.score}
    row |= {"best_answer_reward": best.get(METRIC), "best_step": best.get("step")}
    row |= {"final_format_reward": final(run.validation, "format_reward")}
    for name in ("token_entropy", "gradient_norm", "length", "length_correct", "length_incorrect"):
        row[name] = final(run.train if column(run.train, name) else run.validation, name)
    return row | {"path": run.path}


def run_rows(order: Sequence[Configuration]) -> list[dict[str, Any]]:
    """One row per run, best configuration first, seeds ascending."""
    return [{"row": "run"} | run_row(run, one.values) for one in order for run in one.runs]


def seed_rows(order: Sequence[Configuration]) -> list[dict[str, Any]]:
    """Mean, minimum and maximum over the seeds of each configuration, best first."""
    rows = []
    for one in order:
        runs = [run_row(run, ()) for run in one.runs]
        broken = [run for run in one.runs if run.status != "finished"]
        state = "finished" if not broken else f"{len(broken)} of {len(runs)} {broken[0].status}"
        for name, aggregate in AGGREGATES.items():
            cells = {key: aggregate(values) if (values := column(runs, key)) else None for key in MEASURED}
            cells |= {"final_answer_reward": aggregate(one.scores)}
            seeds = " ".join(str(run.seed) for run in one.runs)
            rows.append({"row": name, **one.values, "seed": seeds, "status": state, **cells})
    return rows


def write_csv(rows: Sequence[Mapping[str, Any]]) -> str:
    """CSV with a header; columns in order of first appearance; an empty cell where there is no value."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    text = io.StringIO()
    writer = csv.DictWriter(text, names, restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows({key: _plain(value) for key, value in row.items()} for row in rows)
    return text.getvalue()


def _plain(value: Any) -> Any:
    return round(value, 6) if isinstance(value, float) and abs(value) >= 1e-2 else value


def cell(text: Any) -> str:
    """Text that stays inside its cell of a Markdown table and is not taken for markup."""
    escaped = str(text).replace("\\", "\\\\").replace("|", "\\|").replace("\n", " ").replace("\r", " ")
    return (
        escaped.replace("&", "&amp;").replace("<", "&lt;").replace("`", "\\`").replace("*", "\\*").replace("[", "\\[")
    )


def write_markdown(header: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """A Markdown table; cells are escaped. Numbers should come formatted."""
    lines = ["| " + " | ".join(cell(name) for name in header) + " |", "|" + " --- |" * len(header)]
    lines += ["| " + " | ".join(cell(value) for value in row) + " |" for row in rows]
    return "\n".join(lines) + "\n"


def configuration_table(order: Sequence[Configuration]) -> tuple[list[str], list[list[str]]]:
    """Header and formatted rows, one per configuration: mean over seeds, and the range where there are several."""
    keys = wording.varying(order)
    shown_keys = [key for key in MEASURED if key not in ("best_step", "length_correct", "length_incorrect")]
    by_name: dict[str, list[dict[str, Any]]] = {name: [] for name in AGGREGATES}
    for row in seed_rows(order):
        by_name[row["row"]].append(row)
    rows = []
    for average, low, high in zip(*by_name.values(), strict=True):
        several = " " in average["seed"]
        cells = [shown(key, average[key]) + _range(key, low[key], high[key], several) for key in shown_keys]
        name = [wording.number(average[key]) for key in keys] or ["single configuration"]
        rows.append([*name, average["seed"].replace(" ", ", "), average["status"], *cells])
    return [*(keys or ["configuration"]), "seeds", "status", *(MEASURED[key] for key in shown_keys)], rows


def run_table(order: Sequence[Configuration]) -> tuple[list[str], list[list[str]]]:
    """Header and formatted rows, one per run."""
    keys = wording.varying(order)
    rows = []
    for row in run_rows(order):
        status = row["status"] + (f": {row['reason']}" if row["reason"] else "")
        cells = [shown(key, row[key]) for key in MEASURED]
        rows.append([*(wording.number(row[key]) for key in keys), str(row["seed"]), status, *cells])
    return [*keys, "seed", "status", *MEASURED.values()], rows


def shown(key: str, value: Any) -> str:
    """A measured value with the digits that mean something."""
    if value is None:
        return "–"
    if key in ("steps", "seconds", "best_step"):
        return f"{value:.0f}"
    return wording.fixed(value, 1 if key.startswith("length") else 3)


def _range(key: str, low: Any, high: Any, several: bool) -> str:
    """The extremes over seeds, for the rewards only: a table of ranges of everything cannot be read."""
    if not several or low is None or not key.endswith("reward"):
        return ""
    return f" ({shown(key, low)}–{shown(key, high)})"


def experiment_markdown(name: str, description: str, order: Sequence[Configuration], level: int = 1) -> str:
    """The Markdown summary of one experiment: the result in words, then the two tables that show it."""
    title, below = "#" * level, "#" * (level + 1)
    parts = [f"{title} {cell(name)}", description, cell(wording.outcome(order))]
    parts += [f"{below} Configurations (mean over seeds, range in brackets)"]
    parts += [write_markdown(*configuration_table(order)), f"{below} Runs", write_markdown(*run_table(order))]
    parts += [
        "Reward is the answer reward on the validation set. Final values are means of the last three rows; entropy, "
        "gradient norm and lengths (in tokens) are of training where a stage measures them there."
    ]
    return "\n\n".join(part.strip() for part in parts if part) + "\n"
