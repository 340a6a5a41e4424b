"""What an experiment shows besides its winner, in sentences: rounds, references, gradient norms and lengths."""

from __future__ import annotations

from collections.abc import Sequence

from stages.reporting.references import Reference, against
from stages.reporting.rounds import rounds_sentence
from stages.reporting.runs import Configuration
from stages.reporting.trends import trends


def readings(order: Sequence[Configuration], references: Sequence[Reference] = ()) -> list[str]:
    """Sentences about `runs.ranked(...)`, every number of them from the runs themselves; those that have a subject."""
    compared = [against(order[0], one) for one in references]
    return [said for said in (rounds_sentence(order[0]), *compared, *trends(order)) if said]
