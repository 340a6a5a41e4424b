"""Answers made to break a grader: nothing runs, nothing hangs, and what was cut off is counted as such."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import stages.grading
from stages.grading import grade_response, r1_zero_reward_fn
from stages.grading.equivalence import decide

ROOM = Path(stages.grading.__file__).parent
FORBIDDEN_CALLS = {
    "eval",
    "exec",
    "compile",
    "__import__",
    "parse_expr",
    "sympify",
    "parse_latex",
    "latex2sympy",
}
FORBIDDEN_MODULES = {"pickle", "marshal", "shelve", "sympy", "importlib", "math_verify", "code", "ctypes"}


def tagged(answer: str) -> str:
    return f"</think> <answer> {answer} </answer>"


def calls_of(call, limit: int) -> int:
    """Python-level calls made by `call`: a measure of work that no machine load changes. Stops past the limit."""
    count = 0

    def count_call(frame, event, argument):
        nonlocal count
        count += event == "call"
        if count > limit:
            raise AssertionError(f"more than {limit} calls")

    sys.setprofile(count_call)
    try:
        call()
    finally:
        sys.setprofile(None)
    return count


def octal(text: str) -> str:
    return "".join(f"\\{ord(char):03o}" for char in text)


@pytest.mark.parametrize(
    "template",
    [
        "{code}",
        "ln('{octal}')",
        'ln("{octal}")',
        "sqrt(__import__('os').system('touch {path}'))",
        "\\text{{{code}}}",
        "f({code})",
        "(lambda: {code})()",
        "[x for x in [1] if {code}]",
        "x.__class__.__base__.__subclasses__()[0]({code})",
        "Integer({code})",
        "$({command})",
        "`{command}`",
        "; {command}",
        "\\input{{|{command}}}",
        "\\write18{{{command}}}",
        "{{{{{code}}}}}",
    ],
)
def test_code_in_an_answer_does_nothing(tmp_path, template):
    path = tmp_path / "owned"
    code = f"__import__('pathlib').Path('{path}').touch()"
    answer = template.format(code=code, octal=octal(code), path=path, command=f"touch {path}")
    exec(code)  # the payload itself works
    assert path.exists()
    path.unlink()
    for gold in ("5", "x", r"\frac{1}{2}", r"\ln 2", r"\text{yes}"):
        assert r1_zero_reward_fn(tagged(answer), gold)["reward"] == 0.0
    assert not path.exists()


def test_the_room_has_no_way_to_run_text():
    """But for the process that loads a grader which its user names: that file is the user's code, never a text."""
    for file in {*ROOM.glob("*.py")} - {ROOM / "reference_worker.py"}:
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Call):
                name = getattr(node.func, "id", getattr(node.func, "attr", ""))
                is_regex = name == "compile" and getattr(node.func, "value", None) is not None
                assert is_regex or name not in FORBIDDEN_CALLS, f"{file.name}:{node.lineno} calls {name}"
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            assert not {name.split(".")[0] for name in names} & FORBIDDEN_MODULES, f"{file.name}:{node.lineno}"


@pytest.mark.parametrize(
    ("answer", "verdict"),
    [
        ("9**9**9**9", "too_long"),
        ("9^{9^{9^{9}}}", "too_long"),
        ("10^{10^{10}}", "too_long"),
        ("2**(10**9)", "too_long"),
        ("99999999!", "too_long"),
        ("((9!)!)!", "too_long"),
        ("1e999999999", "too_long"),
        ("1e-999999999", "too_long"),
        ("\\binom{10^9}{10^8}", "too_long"),
        ("\\sqrt{2}+2^{60000}", "too_long"),
        ("(" * 100 + "1" + ")" * 100, "too_long"),
        ("{" * 300 + "1" + "}" * 300, "wrong"),
        ("\\sqrt{" * 100 + "2" + "}" * 100, "too_long"),
        ("2^" * 100 + "2", "too_long"),
        ("," * 100_000, "too_long"),
        ("1" * 100_000, "too_long"),
        ("x+" * 50_000, "too_long"),
        ("1," * 900 + "1", "too_long"),
        ("(1,(9**9**9**9))", "too_long"),
        ("\\pm" * 20 + "1", "too_long"),
        ("[1]*10**9", "wrong"),
        ("'a'*10**10", "wrong"),
        ("(x+1)**300-(x+2)**300", "wrong"),
        ("x**(1/7)+(x+1)**(1/5)+sqrt(x+sqrt(x+sqrt(x+1)))", "wrong"),
        ("1/0", "wrong"),
        ("0^0", "wrong"),
        ("0^{-1}", "wrong"),
        ("\\ln 0", "wrong"),
        ("\\tan 90^\\circ", "wrong"),
        ("\\sqrt[0]{2}", "wrong"),
        ("\\sqrt[-3]{2}", "wrong"),
        ("\\sin(10^{50})", "wrong"),
        ("e^{e^{e^{e^{e}}}}", "wrong"),
        ("x^{x^{x^{x}}}", "wrong"),
        ("\\ud800", "wrong"),
        ("\ud800", "wrong"),
        ("5\x00", "wrong"),
        ("\\text{" * 30 + "y+1" + "}" * 30, "wrong"),
        ("\\text{" * 100 + "y+1" + "}" * 100, "too_long"),
        ("\\begin{pmatrix}1\\\\2", "wrong"),
        ("nan", "wrong"),
        ("lambda x: x", "wrong"),
    ],
)
def test_attacks_end_in_a_counted_verdict(answer, verdict):
    for gold in ("7", r"\sqrt{7}", "x", "204_5", "12:30", "(1,2)", r"\{1,2\}", r"5\text{ m}", "x=2", "x<2"):
        outcome = grade_response(tagged(answer), gold, "r1_zero")
        assert outcome.reward == 0.0
        if gold == r"\sqrt{7}":
            assert outcome.verdict == verdict, outcome.reason


@pytest.mark.parametrize("gold", ["9**9**9**9", "99999999!", "1" * 3_000, " "])
def test_a_reference_past_the_limits_is_reported_as_such(gold):
    assert decide(gold, r"\frac{3}{7}+1").outcome == "bad_reference"
    assert decide(gold, gold).outcome == "correct"


ATOMS = [
    "x",
    "2",
    r"\pi",
    r"\sqrt{x+1}",
    r"\sin x",
    r"\frac{x}{3}",
    "e^x",
    r"\binom{x}{2}",
    "x!",
    "|x|",
    r"\ln x",
    "f(x)",
]


@pytest.mark.parametrize("atom", ATOMS)
@pytest.mark.parametrize("glue", ["+", r"\cdot ", "-", "/", "^", " "])
def test_work_is_bounded_for_long_expressions(atom, glue):
    answer = glue.join([atom] * 120)[:1_900]
    calls_of(lambda: decide(r"\sqrt{x}+\pi", answer), 1_500_000)


def test_work_is_bounded_for_long_lists():
    irrational = ",".join(rf"\sqrt{{{n}}}" for n in range(2, 100))
    backwards = ",".join(rf"\sqrt{{{n}}}" for n in range(99, 1, -1))
    calls_of(lambda: decide(irrational, backwards), 1_500_000)
    assert decide(irrational, backwards).outcome in ("correct", "too_long")


def test_boxes_are_found_in_linear_work():
    response = r"\boxed{" * 20_000
    assert calls_of(lambda: grade_response(response, "5", "question_only"), 200_000) > 0
    assert grade_response(response + "5" + "}" * 20_000, "5", "question_only").verdict == "correct"


def test_importing_the_room_and_grading_numbers_needs_no_numeric_library():
    program = (
        "import sys; from stages.grading import r1_zero_reward_fn as f;"
        "assert f('</think> <answer> 0.5 </answer>', '\\\\frac12')['reward'] == 1.0;"
        "assert f('</think> <answer> 1,234 </answer>', 1234)['reward'] == 1.0;"
        "assert not {'mpmath', 'sympy', 'torch', 'numpy'} & set(sys.modules), sorted(sys.modules)"
    )
    root = ROOM.parents[1]
    subprocess.run([sys.executable, "-c", program], cwd=root, check=True)
