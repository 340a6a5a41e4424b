"""The explanation names both readings, the rule and the verdict."""

from stages.grading.equivalence import decide
from stages.grading.explain import explain


def test_a_verdict_is_explained_by_both_readings_and_the_rule():
    text = explain(r"\boxed{(-\infty,3)\cup[5,\infty)}", "$x<3$ or $x>=5$")
    assert text.splitlines() == [
        r"gold     (-\infty,3)\cup[5,\infty)",
        "  read as  real numbers (-infinity, 3) or [5, infinity)",
        "answer   $x<3$ or $x>=5$",
        "  cleaned  x<3  or  x>=5",
        "  read as  real numbers (-infinity, 3) or [5, infinity)",
        "rule     same set of real numbers",
        "verdict  correct",
    ]


def test_what_was_not_read_and_what_was_too_much_is_said():
    assert "text (the command \\int)" in explain("5", r"\int x")
    assert "too much work (a power of more than" in explain("5", "9**9**9**9")
    assert "plain numbers, not equal" in explain("5", "6")
    assert "(5000 characters)" in explain("5", "1" * 5_000)


def test_every_kind_of_answer_can_be_described():
    answers = {
        r"5\text{ cm}": "value 5, unit 1/100 metre",
        "x=5": "x is value 5",
        "(1,2)": "tuple or interval () of 2: value 1; value 2",
        r"\{1,2\}": "set of 2: value 1; value 2",
        "x<2": "real numbers (-infinity, 2)",
        r"\begin{pmatrix}1&2\end{pmatrix}": "matrix 1, 2",
        "3:5:7": "ratio 3 : 5 : 7",
        "7:05 pm": "time 07:05 p.m.",
        "204_5": "numeral 204 in base 5",
        "x+y^2=1": "equation ((x + (y)^(2)) + -1) = 0",
        "x+y<1": "inequality ((x + y) + -1) < 0",
        r"f(x)+\sin x-\frac{x}{y}": "value (f(x) + sin(x) + -1*(x)/(y))",
    }
    for answer, description in answers.items():
        assert f"  read as  {description}" in explain(answer, "1").splitlines(), explain(answer, "1")


def test_the_explained_verdict_is_the_verdict_given():
    for gold, answer in ((r"\frac12", "0.5"), ("x=5", "y=5"), ("7", "99999999!"), (" ", "x")):
        assert explain(gold, answer).endswith(f"verdict  {decide(gold, answer).outcome}")
