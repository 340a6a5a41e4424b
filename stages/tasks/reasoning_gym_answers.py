"""Answers to Reasoning Gym tasks, scored by the package's own verifiers, of which only those reviewed are called.

A verifier runs on text that a model wrote, so each in REVIEWED was read for three things: it never evaluates that text,
its work is bounded by the text's length, and it gives 1.0 for nothing but a right answer. The review holds for one
version of the package.
"""

from __future__ import annotations

import contextlib
import difflib
import importlib.metadata
import io
import os
from functools import cache
from typing import Any

VERSION = "0.1.25"
MAX_CHARS = 8_000

# Compares the text with the one right answer (the package's default verifier).
_SAME_TEXT = """
acre aiw arc_1d base_conversion basic_arithmetic binary_alternation caesar_cipher count_bits count_primes
course_schedule gcd isomorphic_strings largest_island lcm leg_counting letter_counting list_functions mahjong_puzzle
maze modulo_grid number_filtering number_sequence ransom_note rotate_matrix rotten_oranges simple_equations
simple_geometry string_manipulation string_splitting string_synthesis syllogism word_sequence_reversal
"""
# The same after folding case, blanks, order or layout.
_SAME_AFTER_FOLDING = """
ab circuit_logic color_cube_rotation dice emoji_mystery family_relationships futoshiki knights_knaves letter_jumble
manipulate_matrix mini_sudoku needle_haystack path_star self_reference sentence_reordering spell_backward sudoku
tsumego word_sorting zebra_puzzles
"""
# Reads numbers with int, float or Decimal and compares them.
_SAME_NUMBER = """
advanced_geometry calendar_arithmetic chain_sum decimal_arithmetic decimal_chain_sum fraction_simplification
gsm_symbolic number_format power_function prime_factorization products rectangle_count time_intervals
"""
# Splits the text or reads it as JSON, and checks what it describes: many answers can be right.
_CHECKED = """
cryptarithm game_of_life group_anagrams jugs kakurasu palindrome_generation palindrome_partitioning quantum_lock
shortest_path survo tower_of_hanoi word_ladder
"""
REVIEWED = frozenset((_SAME_TEXT + _SAME_AFTER_FOLDING + _SAME_NUMBER + _CHECKED).split())

_EVAL = "its verifier passes the model's text to eval"
_SYMPY = "its verifier passes the model's text to SymPy's parse_expr, which evaluates it"
_STORED = "its verifier evaluates text that is kept with the question"
REFUSED = {
    "binary_matrix": _EVAL,
    "n_queens": _EVAL,
    "spiral_matrix": _EVAL,
    "string_insertion": _EVAL,
    "countdown": f"{_SYMPY}; `source: countdown` offers the task with a verifier that does not",
    "puzzle24": _SYMPY,
    "simple_integration": _SYMPY,
    "intermediate_integration": _SYMPY,
    "polynomial_multiplication": _SYMPY,
    "bitwise_arithmetic": _STORED,
    "number_sorting": _STORED,
    "coin_flip": "its verifier expands 1e999999999 to its digits, and calls `0` right where 0.25 is",
    "complex_arithmetic": "its verifier calls NaN right",
    "figlet_font": "its verifier calls a word right of which ten letters are",
    "game_of_life_halting": "its verifier calls every text right",
    "polynomial_equations": "its verifier calls every text without numbers right where there is no solution",
    "arc_agi": "its verifier compares with tuples, which are lists once they have been stored",
    "rearc": "its verifier compares with tuples, which are lists once they have been stored",
    "codeio": "it makes its questions by running stored programs",
    "composite": "it is a mixture; give each of its parts a dataset of its own",
}


@cache
def fault(dataset: str) -> str | None:
    """Why a dataset cannot be used, None where it can. Looks at the installed package without importing it."""
    if dataset in REFUSED:
        return f"Reasoning Gym's {dataset!r} is refused: {REFUSED[dataset]}"
    if dataset not in REVIEWED:
        close = difflib.get_close_matches(dataset, REVIEWED, n=3) or sorted(REVIEWED)
        return (
            f"{dataset!r} is not among the Reasoning Gym datasets whose verifier was reviewed for use on a model's "
            f"text: {', '.join(close)}"
        )
    try:
        installed = importlib.metadata.version("reasoning-gym")
    except importlib.metadata.PackageNotFoundError:
        return f"Reasoning Gym is not installed; run pip install reasoning-gym=={VERSION}"
    if installed != VERSION:
        return (
            f"Reasoning Gym {installed} is installed and its verifiers were reviewed in {VERSION}; run "
            f"pip install reasoning-gym=={VERSION}"
        )
    return None


def check_reasoning_gym(problem: dict[str, Any], answer: str) -> tuple[str, str]:
    """(verdict, reason) for an answer to `{"dataset": name, "answer": oracle, "metadata": {...}}`.

    The verifier's partial credit counts as wrong. `bad_reference` stands for a dataset that may not be used.
    """
    dataset = problem.get("dataset")
    if (problem_fault := fault(str(dataset))) is not None:
        return "bad_reference", problem_fault
    if len(answer) > MAX_CHARS:
        return "too_long", f"an answer of {len(answer)} characters; the limit is {MAX_CHARS}"
    with contextlib.redirect_stdout(io.StringIO()):  # some verifiers print, and a grading process talks over stdout
        try:
            score = float(_scorer(dataset)(answer, problem))
        except Exception as error:  # third-party code that fails on this answer: the answer is not right
            return "wrong", f"the verifier of {dataset} raised {type(error).__name__}: {error!s:.80}"
    return ("correct" if score == 1.0 else "wrong"), f"scored {score:g} by the verifier of {dataset}"


@cache
def _scorer(dataset: str) -> Any:
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # its buffers count against a grading process's memory limit
    import reasoning_gym

    return reasoning_gym.get_score_answer_fn(dataset)
