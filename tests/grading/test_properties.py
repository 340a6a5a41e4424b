"""Properties over generated answers."""

from fractions import Fraction

from hypothesis import given, settings
from hypothesis import strategies as st

from stages.grading import question_only_reward_fn, r1_zero_reward_fn
from stages.grading.equivalence import decide
from stages.grading.explain import explain
from stages.grading.extract import last_boxed
from stages.grading.quick import simple_number
from stages.tasks.gsm8k_answers import gsm8k_numbers_equal, parse_gsm8k_response

OUTCOMES = {"correct", "wrong", "too_long", "bad_reference"}
COMMANDS = r"""\frac \sqrt \sqrt[3] \left( \right) \{ \} \text{ \text{and} \boxed{ \pi \infty \pm \cup \cap \in \sin \ln
\log_ \begin{pmatrix} \end{pmatrix} \\ \% \$ ^\circ \cdot \le \ge \ne \binom \overline{ \mathbb{R} {,} \, \!"""
FRAGMENTS = [
    *"0123456789xyabefin+-*/^_=<>()[]{}|,.;:!%'$& \n\\",
    *COMMANDS.split(),
    *[
        "cm",
        "apples",
        " or ",
        " and ",
        "**",
        "10^",
        "√",
        "½",
        "²",
        "−",
        "１",
        "∞",
        "≤",
        "e5",
        "0.",
        "1,000",
        "12:30",
    ],
]
fragments = st.lists(st.sampled_from(FRAGMENTS), max_size=25).map("".join)
texts = st.one_of(fragments, st.text(max_size=40))
rationals = st.fractions(min_value=-1000, max_value=1000, max_denominator=200)
deterministic = settings(max_examples=400, deadline=None, derandomize=True, database=None)


@deterministic
@given(texts, texts)
def test_text_never_raises(gold, answer):
    assert decide(gold, answer).outcome in OUTCOMES
    for reward_fn in (r1_zero_reward_fn, question_only_reward_fn):
        rewards = reward_fn(answer, gold)
        assert set(rewards.values()) <= {0.0, 1.0}
    assert explain(gold, answer).splitlines()[-1].startswith("verdict")


@deterministic
@given(texts)
def test_equal_strings_are_equal(text):
    assert decide(text, text).outcome == "correct"
    assert decide(text, f"  {text}\n").outcome == "correct"


@deterministic
@given(texts, texts)
def test_a_pair_is_decided_the_same_way_twice(gold, answer):
    assert decide(gold, answer) == decide(gold, answer)


def spellings(value: Fraction) -> list[str]:
    """Ways to write a rational number."""
    above, below = value.numerator, value.denominator
    sign, size = ("-" if value < 0 else ""), abs(value)
    forms = [f"{above}/{below}", rf"\frac{{{above}}}{{{below}}}", rf"{sign}\dfrac{{{abs(above)}}}{{{below}}}"]
    forms += [
        rf"\frac{{{3 * above}}}{{{3 * below}}}",
        rf"$\frac{{{above}}}{{{below}}}$",
        f"x = {above}/{below}",
    ]
    whole, rest = divmod(size, 1)
    if whole and rest:
        forms.append(rf"{sign}{whole}\frac{{{rest.numerator}}}{{{rest.denominator}}}")
        forms.append(f"{sign}{whole} {rest.numerator}/{rest.denominator}")
    if below == 1:
        forms += [str(above), f"{above}.0", f"{above:,}", f"{sign}00{abs(above)}", rf"{above}\text{{ cm}}"]
    if 1000 % below == 0:
        forms.append(f"{float(value):.3f}")
        forms.append(f"{float(value) * 100:.1f}\\%" if abs(value) <= 1 else f"{float(value):.4f}")
    return forms


@deterministic
@given(rationals, st.data())
def test_every_spelling_of_a_number_is_accepted(value, data):
    gold, answer = (data.draw(st.sampled_from(spellings(value))) for _ in range(2))
    if ("%" in gold and "cm" in answer) or ("cm" in gold and "%" in answer):
        return  # two different units
    assert decide(gold, answer).outcome == "correct", (gold, answer)


@deterministic
@given(rationals, rationals, st.data())
def test_no_spelling_of_another_number_is_accepted(value, other, data):
    if other in (value, value * 100, value / 100):  # percent readings
        return
    gold, answer = data.draw(st.sampled_from(spellings(value))), data.draw(st.sampled_from(spellings(other)))
    assert decide(gold, answer).outcome == "wrong", (gold, answer)


@deterministic
@given(st.integers(-30, 30), st.integers(1, 30), st.integers(-30, 30), st.integers(1, 30))
def test_symmetric_on_exact_values(a, b, c, d):
    left, right = rf"{a}+\sqrt{{{b}}}", rf"{c}+\sqrt{{{d}}}"
    equal = (a == c and b == d) or decide(left, right).outcome == "correct"
    assert decide(left, right).outcome == decide(right, left).outcome
    assert equal == (abs(a + b**0.5 - c - d**0.5) < 1e-9)


@deterministic
@given(st.lists(st.integers(-9, 9), min_size=1, max_size=4), st.integers(-9, 9), st.integers(1, 9))
def test_polynomials_are_equal_as_functions_and_only_then(coefficients, shift, change):
    terms = [f"({value})x^{{{power}}}" for power, value in enumerate(coefficients)]
    forwards, backwards = "+".join(terms), "+".join(reversed(terms))
    assert decide(forwards, backwards).outcome == "correct"
    assert decide(f"{forwards}+{shift}", f"{shift}+{backwards}").outcome == "correct"
    assert decide(forwards, f"{backwards}+{change}").outcome == "wrong"
    assert decide(f"({forwards})(x+{change})", f"x({forwards})+{change}({backwards})").outcome == "correct"


@deterministic
@given(st.lists(st.integers(-99, 99), min_size=2, max_size=6, unique=True), st.randoms(use_true_random=False))
def test_order_matters_in_tuples_and_not_in_sets(values, random):
    shuffled = values[:]
    random.shuffle(shuffled)
    spelled, reordered = ", ".join(map(str, values)), ", ".join(map(str, shuffled))
    assert decide(rf"\{{{spelled}\}}", rf"\{{{reordered}\}}").outcome == "correct"
    assert decide(spelled, reordered).outcome == "correct"
    assert (decide(f"({spelled})", f"({reordered})").outcome == "correct") == (values == shuffled)
    assert decide(rf"\{{{spelled}\}}", rf"\{{{spelled}, 100\}}").outcome == "wrong"


@deterministic
@given(texts)
def test_box_content_is_balanced_and_from_the_text(text):
    content = last_boxed(f"{text} \\boxed{{7}}")
    assert content == "7"
    found = last_boxed(text)
    assert found is None or f"\\boxed{{{found}}}" in text


@deterministic
@given(st.integers(-(10**9), 10**9), st.sampled_from(["{:,}", "{}", "${:,}", "**{}**", "\\boxed{{{}}}", "{}."]))
def test_gsm8k_finds_the_number_it_is_given(value, shape):
    parsed = parse_gsm8k_response(f"First 12 + 30 = 42. So the answer is {shape.format(value)}")
    assert gsm8k_numbers_equal(parsed, str(value))


@deterministic
@given(st.text(max_size=30))
def test_gsm8k_and_numbers_never_raise(text):
    parsed = parse_gsm8k_response(text)
    assert parsed is None or gsm8k_numbers_equal(parsed, parsed)
    number = simple_number(text)
    assert number is None or isinstance(number.value, Fraction)
