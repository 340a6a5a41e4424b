"""Whether an answer equals a reference: fast path, length limit, reading both sides, the rule that matches.

Everything here is pure and bounded by counting, so the outcome depends on the two strings alone.
"""

import re
from dataclasses import dataclass
from functools import lru_cache

from stages.grading.limits import MAX_ANSWER_CHARS, TooBig, Unreadable
from stages.grading.quick import quick_decision
from stages.tasks.verifiers import verifier_of, verify

_COMMA_SPACE = re.compile(r",\s+")


@dataclass(frozen=True)
class Reading:
    """One side as read. `answer` is None where the grammar does not cover it (`problem` says why); `canonical` is
    its token spelling, None where even tokens fail; `too_big` tells a limit from an unreadable text."""

    text: str
    canonical: str | None = None
    answer: object | None = None
    problem: str | None = None
    too_big: bool = False


@dataclass(frozen=True)
class Decision:
    """`outcome` is correct, wrong, too_long or bad_reference; the readings are None on the fast path."""

    outcome: str
    reason: str
    gold: Reading | None = None
    answer: Reading | None = None


def decide(gold: str, answer: str) -> Decision:
    """Decides one reference and one extracted answer. Never raises on text.

    A reference that names its task is checked by that task's own verifier, not compared as mathematics.
    """
    if verifier_of(gold) is not None:
        return Decision(*verify(gold, answer))
    return decide_quickly(gold, answer) or _decide_readings(_read_reference(gold), read(answer))


def decide_quickly(gold: str, answer: str) -> Decision | None:
    """What text, plain numbers and lengths decide without reading; None where reading is needed."""
    verifier = verifier_of(gold)
    if verifier is not None:
        return Decision(*verify(gold, answer)) if verifier.quick else None
    quick = quick_decision(gold, answer)
    if quick is not None:
        return Decision("correct" if quick[0] else "wrong", quick[1])
    if not gold.strip() or len(gold) > MAX_ANSWER_CHARS:
        return Decision("bad_reference", f"the reference is empty or longer than {MAX_ANSWER_CHARS} characters")
    if len(answer) > MAX_ANSWER_CHARS:
        return Decision("too_long", f"an answer of {len(answer)} characters; the limit is {MAX_ANSWER_CHARS}")
    if not answer.strip():
        return Decision("wrong", "an empty answer")
    return None


def read(text: str, grouping: bool = True) -> Reading:
    """Normalises, tokenises and reads one side; problems are recorded, not raised."""
    from stages.grading.lexer import canonical, tokenize
    from stages.grading.normalize import normalize
    from stages.grading.numeric import Budget
    from stages.grading.reader import read_special, read_tokens
    from stages.grading.scope import Scope
    from stages.grading.words import spelled_out, unwrapped

    plain = normalize(text)
    plain = spelled_out(plain) or plain
    spelling = None
    try:
        tokens = tokenize(plain, grouping)
        spelling = canonical(tokens)
        answer = read_special(unwrapped(plain)) or read_tokens(tokens, Scope(Budget()))
        return Reading(plain, spelling, answer)
    except (TooBig, RecursionError) as error:  # the second only for a caller deep in its own stack
        return Reading(plain, spelling, problem=str(error), too_big=True)
    except Unreadable as error:
        return Reading(plain, spelling, problem=str(error))


@lru_cache(maxsize=1024)
def _read_reference(text: str) -> Reading:
    """A reference is met by a whole group of samples, an answer mostly once."""
    return read(text)


def _decide_readings(gold: Reading, answer: Reading) -> Decision:
    from stages.grading.words import phrase, same_option

    if gold.canonical and gold.canonical == answer.canonical:
        return Decision("correct", "same symbols", gold, answer)
    if _tight_commas(gold.text) == _tight_commas(answer.text):
        return Decision("correct", "same text apart from spaces behind commas", gold, answer)
    if same_option(gold.text, answer.text):
        return Decision("correct", "same option letter", gold, answer)
    if gold.too_big:
        return Decision("bad_reference", f"the reference asks for too much work: {gold.problem}", gold, answer)
    if answer.too_big:
        return Decision("too_long", answer.problem, gold, answer)
    if gold.answer is None or answer.answer is None:
        words = phrase(gold.text)
        if words and words == phrase(answer.text):
            return Decision("correct", "same words", gold, answer)
        side = answer if answer.answer is None else gold
        return Decision("wrong", f"different text (not read as mathematics: {side.problem})", gold, answer)
    return _decide_answers(gold, answer)


def _decide_answers(gold: Reading, answer: Reading) -> Decision:
    from stages.grading.answers import Listing
    from stages.grading.compare import match
    from stages.grading.numeric import Budget

    try:
        rule = match(gold.answer, answer.answer, Budget())
        if rule is None and isinstance(gold.answer, Listing) and "," in answer.text:
            rule = match(gold.answer, read(answer.text, grouping=False).answer, Budget())
    except (TooBig, RecursionError) as error:
        return Decision("too_long", str(error), gold, answer)
    except Unreadable as error:
        return Decision("wrong", str(error), gold, answer)
    if rule is None:
        return Decision("wrong", "different answers", gold, answer)
    return Decision("correct", rule, gold, answer)


def _tight_commas(text: str) -> str:
    """`100, 200` as `100,200`: whether a comma groups digits or separates, the same digits were meant."""
    return _COMMA_SPACE.sub(",", text)
