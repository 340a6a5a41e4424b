import pytest

from stages import records
from stages.records import ROLLOUTS, DataError
from stages.reporting import buckets, transcripts
from tests.reporting.build import rollout


def test_steps_are_spread_and_keep_both_ends():
    assert transcripts.spaced(range(0, 101, 5), 4) == [0, 35, 65, 100]
    assert transcripts.spaced([7, 3, 3], 4) == [3, 7]


def test_each_question_has_one_fate_and_the_counts_add_up():
    first = {"a": "wrong", "b": "correct", "c": "correct", "d": "unformatted", "only_first": "wrong"}
    last = {"a": "correct", "b": "wrong", "c": "correct", "d": "timeout", "only_last": "wrong"}
    rows = [rollout(name, step, verdict) for step, at in ((0, first), (40, last)) for name, verdict in at.items()]
    rows += [rollout("a", 20, "unformatted"), rollout("a", 40, "wrong", sample_index=1)]
    found = transcripts.stories(rows)
    assert found.counts == {"learned": 1, "lost": 1, "kept": 1, "missed": 1}
    assert (found.first, found.last) == (0, 40)
    learned = found.chosen[0]
    assert (learned.fate, learned.example_id) == ("learned", "a")
    assert [row["step"] for row in learned.samples] == [0, 20, 40]


def test_without_a_shared_question_there_is_no_story():
    assert transcripts.stories([rollout("a", 0)]) is None
    assert transcripts.stories([rollout("a", 0), rollout("b", 5)]) is None
    text = transcripts.markdown("x", "run", None, [])
    assert "nothing to follow" in text


def test_nothing_in_a_text_stays_invisible():
    assert transcripts.visible("a  \nb\t\x1b[0m\u202e\u200b\r\n") == "a··↵\nb⇥\\x1b[0m\\u202e\\u200b\\x0d↵\n"
    assert transcripts.visible("end ") == "end·"
    assert transcripts.visible("é 漢 ∑") == "é 漢 ∑"


@pytest.mark.parametrize("text", ["plain", "```\nout", "a ````` b", "`" * 12])
def test_no_text_closes_its_fence(text):
    lines = transcripts.fence(text).split("\n")
    ticks = lines[-1]
    assert lines[0] == ticks + "text"
    assert set(ticks) == {"`"}
    assert ticks not in text


def test_shortening_keeps_both_ends_and_says_how_much_is_missing():
    assert transcripts.shorten("abc", 3) == "abc"
    assert transcripts.shorten("a" * 50 + "b" * 50, 10) == "aaaaa […90 characters…] bbbbb"
    assert transcripts.shorten("question tail", 4, 4) == " […9 characters…] tail"


def test_transcripts_show_prompt_reference_and_every_step():
    rows = [rollout("q`1", 0, "wrong", response="```\n# heading"), rollout("q`1", 9, "correct", advantage=0.5)]
    text = transcripts.markdown("sweep", "run/seed=0", transcripts.stories(rows), [("bad/seed=1", rows[:1])])
    assert "### Learned: `q1`" in text
    assert "````text\n```↵\n# heading\n````" in text
    assert "**Step 9** · correct · 2 tokens · ended by stop · advantage +0.50" in text
    assert "## Last samples of `bad/seed=1`, which did not finish" in text


def test_last_words_are_of_the_last_step():
    rows = [rollout("a", 0), rollout("a", 5), rollout("b", 5), rollout("c", 5)]
    found = transcripts.last_words(rows)
    assert [row["step"] for row in found] == [5, 5]
    assert len({row["example_id"] for row in found}) == 2
    assert transcripts.last_words([]) == []


def test_a_file_that_is_not_rollouts_is_refused_by_name(tmp_path):
    file = tmp_path / "examples.parquet"
    records.write_table(file, records.table([rollout()], ROLLOUTS).drop_columns(["verdict"]))
    with pytest.raises(DataError, match=r"examples\.parquet: column 'verdict' is missing"):
        transcripts.read_rollouts(file)


def test_buckets_hold_every_response_once_and_ten_failures():
    counts = {"correct": 5, "wrong": 12, "unformatted": 3, "timeout": 1, None: 1}
    rows = [rollout(f"q{n}", 0, verdict) for verdict, count in counts.items() for n in range(count)]
    found = {bucket.name: bucket for bucket in buckets.buckets(rows)}
    assert {name: bucket.count for name, bucket in found.items()} == {
        "correct": 5,
        "wrong": 12,
        "unformatted": 3,
        "ungraded": 2,
    }
    assert [len(bucket.examples) for bucket in found.values()] == [3, 10, 3, 2]
    ids = [row["example_id"] for row in found["wrong"].examples]
    assert sorted(ids) != sorted(f"q{n}" for n in range(10)), "ten of all, not the first ten"
    assert sum(bucket.share for bucket in found.values()) == pytest.approx(1)
    assert [bucket.name for bucket in buckets.buckets([])] == ["correct", "wrong", "unformatted"]


@pytest.mark.parametrize(
    ("response", "finish_reason", "sign"),
    [
        ("x </think>\n<answer> 4 </answer>", "stop", "not separated by exactly one space"),
        ("x </think><answer> 4 </answer>", "stop", "not separated by exactly one space"),
        ("x\n\nUser: what is 3?", "length", "began a new User turn"),
        ("x and so on", "length", "hit the token limit"),
        ("x = 4.", "eos", "never wrote </think>"),
        ("x </think> 4", "eos", "never wrote <answer>"),
        ("x </think> <answer> 4", "eos", "never wrote </answer>"),
    ],
)
def test_why_no_answer_was_found(response, finish_reason, sign):
    row = rollout(verdict="unformatted", response=response, finish_reason=finish_reason)
    assert sign in buckets.symptom(row)
    assert buckets.symptoms([row, rollout(verdict="wrong")]) == [(buckets.symptom(row), 1)]


def test_a_bare_question_is_missing_its_box():
    row = rollout(verdict="unformatted", prompt="What is 2 + 2?", response="It is 4.", finish_reason="eos")
    assert buckets.symptom(row) == "wrote no \\boxed answer"


def test_the_offered_answer_is_shown_untouched():
    assert buckets.answer_text("<answer> 3 </answer> <answer> \\frac{1}{2} </answer>") == "\\frac{1}{2}"
    assert buckets.answer_text("so \\boxed{\\frac{1}{2}} and") == "\\frac{1}{2}"
    assert buckets.answer_text("so \\boxed{1 + {2") == "1 + {2"
    assert buckets.answer_text("nothing") == ""
