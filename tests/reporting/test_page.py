import base64
import hashlib
import html
import json
import re
import subprocess
import sys
from html.parser import HTMLParser

import pytest

from stages import browse, records, report, select, summarize
from stages.records import EXAMPLES, METRICS, ROLLOUTS, DataError
from stages.store import write_json
from stages.strict import ConfigError
from tests.reporting.build import EXPERIMENT, read_json, rollout, write_evaluation, write_experiment

SCRIPT = "<script>alert(1)</script>"
HOSTILE = f"</pre></details>{SCRIPT}<img src=x onerror=alert(2)> ``` </think>\n<answer> {SCRIPT} </answer>"


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """A results folder with everything in it, through select, summarize and report."""
    folder = tmp_path_factory.mktemp("results")
    spec, folders = write_experiment(folder)
    winner, summary = folder / "winners/lr_sweep.json", folder / "lr_sweep"
    select.select(folders, spec, winner)
    summarize.summarize(folders, spec, winner, summary)
    rows = [
        rollout(f"h{SCRIPT}", 0, "unformatted", response=HOSTILE, prompt=HOSTILE, ground_truth=SCRIPT),
        rollout("a"),
        rollout("b", 0, "wrong"),
    ]
    base = [{"step": s, "kind": "train", "seconds": 2.0 * s, "loss": 5.0 / s} for s in range(1, 30)]
    records.write_table(folder / "base.parquet", records.table(base, METRICS))
    example = {"example_id": "a", "question": "2 + 2?", "ground_truth": "4"}
    left_out = {"field 'answer' is empty": 3}
    records.write_table(folder / "kept.parquet", records.table([example], EXAMPLES), {"left_out": left_out})
    runs = {path: str(folder / "runs" / path) for path in read_json(spec)["runs"]}
    whole = {
        "preset": "cpu_ladder",
        "model": {"pretrain": {"hidden_size": 128}},
        "data": {"kept": {"source": "curated", "dataset": "traces", "reward": "r1_zero"}},
        "examples": {"kept": str(folder / "kept.parquet")},
        "evaluations": {"zero_shot": write_evaluation(folder / "evaluations/zero_shot", rows)},
        "experiments": {"lr_sweep": {**EXPERIMENT, "summary": str(summary), "winner": str(winner), "runs": runs}},
        "base_metrics": str(folder / "base.parquet"),
        "logs": {"evaluation zero_shot": "results/logs/sample/zero_shot.log"},
    }
    write_json(folder / "report.spec.json", whole)
    report.report(folder / "report.spec.json", folder / "report.html", folder / "report.md")
    return folder


class Page(HTMLParser):
    """Elements with their attributes, in order."""

    def __init__(self, text):
        super().__init__()
        self.elements = []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))


def test_a_summary_has_its_six_files_and_repeats_byte_for_byte(results, tmp_path):
    names = {"table.csv", "table.md", "curves.svg", "curves.png", "winner.json", "transcripts.md"}
    assert {file.name for file in (results / "lr_sweep").iterdir()} == names
    folders = list(map(str, (results / "runs/lr_sweep").glob("*/*")))
    summarize.summarize(folders, results / "lr_sweep.spec.json", results / "winners/lr_sweep.json", tmp_path / "again")
    for name in names:
        assert (tmp_path / "again" / name).read_bytes() == (results / "lr_sweep" / name).read_bytes(), name


def test_winner_json_has_the_scores_that_the_winners_file_leaves_out(results):
    facts = read_json(results / "lr_sweep/winner.json")
    assert facts["values"] == {"learning_rate": 3e-4}
    assert facts["scores"] == pytest.approx([0.6, 0.62])  # last validations at steps 6, 8, 10: 0.2 + 0.05 * 8
    assert facts["lead"] == pytest.approx(facts["score"] - facts["runner_up"]["score"])
    assert "Diverged: learning_rate = 1e-3, seed 1 after 4 steps (gradient norm is not finite)" in facts["sentence"]


def test_a_winner_file_that_contradicts_the_runs_is_refused(results, tmp_path):
    write_json(tmp_path / "winner.json", {"values": {"learning_rate": 1e-3}})
    folders = list((results / "runs/lr_sweep").glob("*/*"))
    with pytest.raises(DataError, match="run select again"):
        summarize.summarize(folders, results / "lr_sweep.spec.json", tmp_path / "winner.json", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_the_page_loads_nothing_from_anywhere(results):
    text = (results / "report.html").read_text(encoding="utf-8")
    for tag, attributes in Page(text).elements:
        assert tag not in ("link", "iframe", "object", "embed", "base", "img"), tag
        for name in ("src", "href", "xlink:href", "action", "data"):
            assert (attributes.get(name) or "#").startswith("#"), (tag, attributes)
    assert "url(http" not in text
    assert "@import" not in text
    assert len(text) < 1_000_000


def test_model_output_is_text_and_only_our_script_may_run(results):
    text = (results / "report.html").read_text(encoding="utf-8")
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in text
    scripts = re.findall(r"<script>(.*?)</script>", text, re.DOTALL)
    assert len(scripts) == 1
    assert "alert" not in scripts[0]
    digest = base64.b64encode(hashlib.sha256(scripts[0].encode()).digest()).decode()
    policy = next(a["content"] for tag, a in Page(text).elements if a.get("http-equiv") == "Content-Security-Policy")
    assert f"script-src 'sha256-{digest}'" in policy
    assert "default-src 'none'" in policy


def test_every_link_of_the_page_has_its_target(results):
    elements = Page((results / "report.html").read_text(encoding="utf-8")).elements
    ids = [attributes["id"] for _, attributes in elements if "id" in attributes]
    assert len(ids) == len(set(ids))
    targets = {attributes["href"][1:] for tag, attributes in elements if tag in ("a", "use")}
    assert {"ladder", "baseline", "experiment-lr_sweep", "pretraining", "data", "provenance"} <= targets <= set(ids)


def test_page_and_markdown_say_the_same(results):
    page, markdown = ((results / f"report.{kind}").read_text(encoding="utf-8") for kind in ("html", "md"))
    sentence = read_json(results / "lr_sweep/winner.json")["sentence"]
    for said in (sentence, "4 runs: 3 finished, 1 diverged", "kept (1)", "pretrained here (hidden_size 128)"):
        assert said in page
        assert said in markdown
    assert "1 of 3 (33.3 %; 95 % interval 6.1 % to 79.2 %) responses are right" in markdown
    assert "Transcripts over training" in page


def test_absent_sections_are_left_out(tmp_path):
    spec = {"preset": "bare", "model": {"hub": "org/model", "revision": "abc"}, "evaluations": {}, "experiments": {}}
    write_json(tmp_path / "spec.json", spec)
    report.report(tmp_path / "spec.json", tmp_path / "r.html", tmp_path / "r.md")
    ids = {attributes.get("id") for _, attributes in Page((tmp_path / "r.html").read_text(encoding="utf-8")).elements}
    assert "provenance" in ids
    assert not ids & {"ladder", "baseline", "experiments", "pretraining", "data"}
    assert "org/model at abc" in (tmp_path / "r.md").read_text(encoding="utf-8")


def test_a_shipped_policy_is_told_as_such(tmp_path):
    write_json(tmp_path / "spec.json", {"preset": "bare", "model": {"shipped": "tiny", "pretrain": None}})
    report.report(tmp_path / "spec.json", tmp_path / "r.html", tmp_path / "r.md")
    for kind in ("html", "md"):
        text = (tmp_path / f"r.{kind}").read_text(encoding="utf-8")
        assert "tiny, which comes with the project" in text
        assert "retraining" not in text


def test_nothing_right_is_said_plainly(tmp_path):
    evaluation = write_evaluation(tmp_path / "e", [rollout(f"q{n}", 0, "wrong") for n in range(20)])
    write_json(tmp_path / "spec.json", {"preset": "p", "model": {"path": "m"}, "evaluations": {"gsm8k": evaluation}})
    report.report(tmp_path / "spec.json", tmp_path / "r.html", tmp_path / "r.md")
    for kind in ("html", "md"):
        assert "Nothing right: gsm8k: 0 of 20." in (tmp_path / f"r.{kind}").read_text(encoding="utf-8")


def test_browse_prints_text_not_markup(tmp_path, capsys):
    file = tmp_path / "rollouts.parquet"
    rows = [rollout("a", 0, "wrong", response="[red]x[/red] [link=file:///etc]y[/link]\x1b[31m"), rollout("a", 5)]
    records.write_table(file, records.table([*rows, rollout("b", 5, None)], ROLLOUTS))
    browse.browse(file, limit=5)
    printed = capsys.readouterr().out
    assert "[red]x[/red] [link=file:///etc]y[/link]\\x1b[31m" in printed
    assert "\x1b" not in printed
    assert "3 of 3 matching responses" in printed
    browse.browse(file, verdict="wrong", limit=5)
    assert "1 of 1 matching responses, 3 in the file" in capsys.readouterr().out


def test_browse_cuts_nothing_off_on_a_narrow_terminal(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "50")
    records.write_table(tmp_path / "r.parquet", records.table([rollout("a", 0, "wrong", advantage=-1.25)], ROLLOUTS))
    browse.browse(tmp_path / "r.parquet")
    lines = [line.strip("│╰╯╭╮─ ") for line in capsys.readouterr().out.splitlines()]
    assert "wrong · 2 tokens · ended by stop" in " ".join(lines)
    assert "advantage -1.25" in " ".join(lines)


def test_browse_says_what_there_is_instead(tmp_path):
    file = tmp_path / "rollouts.parquet"
    records.write_table(file, records.table([rollout("question-7", 5)], ROLLOUTS))
    with pytest.raises(DataError, match="--step 3: the file has 1 steps, among them 5"):
        browse.browse(file, step=3)
    with pytest.raises(DataError, match="among them question-7"):
        browse.browse(file, example="question-6")
    with pytest.raises(ConfigError, match="did you mean wrong"):
        browse.browse(file, verdict="wrnog")


def test_programs_start_without_torch_or_matplotlib():
    code = (
        "import sys, json, stages.select, stages.summarize, stages.report, stages.browse;"
        "print(json.dumps([name for name in ('torch', 'transformers', 'matplotlib', 'pandas') if name in sys.modules]))"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert json.loads(found.stdout) == []


def test_the_report_says_what_was_spent_and_where_each_log_lies(results):
    """Four runs on two GPUs: three of 20 s, one that broke after 8 s."""
    text, page = (results / "report.md").read_text(), (results / "report.html").read_text()
    spent = "Spent: 0.038 GPU-hours (4 runs, 68 s)."
    for said in (spent, "results/logs/sample/zero_shot.log"):
        assert said in text
        assert said in page
    assert spent in (results / "lr_sweep/table.md").read_text()
    assert "| all | 6 |" in text
    assert "do not say on what they ran" in text  # the base policy and the evaluation


def test_every_evaluation_says_how_fast_it_sampled(results):
    for name in ("report.html", "report.md"):
        assert "1.5 examples per second of sampling, loading left out." in (results / name).read_text(encoding="utf-8")


def test_one_score_of_several_responses_has_one_interval(tmp_path):
    """Eight responses to each of four questions, two of which are right every time: as good as two of four."""
    rows = [
        rollout(f"q{name}", 0, "correct" if name < 2 else "wrong", sample_index=index)
        for name in range(4)
        for index in range(8)
    ]
    evaluation = write_evaluation(tmp_path / "e", rows)
    write_json(tmp_path / "spec.json", {"preset": "p", "model": {"path": "m"}, "evaluations": {"eight": evaluation}})
    report.report(tmp_path / "spec.json", tmp_path / "r.html", tmp_path / "r.md")
    text = (tmp_path / "r.md").read_text(encoding="utf-8")
    assert "| eight | 0.500 | 0.150 to 0.850 |" in text
    assert "16 of 32 (50.0 %; 95 % interval over 4 questions 15.0 % to 85.0 %) responses are right" in text


def test_rows_that_were_left_out_of_a_dataset_are_told_beside_it(results):
    said = "Left out of kept, as rows that cannot be used: 3 (field 'answer' is empty)"
    assert said in (results / "report.md").read_text()
    assert said in html.unescape((results / "report.html").read_text())
