"""GSM8K and MMLU answers beyond the shared case files."""

import pytest

from stages.tasks.gsm8k_answers import gsm8k_gold, gsm8k_numbers_equal, parse_gsm8k_response
from stages.tasks.mmlu_answers import parse_mmlu_response

EXAMPLE = {
    "subject": "virology",
    "question": "How many?",
    "options": ["100", "1", "10", "unknown"],
    "answer": "A",
}


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("10 - 5", "5"),
        ("10 -5", "5"),
        ("x = - 5", "-5"),
        ("a loss of (-5)", "-5"),
        ("-\\$5", "-5"),
        ("−7 degrees.", "-7"),
        ("pages 3–5", "5"),
        ("the twenty-5 club", "5"),
        ("- 5 apples", "5"),
        ("2024-11-05", "05"),
        ("**-1,234.50**", "-1234.50"),
        ("£1,000,000.00.", "1000000.00"),
        ("9{,}500 and 9,\\!600", "9600"),
        ("$118 000.", "118000"),
        ("rooms 118 000", "000"),
        ("version 3.14.15", "15"),
        ("1,2345", "2345"),
        ("It is -.5", "-0.5"),
        ("-5%", "-5"),
        ("no number", None),
        ("", None),
        ("½ ² ③", None),
    ],
)
def test_the_last_number_of_an_output(text, number):
    assert parse_gsm8k_response(text) == number


@pytest.mark.parametrize(
    ("a", "b", "equal"),
    [
        ("18.00", "18", True),
        ("1,000", "1000", True),
        ("-0", "0", True),
        (".5", "0.50", True),
        ("+7", "7", True),
        ("18", "-18", False),
        ("18", "18.01", False),
        ("0.1", "0.10000000000000001", False),
        (None, None, False),
        (None, "0", False),
        ("", "0", False),
        (".", "0", False),
        ("5 apples", "5", False),
        ("1e3", "1000", False),
        ("9" * 5_000, "9" * 5_000, False),  # past the limit on digits
    ],
)
def test_comparison_as_numbers(a, b, equal):
    assert gsm8k_numbers_equal(a, b) is equal
    assert gsm8k_numbers_equal(b, a) is equal


@pytest.mark.parametrize(
    ("answer", "gold"),
    [
        ("He pays 2*$9=$<<2*9=18>>18.\n#### 18", "18"),
        ("...\n#### 1,080", "1080"),
        ("...\n#### -5", "-5"),
        ("...\n#### $2.50 ", "2.50"),
        ("#### 3\nWait.\n#### 4", "4"),
    ],
)
def test_gold_line(answer, gold):
    assert gsm8k_gold(answer) == gold
    assert parse_gsm8k_response(answer) == gold


NOT_ONE_NUMBER = [
    "1/2",
    "12 (not 13)",
    "3:45",
    "5 x 10^3",
    "1e3",
    r"\frac{1}{2}",
    "2 1/2",
    "1 000",
    "12%",
    "1,00",
    "--5",
]


@pytest.mark.parametrize("line", NOT_ONE_NUMBER)
def test_a_gold_line_is_read_whole_or_refused(line):
    with pytest.raises(ValueError, match="not one number"):
        gsm8k_gold(f"So:\n#### {line}")


@pytest.mark.parametrize("answer", ["18", "#### ", "#### none", "the #### 18"])
def test_a_solution_without_a_gold_line_is_an_error(answer):
    with pytest.raises(ValueError, match="####"):
        gsm8k_gold(answer)


@pytest.mark.parametrize(
    ("output", "letter"),
    [
        ("The correct answer is **B**.", "B"),
        ("The correct answer is (C).", "C"),
        ("The correct answer is:\n\nB", "B"),
        ("The correct answer is option D", "D"),
        ('The correct answer is "D"', "D"),
        ("The correct answer is $\\text{B}$.", "B"),
        ("The correct answer is B 1", "B"),
        ("The correct answer is B: 1", "B"),
        ("The correct answer is B, because it is.", "B"),
        ("The correct answer is B. I am sure the correct answer is B.", "B"),
        ("The correct answer is A", "A"),
        ("The correct answer is A virus.", None),
        ("The correct answer is A's.", None),
        ("The correct answer is Both.", None),
        ("The correct answer is A, B", None),
        ("The correct answer is B/C", None),
        ("The correct answer is A. No, the correct answer is B.", None),
        ("The correct answer is not B.", None),
        ("B", None),
        ("I choose B.", None),
    ],
)
def test_the_letter_of_the_sentence(output, letter):
    assert parse_mmlu_response(EXAMPLE, output) == letter


def test_the_options_bound_the_letters():
    five = {**EXAMPLE, "options": ["1", "2", "3", "4", "5"]}
    assert parse_mmlu_response(five, "The correct answer is E.") == "E"
    assert parse_mmlu_response(EXAMPLE, "The correct answer is E.") is None


def test_an_option_that_begins_with_a_letter_may_be_repeated():
    cells = {**EXAMPLE, "options": ["A cells", "B cells", "C", "D or E"]}
    assert parse_mmlu_response(cells, "The correct answer is C) C") == "C"
    assert parse_mmlu_response(cells, "The correct answer is D) D or E") == "D"
    assert parse_mmlu_response(cells, "The correct answer is D or B") is None


def test_a_very_long_output_is_read_in_linear_work():
    output = "The correct answer is " * 20_000 + "B."
    assert parse_mmlu_response(EXAMPLE, output) is None
    assert parse_gsm8k_response("1" * 100_000 + " 7") == "7"
