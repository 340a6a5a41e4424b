"""Countdown: what counts as an expression, exact checking against brute force, problems that can be solved."""

import json
import random
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stages.grading.extract import EXTRACTORS
from stages.records import EXAMPLES, DataError, table
from stages.tasks import countdown
from stages.tasks.arithmetic import TooMany
from stages.tasks.countdown_answers import MAX_CHARS, NoExpression, check_countdown, evaluate, tokenize
from stages.tasks.verifiers import VERIFIERS, ground_truth_for, verifier_of, verify

FIXTURE = Path(__file__).parent / "fixtures" / "countdown.jsonl"
PROBLEM = {"numbers": [3, 5, 2], "target": 16}

# ---------------------------------------------------------------- answers


@pytest.mark.parametrize(
    "answer",
    [
        "(3+5)*2",
        " 2 * ( 5 + 3 )\n",
        "((3)+(5))*2",
        "(3 + 5) * 2 = 16",
        r"$(3+5) \times 2 = 16$",
        r"2 \cdot \left(3 + 5\right)",
        "(3 + 5) × 2",
        "(-3 - 5) * (-2)",
    ],
)
def test_right_answers(answer):
    assert check_countdown(PROBLEM, answer) == ("correct", "hits the target")


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ("3 + 5 * 2", "equals 13, not 16"),
        ("-(3 + 5) * 2", "equals -16, not 16"),
        ("5 / 3 + 2", "equals 11/3, not 16"),
        ("16", "uses 16 too often and leaves out 2, 3, 5"),
        ("(3 + 5) * 2 * 1", "uses 1 too often"),
        ("3 * 5 + 3 - 2", "uses 3 too often"),
        ("3 * 5", "leaves out 2"),
        ("(3 + 5) * 2 = 17", "says `= 17`, and the target is 16"),
        ("(3 + 5) * 2 = 16 = 16", "says `= 16 = 16`, and the target is 16"),
        ("16 = (3 + 5) * 2", "says `= (3 + 5) * 2`, and the target is 16"),
        ("5 / (3 - 3) * 2", "uses 3 too often"),
        ("2 / (5 - 5 + 3)", "uses 5 too often"),
        ("5 3 2", "has 3 straight after 5"),
        ("2(3 + 5)", "has ( straight after 2"),
        ("(3 + 5)2", "has 2 straight after )"),
        ("3 + 5) * 2", "closes a parenthesis that was not opened"),
        ("((3 + 5) * 2", "leaves a parenthesis open"),
        ("(3 + 5) * 2 -", "ends where a number should stand"),
        ("+ (3 + 5) * 2", "has + where a number should stand"),
        ("3 * -5 * 2", "has - where a number should stand"),
        ("--3 * 5 * 2", "has - where a number should stand"),
        ("() 3 * 5 * 2", "has ) where a number should stand"),
        ("3 ** 5 * 2", "has * where a number should stand"),
        ("3 // 5 * 2", "has / where a number should stand"),
        ("3 ^ 5 - 2", "holds '^ 5 - 2', which is no whole number, + - * / or parenthesis"),
        ("3.0 + 5 + 2", "holds '.0 + 5 + 2', which is no whole number, + - * / or parenthesis"),
        ("\N{ARABIC-INDIC DIGIT THREE} + 5 + 2", "holds '٣ + 5 + 2', which is no whole number, + - * / or parenthesis"),
        ("\u00a03 + 5 + 2", "holds '\\xa03 + 5 + 2', which is no whole number, + - * / or parenthesis"),
        ("__import__('os')", "holds '__import__('', which is no whole number, + - * / or parenthesis"),
        ("", "leaves out 2, 3, 5"),
    ],
)
def test_wrong_answers_and_why(answer, reason):
    verdict, told = check_countdown(PROBLEM, answer)
    assert (verdict, told.replace('"', "'")) == ("wrong", reason)


def test_division_is_exact_and_may_be_by_zero():
    assert check_countdown({"numbers": [1, 3, 3], "target": 1}, "1 / 3 * 3")[0] == "correct"
    assert check_countdown({"numbers": [8, 3, 8, 3], "target": 24}, "8 / (3 - 8 / 3)")[0] == "correct"
    assert check_countdown({"numbers": [4, 2, 2], "target": 4}, "4 / (2 - 2)") == ("wrong", "divides by zero")


@pytest.mark.parametrize(
    "problem",
    [
        {},
        {"numbers": [], "target": 1},
        {"numbers": [1.5], "target": 1},
        {"numbers": [True], "target": 1},
        {"numbers": [-1], "target": 1},
        {"numbers": "12", "target": 3},
        {"numbers": [1], "target": None},
        {"numbers": [10**10], "target": 1},
    ],
)
def test_a_problem_that_is_none_is_a_bad_reference(problem):
    assert check_countdown(problem, "1")[0] == "bad_reference"


# ---------------------------------------------------------------- against brute force


@st.composite
def expressions(draw):
    """(text, numbers, value) of a random tree, value None where it divides by zero; text with spare parentheses."""
    numbers = draw(st.lists(st.integers(1, 30), min_size=1, max_size=6))

    def build(part):
        if len(part) == 1:
            text, value = str(part[0]), Fraction(part[0])
        else:
            cut = draw(st.integers(1, len(part) - 1))
            operator = draw(st.sampled_from("+-*/"))
            (left, a), (right, b) = build(part[:cut]), build(part[cut:])
            text = f"({left}){draw(st.sampled_from(['', ' ']))}{operator}({right})"
            value = _apply(a, operator, b)
        if draw(st.booleans()):
            text, value = f"(-({text}))", None if value is None else -value
        return text, value

    text, value = build(numbers)
    return text, numbers, value


def _apply(a, operator, b):
    if a is None or b is None or (operator == "/" and b == 0):
        return None
    return {"+": a + b, "-": a - b, "*": a * b}[operator] if operator != "/" else a / b


@given(expressions())
@settings(deadline=None)
def test_values_are_those_of_the_tree(expression):
    text, numbers, value = expression
    if value is None:
        with pytest.raises(ZeroDivisionError):
            evaluate(tokenize(text))
        return
    assert evaluate(tokenize(text)) == value
    if value.denominator == 1:
        assert check_countdown({"numbers": numbers, "target": int(value)}, f"{text} = {value}")[0] == "correct"
        assert check_countdown({"numbers": numbers, "target": int(value) + 1}, text)[0] == "wrong"
        assert check_countdown({"numbers": [*numbers, 1], "target": int(value)}, text)[0] == "wrong"
        assert check_countdown({"numbers": numbers, "target": int(value)}, f"{text}*1")[0] == "wrong"


@given(st.lists(st.lists(st.tuples(st.sampled_from("*/"), st.integers(1, 99)), min_size=1), min_size=1, max_size=4))
@settings(deadline=None)
def test_products_before_sums_and_from_left_to_right(terms):
    """1 * a / b ... - 1 * c / d ... for every term in turn, against a plain left-to-right fold."""
    text = " - ".join("1" + "".join(f" {operator} {number}" for operator, number in term) for term in terms)
    values = []
    for term in terms:
        value = Fraction(1)
        for operator, number in term:
            value = _apply(value, operator, Fraction(number))
        values.append(value)
    assert evaluate(tokenize(text)) == values[0] - sum(values[1:])
    assert evaluate(tokenize("-" + text)) == -values[0] - sum(values[1:])


PIECES = st.sampled_from(
    ["(", ")", "+", "-", "*", "/", "=", "3", "5", "2", "16", " ", "\\times", "$", "x", "−", "9" * 60]
)


@given(st.one_of(st.text(), st.lists(PIECES, max_size=60).map("".join)))
@settings(max_examples=400, deadline=None)
def test_no_text_raises(answer):
    verdict, reason = check_countdown(PROBLEM, answer)
    assert verdict in ("correct", "wrong", "too_long")
    assert 0 < len(reason) < 250


@given(st.lists(PIECES, max_size=30).map("".join))
@settings(deadline=None)
def test_what_is_no_expression_says_so(text):
    try:
        tokens = tokenize(text)
        evaluate(tokens)
    except (NoExpression, ZeroDivisionError):
        return
    assert all(token.isdigit() or token in "+-*/()" for token in tokens)


@pytest.mark.parametrize("piece", ["(", "-", "9", "(-", "1/(", "3*", "= ", "\\left(", "\u0663"])
def test_hostile_answers_are_wrong_or_too_long(piece):
    for length in (MAX_CHARS, 10**6):
        text = (piece * length)[:length]
        assert check_countdown(PROBLEM, text)[0] == ("wrong" if length == MAX_CHARS else "too_long")


# ---------------------------------------------------------------- the verifier behind the format gate


def test_the_ground_truth_names_its_verifier():
    truth = ground_truth_for("countdown", PROBLEM)
    assert truth == 'countdown:{"numbers": [3, 5, 2], "target": 16}'
    assert verifier_of(truth) is VERIFIERS["countdown"]
    assert verify(truth, " (3+5)*2 ")[0] == "correct"


@pytest.mark.parametrize("truth", ["16", "", "countdown", "countdown: {", "x:{}", "f:{1,2}", "\\{1,2\\}", ":{}"])
def test_ordinary_answers_have_none(truth):
    assert verifier_of(truth) is None


@pytest.mark.parametrize("truth", ["countdown:{", "countdown:{}}", "countdown:" + '{"a":' * 100_000])
def test_a_damaged_ground_truth_is_a_bad_reference(truth):
    assert verify(truth, "3")[0] == "bad_reference"


@pytest.mark.parametrize(
    ("kind", "response"),
    [
        ("r1_zero", " 3 and 5 are 8. </think> <answer> (3 + 5) * 2 </answer>"),
        ("question_only", r"We double eight: \boxed{(3 + 5) \times 2 = 16}."),
    ],
)
def test_both_answer_formats_carry_an_expression(kind, response):
    found = EXTRACTORS[kind](response)
    assert verify(ground_truth_for("countdown", PROBLEM), found.answer)[0] == "correct"


# ---------------------------------------------------------------- problems


def test_the_fixture_by_hand():
    rows = countdown.load([FIXTURE], "cd")
    assert rows[0] == {
        "example_id": "cd-000001",
        "question": "Write an expression that equals 16. Use each of the numbers 3, 5 and 2 exactly once, the "
        "operations +, -, * and /, and parentheses where they are needed. The answer is the expression itself.",
        "ground_truth": 'countdown:{"numbers": [3, 5, 2], "target": 16}',
        "response": None,
    }
    answers = ["(3+5)*2", "50-8/4", "(7+7)*3*1", "81/9", "20/2/(6-4)"]
    assert [verify(row["ground_truth"], answer)[0] for row, answer in zip(rows, answers, strict=True)] == [
        "correct"
    ] * 5
    table(rows, EXAMPLES)


def test_parts_of_a_file_share_nothing_and_size_takes_the_first(tmp_path):
    generator = random.Random(0)
    rows = [{"nums": [generator.randrange(1, 50) for _ in range(3)], "target": 10} for _ in range(200)]
    (tmp_path / "c.jsonl").write_text("\n".join(map(json.dumps, rows)))
    files = [tmp_path / "c.jsonl"]
    whole, train, validation, test = (
        countdown.load(files, "c", part) for part in (None, "train", "validation", "test")
    )
    assert len(whole) == 200
    assert sorted(train + validation + test, key=lambda row: row["example_id"]) == whole
    assert all(2 < len(held_out) < 40 for held_out in (validation, test))
    assert countdown.load(files, "c", "train", size=7) == train[:7]
    assert countdown.part_of([1, 2, 3], 6) == countdown.part_of([3, 1, 2], 6)


@pytest.mark.parametrize(
    "row",
    [
        {"numbers": [1, 2], "target": 3},
        {"nums": [1, 2]},
        {"nums": ["1", "2"], "target": 3},
        {"nums": [], "target": 3},
        {"nums": [0, 2], "target": 3},
        {"nums": [1, 2], "target": 2.5},
    ],
)
def test_a_row_that_is_no_problem_is_named(tmp_path, row):
    good = '{"nums": [1, 2], "target": 3}\n'
    (tmp_path / "c.jsonl").write_text(good + json.dumps(row))
    with pytest.raises(DataError, match=r"c\.jsonl:2: no Countdown problem in `nums` and `target`: it needs 1 to 20"):
        countdown.load([tmp_path / "c.jsonl"], "c")


def solutions(numbers):
    """Every value that some expression over all of the numbers takes."""
    if len(numbers) == 1:
        return {Fraction(numbers[0])}
    found = set()
    for mask in range(1, 2 ** len(numbers) - 1):
        left = [n for i, n in enumerate(numbers) if mask >> i & 1]
        right = [n for i, n in enumerate(numbers) if not mask >> i & 1]
        for a in solutions(left):
            for b in solutions(right):
                found |= {a + b, a - b, a * b} | ({a / b} if b else set())
    return found


@pytest.mark.parametrize(("n_numbers", "seed"), [(2, 0), (3, 1), (4, 2)])
def test_generated_problems_are_different_and_can_be_solved(n_numbers, seed):
    rows = countdown.generate(12, seed, n_numbers)
    problems = [json.loads(row["ground_truth"].removeprefix("countdown:")) for row in rows]
    assert len({(*sorted(problem["numbers"]), problem["target"]) for problem in problems}) == 12
    for problem, row in zip(problems, rows, strict=True):
        assert len(problem["numbers"]) == n_numbers
        assert problem["target"] in solutions(problem["numbers"])
        assert row["question"] == countdown.render(problem["numbers"], problem["target"])


def test_a_larger_size_continues_a_smaller_one_and_parts_are_disjoint():
    assert countdown.generate(40, 3, 3)[:10] == countdown.generate(10, 3, 3)
    assert countdown.generate(10, 4, 3) != countdown.generate(10, 3, 3)
    train = {row["ground_truth"] for row in countdown.generate(60, 0, 3, "train")}
    assert not train & {row["ground_truth"] for row in countdown.generate(60, 0, 3, "validation")}


def test_more_problems_than_there_are(monkeypatch):
    monkeypatch.setattr(countdown, "LARGEST_NUMBER", 3)
    with pytest.raises(TooMany, match=r"there are about 1[0-9] different problems of 2 numbers; ask for fewer"):
        countdown.generate(1000, 0, 2)
