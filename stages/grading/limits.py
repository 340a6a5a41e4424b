"""Every bound of the grader, in one place.

Work is bounded by counting before it is done, so a verdict depends on the two strings alone and never on how
busy the machine is. The wall-clock and memory limits of the worker pool stand behind these as a backstop.
"""

MAX_ANSWER_CHARS = 2_000  # longer extracted answers are `too_long`; the longest gold of MATH has 300
MAX_TOKENS = 800
MAX_DEPTH = 40  # nesting of brackets, braces and function calls
MAX_ITEMS = 100  # members of one list, tuple, set or matrix
MAX_DIGITS = 1_000  # digits of one literal
MAX_INTEGER_BITS = 1 << 16  # any integer made by a power, factorial or binomial
MAX_FACTORIAL = 5_000
MAX_NUMERIC_BITS = 4_096  # total size of the constants in a pair compared at high precision
MAX_EXP_ARGUMENT = 100_000  # |x| in exp(x), in any power and in trigonometric functions
MAX_GAMMA_BITS = 1_024  # precision of a factorial of a number that is not an integer
MAX_STEPS = 20_000  # node evaluations spent on one pair
MAX_SIGN_CHOICES = 4  # independent plus-minus signs in one expression (16 values)
STATED_DIGITS = 12  # significant digits from which a decimal may stand for the number it rounds


class TooBig(Exception):
    """An answer asks for more work than the limits allow; reported as the verdict `too_long`."""


class Unreadable(Exception):
    """Text that the mathematical grammar does not cover; it can still be equal as text."""
