"""Tables of an experiment and of the whole ladder, as rows; and rows as CSV and Markdown."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from stages.reporting import wording
from stages.reporting.references import Reference
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
        state = broken[0].status if broken else "finished"
        state = f"{len(broken)} of {len(runs)} {state}" if broken and len(runs) > 1 else state
        for name, aggregate in AGGREGATES.items():
            cells = {key: aggregate(values) if (values := column(runs, key)) else None for key in MEASURED}
            cells |= {"final_answer_reward": aggregate(one.scores)}
            seeds = " ".join(str(run.seed) for run in one.runs)
            rows.append({"row": name, **one.values, "seed": seeds, "status": state, **cells})
    return rows


def reference_rows(references: Sequence[Reference]) -> list[dict[str, Any]]:
    """The runs of references and their aggregates, marked by `row` and named by `reference`."""
    rows = []
    for one in references:
        own = run_rows([one.configuration]) + seed_rows([one.configuration])
        rows += [{**row, "row": f"reference {row['row']}", "reference": one.experiment} for row in own]
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


def configuration_table(
    order: Sequence[Configuration], references: Sequence[Reference] = ()
) -> tuple[list[str], list[list[str]]]:
    """Header and formatted rows, one per configuration: mean over seeds, and the range where there are several.

    References come last, named in full in the first column.
    """
    shown_keys = [key for key in MEASURED if key not in ("best_step", "length_correct", "length_incorrect")]
    keys, named = _named(order, references)
    rows = []
    for name, one in named:
        average, low, high = seed_rows([one])
        cells = [shown(key, average[key]) + _range(key, low[key], high[key], len(one.runs) > 1) for key in shown_keys]
        rows.append([*name, average["seed"].replace(" ", ", "), average["status"], *cells])
    return [*keys, "seeds", "status", *(MEASURED[key] for key in shown_keys)], rows


def run_table(
    order: Sequence[Configuration], references: Sequence[Reference] = ()
) -> tuple[list[str], list[list[str]]]:
    """Header and formatted rows, one per run, those of references last."""
    keys, named = _named(order, references)
    rows = []
    for name, one in named:
        for row in run_rows([one]):
            status = row["status"] + (f": {row['reason']}" if row["reason"] else "")
            rows.append([*name, str(row["seed"]), status, *(shown(key, row[key]) for key in MEASURED)])
    return [*keys, "seed", "status", *MEASURED.values()], rows


def _named(
    order: Sequence[Configuration], references: Sequence[Reference]
) -> tuple[list[str], list[tuple[list[str], Configuration]]]:
    """The columns that name a configuration, and each configuration under its cells of them."""
    keys = wording.varying(order)
    named = [([wording.number(one.values[key]) for key in keys] or ["single configuration"], one) for one in order]
    rest = max(0, len(keys) - 1) * ["–"]
    named += [([one.label, *rest], one.configuration) for one in references]
    return keys or ["configuration"], named


def shown(key: str, value: Any) -> str:
    """A measured value with the digits that mean something."""
    if value is None:
        return "–"
    if key in ("steps", "seconds", "best_step"):
        return f"{value:.0f}"
    return wording.fixed(value, 1 if key.startswith("length") else 3)


def _range(key: str, low: Any, high: Any, several: bool) -> str:
    """The extremes over seeds, for what the winner is chosen by: a table of ranges of everything cannot be read."""
    if not several or low is None or key != "final_answer_reward":
        return ""
    return f" ({shown(key, low)}–{shown(key, high)})"
