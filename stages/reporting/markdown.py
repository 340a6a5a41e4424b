"""Experiments and the whole report as Markdown: facts, tables and sentences."""

from __future__ import annotations

import re
from dataclasses import replace

from stages.reporting import contents, entropy, hours, judged, ladder, leaderboard, rounds, tables, wording
from stages.reporting.contents import Experiment, Report
from stages.reporting.tables import cell, write_markdown


def prose(text: str) -> str:
    """A person's words as one paragraph, never a heading, list or quotation."""
    return re.sub(r"^(\s*\d*)([#>+.)-])", r"\1\\\2", cell(text))


def experiment(one: Experiment, level: int = 1) -> str:
    """The summary of one experiment: the result in words, then the tables that show it."""
    title, below = "#" * level, "#" * (level + 1)
    parts = [f"{title} {cell(one.name)}", prose(one.description), cell(one.outcome)]
    parts += ["\n".join(f"- {cell(said)}" for said in one.readings), one.spent]
    if one.leaderboard:
        said = [*leaderboard.facts(one.leaderboard), leaderboard.verdict(one.leaderboard)]
        parts += [f"{below} Within the budget", *map(cell, said)]
    parts += [
        f"{below} Configurations (mean over seeds, range of the {one.measure.when} {one.measure.short} in brackets; "
        "what is passed on stands first)"
    ]
    parts += [write_markdown(*tables.configuration_table(one.order, one.references)), f"{below} Runs"]
    parts += [write_markdown(*tables.run_table(one.order, one.references))]
    parts += [one.measure.legend]
    if one.has_rounds:
        parts += [f"{below} Rounds", write_markdown(*rounds.rounds_table(one.order)), rounds.LEGEND]
    return "\n\n".join(part.strip() for part in parts if part) + "\n"


def report(found: Report) -> str:
    """The same report as the page, as text; transcripts are left to the page and transcripts.md."""
    parts = [f"# Ladder report: {cell(found.preset)}"]
    parts += [cell(found.headline), *map(cell, found.leaks)]
    parts += ["\n".join(f"- {key}: {cell(value)}" for key, value in contents.tells(found).items())]
    if found.rungs:
        parts += ["## The ladder", write_markdown(*contents.ladder_table(found.rungs))]
        parts += [cell(said) for said in ladder.remarks(found.rungs)]
    if found.judged:
        parts += ["## What judges say", write_markdown(*judged.table(found.judged)), judged.LEGEND]
    for one in found.evaluations:
        rows = [[bucket.name, bucket.meaning, bucket.count, wording.percent(bucket.share)] for bucket in one.buckets]
        parts += [f"## Evaluation: {one.name}", cell(one.sentence), cell(found.speeds[one.name])]
        parts += [cell(found.beside_the_base[one.name].sentence)] if one.name in found.beside_the_base else []
        parts += [write_markdown(["bucket", "meaning", "responses", "share"], rows)] if rows else []
        parts += [write_markdown(*one.subjects)] if one.subjects else []
        parts += [write_markdown(*told.categories) for told in one.judgements if told.categories]
        if one.symptoms:
            parts += [write_markdown(["why no answer was found", "responses"], one.symptoms)]
    for one in found.experiments:
        parts.append(experiment(replace(one, name=f"Experiment {one.name}"), level=2))
        parts += [cell(found.tested[one.name].sentence)] if one.name in found.tested else []
    if found.spending:
        parts += ["## How each method spends entropy", cell(entropy.sentence(found.spending))]
        parts += [write_markdown(*entropy.trajectories_table(found.spending))]
    if found.accounts:
        parts += ["## Spent", write_markdown(*hours.table(found.accounts))]
    if found.data:
        parts += ["## Data", write_markdown(*contents.data_table(found)), *map(cell, found.about_data)]
    parts += ["## Provenance", write_markdown(*contents.provenance_table(found))]
    parts += [", ".join(f"{name} {version}" for name, version in found.versions.items())]
    return "\n\n".join(part.strip() for part in parts if part) + "\n"
