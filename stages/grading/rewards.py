"""Reward functions: format gate, extraction, comparison, verdict.

The contract is that of the public graders for this assignment: `(response, ground_truth, fast)` to a dict of floats
under `format_reward`, `answer_reward` and `reward`. All work is bounded by counting (see `limits`), so the functions
need no alarm and run in any thread; `pool.GraderPool` adds killable processes around the same code.
"""

from stages.grading.benchmarks import BENCHMARKS
from stages.grading.equivalence import Decision, decide, decide_quickly
from stages.grading.extract import EXTRACTORS, last_boxed
from stages.grading.verdict import Verdict, make_verdict

_TELLING = ("correct", "wrong", "too_long", "bad_reference")  # which verdict stands for several references

GroundTruth = str | int | float | list[str]


def reference_texts(ground_truth: GroundTruth) -> list[str]:
    """The accepted answers as text. Raises TypeError for anything but a str, int, float or list of str."""
    if isinstance(ground_truth, str):
        return [ground_truth]
    if isinstance(ground_truth, int | float):
        return [str(ground_truth)]
    if not isinstance(ground_truth, list):
        kind = type(ground_truth).__name__
        raise TypeError(f"ground_truth must be a str, int, float or list of str, got {kind}: {ground_truth!r:.80}")
    for entry in ground_truth:
        if not isinstance(entry, str):
            kind = type(entry).__name__
            raise TypeError(f"every entry of a ground_truth list must be a str, got {kind}: {entry!r:.80}")
    return ground_truth


def grade_response(response: str, ground_truth: GroundTruth, kind: str) -> Verdict:
    """Grades one response under a format contract of EXTRACTORS or the rule of one of BENCHMARKS; any match in a list
    of answers counts.

    Raises TypeError for a response that is not text or a ground truth that is none of the accepted types, and
    ValueError for an unknown kind. Hostile text raises nothing.
    """
    answer, references = extract(response, ground_truth, kind)
    return answer if isinstance(answer, Verdict) else grade_answer(answer, references)


def extract(response: str, ground_truth: GroundTruth, kind: str) -> tuple[str | Verdict, list[str]]:
    """The answer (or the verdict, where the format settles it) and the references. Errors as in grade_response."""
    if kind not in EXTRACTORS and kind not in BENCHMARKS:
        raise ValueError(f"unknown grading kind {kind!r}; one of {', '.join([*EXTRACTORS, *BENCHMARKS])}")
    if not isinstance(response, str):
        raise TypeError(f"response must be a str, got {type(response).__name__}")
    if kind in BENCHMARKS:
        return _by_rule(response, reference_texts(ground_truth), kind), []
    references = [_unboxed(reference) for reference in reference_texts(ground_truth)]
    found = EXTRACTORS[kind](response)
    if not found.formatted:
        return make_verdict("unformatted", None, found.reason), references
    if found.answer is None:
        return make_verdict("wrong", None, found.reason), references
    return found.answer, references


def _by_rule(response: str, references: list[str], kind: str) -> Verdict:
    verdicts = [BENCHMARKS[kind](response, reference) for reference in references]
    if not verdicts:
        return make_verdict("bad_reference", None, "the list of references is empty")
    return next((one for one in verdicts if one.verdict == "correct"), verdicts[0])


def _unboxed(reference: str) -> str:
    return (last_boxed(reference) or "") if "\\boxed" in reference else reference


def grade_answer(answer: str, references: list[str]) -> Verdict:
    """Grades an extracted answer: `correct` if it equals any reference, else the most telling other verdict."""
    decisions = []
    for reference in references:
        decisions.append(decide(reference, answer))
        if decisions[-1].outcome == "correct":
            break
    return _combined(answer, decisions)


def grade_quickly(answer: str, references: list[str]) -> Verdict | None:
    """The verdict of grade_answer where no reference needs to be read as mathematics, else None."""
    decisions = [decide_quickly(reference, answer) for reference in references]
    correct = [decision for decision in decisions if decision is not None and decision.outcome == "correct"]
    if correct:
        return _combined(answer, correct)
    return None if None in decisions else _combined(answer, decisions)


def _combined(answer: str, decisions: list[Decision]) -> Verdict:
    if not decisions:
        return make_verdict("bad_reference", answer, "the list of references is empty")
    telling = min(decisions, key=lambda decision: _TELLING.index(decision.outcome))
    return make_verdict(telling.outcome, answer, telling.reason)


def r1_zero_reward_fn(response: str, ground_truth: GroundTruth, fast: bool = True) -> dict[str, float]:
    """Rewards under the r1_zero prompt (`</think> <answer> ... </answer>`).

    `fast` is part of the public signature; there is one grading mode here, so both values give the same rewards.
    """
    return grade_response(response, ground_truth, "r1_zero").rewards()


def question_only_reward_fn(response: str, ground_truth: GroundTruth, fast: bool = True) -> dict[str, float]:
    r"""Rewards under the bare question prompt (last `\boxed{}`). `fast` as in `r1_zero_reward_fn`."""
    return grade_response(response, ground_truth, "question_only").rewards()


REWARD_FUNCTIONS = {
    "r1_zero": r1_zero_reward_fn,
    "question_only": question_only_reward_fn,
}
