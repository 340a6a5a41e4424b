"""What is handed down while an answer is read: the step budget and the nesting so far."""

from collections.abc import Callable
from dataclasses import dataclass

from stages.grading.answers import Answer
from stages.grading.lexer import Token
from stages.grading.limits import MAX_DEPTH, TooBig
from stages.grading.numeric import Budget


@dataclass(frozen=True)
class Scope:
    budget: Budget
    depth: int = 0

    def deeper(self) -> "Scope":
        """The scope of a part. Raises TooBig past MAX_DEPTH."""
        if self.depth >= MAX_DEPTH:
            raise TooBig(f"nested deeper than {MAX_DEPTH} levels")
        return Scope(self.budget, self.depth + 1)


Read = Callable[[list[Token], Scope], Answer]  # reads a part; handed down so that modules need no import cycle
