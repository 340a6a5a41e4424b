"""Grades hostile strings in one process and reports what it found: `python benchmarks/fuzz_grading.py --count 1000000`.

Strings come from six generators (fragments of LaTeX, damaged answers, deep nesting, repetition, code, any Unicode) and
are graded against a gold drawn from the test cases. Exit status 1 if anything raised or took a second of CPU time.
"""

import argparse
import heapq
import json
import random
import sys
import time
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from stages.grading import grade_response  # noqa: E402 (the repository root has to be on the path first)
from stages.grading.vocabulary import words  # noqa: E402

CASES = ROOT / "tests" / "grading" / "cases" / "equivalence.json"
COMMANDS = sorted(
    words(
        r"""\frac \dfrac \sqrt \sqrt[ \left( \right) \left\{ \right\} \{ \} \text{ \mathrm{ \mathbf{ \boxed{ \pi
        \infty \pm \mp \cup \cap \in \setminus \sin \cos^ \tan^{-1} \ln \log_ \exp \begin{pmatrix} \end{pmatrix} \\
        & \% \$ ^\circ \cdot \times \div \le \ge \ne \approx \equiv \binom \choose \over \overline{ \mathbb{R} {,}
        \, \! \; \quad \lfloor \rfloor | \emptyset \ldots \angle \vec{ \operatorname{ \sum_ \int \lim_ \to
        \text{and} \text{or} \text{cm} \mathrm{m/s}^2"""
    )
)
PLAIN = "0123456789" * 2 + "xyzabefin+-*/^_=<>()[]{}|,.;:!%'\"$&~ \n\\"
WORDS = sorted(
    words(
        """cm apples million or and not sqrt sin pi inf nan True None base 2 e5 1e9 0. 1,000 12:30 p.m. A) ** //
        .. ''"""
    )
)
CODE = sorted(
    words(
        r"""__import__('os').system('id') eval( exec( lambda x:x [1]*10**9 'a'*10**9 9**9**9**9 99999999!
        x.__class__ {0.__class__} ln('\137\137') open('/etc/passwd') %s%n $(id) `id` ;id \input{/etc/passwd}
        \write18{id} 1e999999999 10^{10^{10}} (x+1)**300-(x+2)**300 ((9!)!)! \x00 \ud800"""
    )
)
BRACKETS = (
    *(
        ("(", ")"),
        ("{", "}"),
        ("[", "]"),
        (r"\{", r"\}"),
        (r"\sqrt{", "}"),
        (r"\frac{1}{", "}"),
        (r"\text{", "}"),
    ),
    *(
        ("f(", ")"),
        ("2^{", "}"),
        ("|", "|"),
        (r"\sin(", ")"),
        ("-", ""),
        ("(1,", ")"),
        ("x_{", "}"),
        (r"\ln ", ""),
    ),
)


def fragments(rng: random.Random, gold: str) -> str:
    pieces = rng.choices((COMMANDS, PLAIN, WORDS), weights=(3, 5, 1), k=rng.randint(1, 40))
    return "".join(rng.choice(piece) for piece in pieces)


def damaged(rng: random.Random, gold: str) -> str:
    text = list(gold)
    for _ in range(rng.randint(1, 4)):
        place = rng.randint(0, len(text))
        text[place : place + rng.randint(0, 2)] = rng.choice((*PLAIN, *COMMANDS, "", ""))
    return "".join(text)


def nested(rng: random.Random, gold: str) -> str:
    opening, closing = rng.choice(BRACKETS)
    depth = rng.choice((1, 2, 5, 20, 60, 300))
    return opening * depth + rng.choice((gold, "x", "2", "")) + closing * rng.choice((depth, depth - 1, depth + 1))


def repeated(rng: random.Random, gold: str) -> str:
    piece = rng.choice((*COMMANDS, *WORDS, "9", ",", "1,", "x+", "x*", "x^", "!", "%", "'", "^2", "=1", "<x", "±", " "))
    return piece * rng.choice((2, 5, 30, 200, 900, 5_000)) + rng.choice(("", "1", "x", gold))


def code(rng: random.Random, gold: str) -> str:
    return (
        rng.choice(("", "5", gold, r"\text{")) + "".join(rng.choices(CODE, k=rng.randint(1, 3))) + rng.choice(("", "}"))
    )


def unicode(rng: random.Random, gold: str) -> str:
    def char() -> str:
        return chr(rng.choice((rng.randint(0, 0x2FF), rng.randint(0x2000, 0x2BFF), rng.randint(0, 0x10FFFF))))

    return "".join(rng.choice((char(), rng.choice(PLAIN))) for _ in range(rng.randint(1, 30)))


GENERATORS = (fragments, damaged, nested, repeated, code, unicode)
WEIGHTS = (8, 8, 2, 1, 1, 4)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    rng = random.Random(arguments.seed)
    golds = [case["gold"] for case in json.loads(CASES.read_text())]
    verdicts: Counter[str] = Counter()
    slowest: list[tuple[float, str, str]] = []
    raised: list[str] = []
    started = time.process_time()
    for _ in range(arguments.count):
        gold = rng.choice(golds)
        answer = rng.choices(GENERATORS, WEIGHTS)[0](rng, gold)
        before = time.process_time()
        try:
            verdicts[grade_response(f"</think> <answer>{answer}</answer>", gold, "r1_zero").verdict] += 1
        except Exception as error:
            raised.append(f"{type(error).__name__}: {error} for gold {gold!r}, answer {answer[:200]!r}")
        heapq.heappush(slowest, (time.process_time() - before, gold, answer))
        if len(slowest) > 5:
            heapq.heappop(slowest)
    return report(arguments, verdicts, slowest, raised, time.process_time() - started)


def report(arguments, verdicts: Counter, slowest: list, raised: list[str], seconds: float) -> int:
    print(f"strings     {arguments.count} (seed {arguments.seed}), {seconds:.0f} s CPU with generation")
    print(f"verdicts    {', '.join(f'{name} {count}' for name, count in verdicts.most_common())}")
    print(f"exceptions  {len(raised)}")
    for line in raised[:10]:
        print(f"            {line}")
    for cpu, gold, answer in sorted(slowest, reverse=True):
        print(f"slowest     {cpu * 1000:.1f} ms  gold {gold[:40]!r}  answer {answer[:80]!r} ({len(answer)} characters)")
    return int(bool(raised) or max(slowest)[0] >= 1.0)


if __name__ == "__main__":
    sys.exit(main())
