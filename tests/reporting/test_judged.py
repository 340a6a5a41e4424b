"""The report shows what judges decided, and single parts of benchmarks, beside what rules graded."""

import re

import pytest

from stages import records, report
from stages.judging.verdicts import judged_metrics
from stages.records import JUDGED, JUDGEMENTS
from stages.reporting.buckets import symptoms
from stages.reporting.judged import subjects
from stages.store import provenance, write_json
from stages.tasks.verifiers import ground_truth_for
from tests.reporting.build import rollout, write_evaluation

HOSTILE = "</pre><script>alert(1)</script>"


def truth(subject):
    return ground_truth_for("mmlu", {"answer": "A", "options": ["1", "2", "3", "4"], "subject": subject})


def judgement(folder, kind, verdicts, **more):
    """A judge's folder: one row for each (example, order, verdict, category)."""
    shared = {
        "sample_index": 0,
        "instruction": "Name a star.",
        "response": HOSTILE,
        "prompt": "?",
        "text": "Verdict: 1",
    }
    shared |= {"finish_reason": "eos", "baseline": "Sirius." if kind == "alpaca_eval" else None} | more
    rows = [shared | dict(zip(("example_id", "order", "verdict", "category"), one, strict=True)) for one in verdicts]
    facts = provenance({"stage": "judge", "name": "llama", "code": "c0de"}) | {"gpus": 4, "cores": 8}
    counts = judged_metrics(kind, rows) | {"seconds": 9.0}
    records.write_table(folder / "verdicts.parquet", records.table(rows, JUDGEMENTS), facts)
    records.write_table(folder / "metrics.parquet", records.table([counts], JUDGED), facts)
    return str(folder)


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    """(HTML, Markdown) of a preset with one graded and two judged evaluations."""
    folder = tmp_path_factory.mktemp("judged")
    mmlu = [rollout("a", ground_truth=truth("law")), rollout("b", 0, "wrong", ground_truth=truth("law"))]
    mmlu += [rollout("c", 0, "unformatted", ground_truth=truth("virology"))]
    ungraded = [rollout(name, 0, None, response=HOSTILE) for name in "ab"]
    preferred = [("a", 1, "response", None), ("a", 2, "response", None)]
    preferred += [("b", 1, "response", None), ("b", 2, "baseline", None)]
    safe = [("a", None, "safe", "Scams"), ("b", None, "unsafe", "Harm"), ("c", None, "unparsed", "Harm")]
    evaluations = {
        "mmlu": write_evaluation(folder / "mmlu", mmlu) | {"reward": "mmlu"},
        "alpaca": write_evaluation(folder / "alpaca", ungraded)
        | {"reward": "none", "judgements": {"llama": judgement(folder / "one", "alpaca_eval", preferred)}},
        "safety": write_evaluation(folder / "safety", ungraded)
        | {"reward": "none", "judgements": {"llama": judgement(folder / "two", "simple_safety_tests", safe)}},
    }
    write_json(folder / "spec.json", {"preset": "p", "model": {"path": "m"}, "evaluations": evaluations})
    report.report(folder / "spec.json", folder / "r.html", folder / "r.md")
    return [(folder / f"r.{kind}").read_text(encoding="utf-8") for kind in ("html", "md")]


def test_the_table_of_judges_by_hand(pages):
    _, markdown = pages
    assert "| alpaca | base | llama | win rate | 0.750 | " in markdown
    assert "| 2 of 2 | 0.500 | 0.000 | 31 | 7 |" in markdown
    assert "| safety | base | llama | share safe | 0.500 | " in markdown
    assert "| 2 of 3 | – | 0.333 | 31 | – |" in markdown


def test_both_pages_say_it_in_words(pages):
    for page in pages:
        assert "llama: win rate 75.0 % (95 % interval " in page
        assert "2 responses of" in page
        assert "33.3 % of 3 verdicts could not be read" in page


def test_judged_evaluations_are_no_rung_and_have_no_buckets(pages):
    page, markdown = pages
    ladder = markdown.split("## The ladder")[1].split("## ")[0]
    assert "mmlu" in ladder
    assert not re.search("alpaca|safety|Nothing right", ladder)
    assert markdown.count("| bucket |") == page.count('class="bar"') == 1


def test_parts_of_benchmarks(pages):
    page, markdown = pages
    assert "| law | 0.500 | " in markdown
    assert "| virology | 0.000 | " in markdown
    assert "| all | 0.333 | " in markdown
    assert "| Scams | 1.000 | " in markdown
    assert "| Harm | 0.000 | " in markdown
    for said in ("Accuracy in each subject", "share safe", "the response stood second"):
        assert said in page


def test_a_judged_response_is_text(pages):
    page = pages[0]
    assert page.count("<script>") == 1
    assert "&lt;script&gt;alert(1)" in page


def test_what_judges_spent_counts(pages):
    assert "| llama on alpaca | 1 | 9.0 s | 0.01 |" in pages[1]


def test_rows_of_other_tasks_have_no_subjects():
    assert subjects([rollout("a")]) is None


def test_a_benchmarks_missing_answer_is_told_in_its_own_words():
    rows = [rollout("a", 0, "unformatted"), rollout("b", 0, "unformatted", finish_reason="length")]
    assert symptoms(rows, "gsm8k") == [("hit the token limit", 1), ("wrote no number", 1)]
    assert symptoms(rows[:1], "mmlu") == [("named no option's letter, or several", 1)]
