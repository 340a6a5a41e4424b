r"""Short labels of long solutions: where they stand, what is none, and that the grader calls them right."""

import sys
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stages.grading import grade_response
from stages.tasks.labels import MAX_LABEL_CHARS, labelled_row, last_boxed, short_label, told, worked_response


@pytest.mark.parametrize(
    ("text", "content"),
    [
        (r"a \boxed{12} step, then \boxed{5}.", "5"),
        (r"\boxed{\frac{1}{2}}", r"\frac{1}{2}"),
        (r"\boxed{\{-3, 3\}}", r"\{-3, 3\}"),
        (r"\boxed{\boxed{7}}", "7"),
        (r"first \boxed{7}, then \boxed{ }", "7"),
        (r"first \boxed{7}, then \boxed{8", "7"),
        (r"MATH writes $\boxed 3$ at times", "3"),
        (r"\boxed{8", None),
        ("no box", None),
        (r"\boxed{" + "x" * (5 * MAX_LABEL_CHARS) + "}", None),
    ],
)
def test_the_last_box(text, content):
    assert last_boxed(text) == content


box_text = st.lists(st.sampled_from(["\\boxed{", "{", "}", "\\{", "\\}", "\\", "3", "x"]), max_size=14).map("".join)


@given(box_text)
@settings(deadline=None)
def test_a_box_is_never_cut(text):
    content = last_boxed(text)
    if content is not None:
        bare = content.replace("\\\\", "").replace("\\{", "").replace("\\}", "")
        assert bare.count("{") == bare.count("}")
        assert f"\\boxed{{{content}}}" in text


@pytest.mark.parametrize(
    ("solution", "label", "how"),
    [
        (r"So $x = \boxed{5}$. The answer is 6.", "5", "boxed"),
        ("Steps.\nThe answer is: 210", "210", "stated"),
        ("Steps. The answer is 42. I hope it is correct.", "42", "stated"),
        ("The answer is 3.5.", "3.5", "stated"),
        (r"Final Answer: The final answer is $\frac{3}{2}$. I hope it is correct.", r"\frac{3}{2}", "stated"),
        (r"The answer is \(x^2 - 1\), as was to be shown.", "x^2 - 1", "stated"),
        ("**Answer:** 32 litres", "32 litres", "stated"),
        ("**Final answer:**\n\\[\nx = 5\n\\]\nDone.", "x = 5", "stated"),
        ("The answer is $5.", "$5", "stated"),
        ("The answer is 7? No: the answer is 8.", "8", "stated"),
        ("The derivative is $3x^2$.\nAt $x = 2$ it is therefore $12$.", "12", "math_verify"),
        (r"Hence \[n = \frac{7}{9}\]", r"n = \frac{7}{9}", "math_verify"),
        ("Done.\n\n### Answer:\n\n**12**\n", "12", "stated"),
    ],
)
def test_where_labels_are_found(solution, label, how):
    assert short_label(solution) == (label, how)


@pytest.mark.parametrize(
    "solution",
    [
        "The answer is that nobody can know this for certain.",
        "The answer is $5 more than $6.",
        "Is the answer: ?",
        "Which settles the matter.",
        "It is so for every $x$.",
        "A notebook costs $5 and a pencil costs $1.",
        "$12$ is a step.\nSo it is settled.",
        "$" + "1 + " * 200 + "1$",
        "$" + "(" * 60 + "1" + ")" * 59 + "$",
        "",
    ],
)
def test_what_has_no_label(solution):
    assert short_label(solution) == (None, "none")


@pytest.mark.parametrize("line", ["$9^{9^{9^{9}}}$", "$(10^{10})!$", r"$\binom{10^9}{5}$", r"$\sum_{i=1}^{10^{12}} i$"])
def test_nothing_is_computed_to_find_a_label(line):
    assert short_label(f"Steps.\nIt is {line}.")[1] == "math_verify"


def test_without_math_verify_the_other_ways_remain(monkeypatch):
    monkeypatch.setitem(sys.modules, "math_verify", None)
    assert short_label("At $x = 2$ it is therefore $12$.") == (None, "none")
    assert short_label("The answer is 12.") == ("12", "stated")


def test_the_response_is_graded_right_by_the_label_it_ends_in():
    found = Counter()
    row = labelled_row("How much?", r"<think>Half of 84</think> is $\boxed{42}$. <answer>42</answer>", found)
    assert row == {
        "question": "How much?",
        "ground_truth": "42",
        "response": r" Half of 84 is $\boxed{42}$. 42 </think> <answer> 42 </answer>",
    }
    assert grade_response(row["response"], row["ground_truth"], "r1_zero").verdict == "correct"
    assert labelled_row("Why?", "Because.", found) is None
    assert found == {"boxed": 1, "none": 1}


@given(st.text(min_size=1), st.sampled_from(["5", r"\frac{1}{2}", "(1, 3)", "x^2 - 1", r"5\sqrt{2}"]))
@settings(deadline=None)
def test_any_solution_keeps_the_format(solution, label):
    assert grade_response(worked_response(solution, label), label, "r1_zero").verdict == "correct"


def test_what_is_told():
    assert told({"boxed": 150, "none": 50, "stated": 200}) == (
        "50 of 400 solutions (12.50%) have no short label and are left out; labels: 150 boxed, 200 stated"
    )
