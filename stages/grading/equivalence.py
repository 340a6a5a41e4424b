"""Whether an answer equals a reference."""

from stages.grading.limits import MAX_ANSWER_CHARS
from stages.grading.quick import quick_decision


def decide(reference: str, answer: str) -> tuple[str, str]:
    """(`correct` | `wrong` | `too_long` | `bad_reference`, reason) for one reference and one extracted answer."""
    quick = quick_decision(reference, answer)
    if quick is not None:
        equal, rule = quick
        return ("correct" if equal else "wrong"), rule
    if len(answer) > MAX_ANSWER_CHARS:
        return "too_long", f"answer of {len(answer)} characters; the limit is {MAX_ANSWER_CHARS}"
    if not reference.strip() or len(reference) > MAX_ANSWER_CHARS:
        return "bad_reference", "the reference is empty or too long"
    return "wrong", "different"
