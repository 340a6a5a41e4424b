"""Tables of an experiment and of the whole ladder, as rows; and rows as CSV and Markdown."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from stages.plain import plain
from stages.reporting import wording
from stages.reporting.measures import TRAINING, Measure
from stages.reporting.references import Reference
from stages.reporting.runs import FINAL_ROWS, Configuration, Run, best_row, column, final, mean

AGGREGATES = {"mean": mean, "min": min, "max": max}


def headings(measure: Measure) -> dict[str, str]:
    """Column of table.csv -> heading where people read it. Swept keys come before these."""
    name, short = measure.column, measure.short
    columns = {"steps": "steps", "seconds": "seconds", f"start_{name}": f"{short} before"}
    columns |= {f"final_{name}": f"final {short}", f"best_{name}": f"best {short}", "best_step": "best at step"}
    return columns | dict(measure.beside)


def judged(measure: Measure) -> str:
    """The column that the winner is chosen by."""
    return f"{measure.when}_{measure.column}"


def run_row(run: Run, keys: Iterable[str]) -> dict[str, Any]:
    """One run in numbers. `final_*` and unmarked columns are means of the last three rows that have the value (a final
    loss is the last one): of validation, those of TRAINING excepted."""
    name, best = run.measure.column, best_row(run.validation, run.measure)
    last = final(run.validated, name) if run.measure.read == "best" else run.score
    row = {key: run.values.get(key) for key in keys}
    row |= {"seed": run.seed, "status": run.status, "reason": run.reason, "steps": run.steps, "seconds": run.seconds}
    row |= {f"start_{name}": run.start, f"final_{name}": last}
    row |= {f"best_{name}": best.get(name), "best_step": best.get("step")}
    shown_rows = 1 if run.measure.read == "last" else FINAL_ROWS
    for key in run.measure.beside:
        values = column(run.train if key in TRAINING else run.validated, key.removeprefix("final_"))
        row[key] = mean(values[-shown_rows:]) if values else None
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
            cells = {key: aggregate(values) if (values := column(runs, key)) else None for key in headings(one.measure)}
            cells |= {judged(one.measure): aggregate(one.scores)}
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
    escaped = plain(str(text)).replace("\\", "\\\\").replace("|", "\\|").replace("\n", " ").replace("\r", " ")
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
    measure = order[0].measure
    shown_keys = [key for key in headings(measure) if key not in ("best_step", "length_correct", "length_incorrect")]
    keys, named = _named(order, references)
    rows = []
    for name, one in named:
        average, low, high = seed_rows([one])
        cells = [shown(key, average[key]) for key in shown_keys]
        if len(one.runs) > 1:  # a table of ranges of everything could not be read
            chosen_by = judged(measure)
            ends = "–".join(shown(chosen_by, end[chosen_by]) for end in (low, high))
            cells[shown_keys.index(chosen_by)] += f" ({ends})"
        rows.append([*name, average["seed"].replace(" ", ", "), average["status"], *cells])
    return [*keys, "seeds", "status", *(headings(measure)[key] for key in shown_keys)], rows


def run_table(
    order: Sequence[Configuration], references: Sequence[Reference] = ()
) -> tuple[list[str], list[list[str]]]:
    """Header and formatted rows, one per run, those of references last."""
    keys, named = _named(order, references)
    named_columns = headings(order[0].measure)
    rows = []
    for name, one in named:
        for row in run_rows([one]):
            status = row["status"] + (f": {row['reason']}" if row["reason"] else "")
            rows.append([*name, str(row["seed"]), status, *(shown(key, row[key]) for key in named_columns)])
    return [*keys, "seed", "status", *named_columns.values()], rows


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
