"""How often intervals of known differences hold the truth, and how often arms that are alike give another winner.

    python -m benchmarks.coverage
    python -m benchmarks.coverage --experiments 2000 --seed-noise 0.05

Simulated runs answer the same questions: a question has a difficulty, an arm a shift that a question feels more or
less, a seed a luck of its own, and every answer is drawn. What is compared goes through the functions of the report.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import numpy as np
import typer

from stages.reporting.choice import choose
from stages.reporting.comparison import compare
from stages.reporting.runs import Configuration, Run

VALIDATIONS = 3  # that a score is the mean of


def simulated(
    draw: np.random.Generator, shifts: Sequence[float], seeds: int, questions: int = 256, seed_noise: float = 0.02
) -> list[Configuration]:
    """Arms whose expected scores are 0.6 plus their shift, over seeds and questions alike."""
    difficulty = draw.uniform(-0.15, 0.15, size=questions)
    found = []
    for arm, shift in enumerate(shifts):
        felt = draw.normal(shift, 0.05, size=questions)
        runs = []
        for seed in range(seeds):
            chance = np.clip(0.6 + difficulty + felt + draw.normal(0, seed_noise), 0, 1)
            shares = draw.binomial(VALIDATIONS, chance) / VALIDATIONS
            score = {"step": 1, "answer_reward": float(shares.mean()), "num_examples": questions}
            told = dict(zip(map(str, range(questions)), map(float, shares), strict=True))
            values = {"arm": arm, "seed": seed}
            runs.append(Run(f"arm={arm}/seed={seed}", values, validation=(score,), answers=told, answered=VALIDATIONS))
        found.append(Configuration({"arm": arm}, tuple(runs)))
    return found


def coverage(draw: np.random.Generator, seeds: int, experiments: int, seed_noise: float, gap: float = 0.1) -> float:
    """The share of intervals of two settings that hold the true difference."""
    held = 0
    for _ in range(experiments):
        there, here = simulated(draw, (0.0, gap), seeds, seed_noise=seed_noise)
        low, high = compare(here, there, seed_noise).settings
        held += low <= gap <= high
    return held / experiments


def bootstrapped(
    draw: np.random.Generator, seeds: int, experiments: int, seed_noise: float, gap: float = 0.1, draws: int = 300
) -> tuple[float, float]:
    """The same of percentile bootstraps, which are not used: one draws seeds and questions anew, one seeds alone."""
    held = np.zeros(2)
    for _ in range(experiments):
        there, here = simulated(draw, (0.0, gap), seeds, seed_noise=seed_noise)
        tables = [np.array([list(run.answers.values()) for run in one.runs]) for one in (here, there)]
        gaps = tables[0] - tables[1]
        rows = draw.integers(0, seeds, (draws, seeds))
        weights = draw.multinomial(gaps.shape[1], np.full(gaps.shape[1], 1 / gaps.shape[1]), draws) / gaps.shape[1]
        both = np.einsum("dq,dq->d", gaps[rows].mean(axis=1), weights)
        ends = np.quantile([both, gaps.mean(axis=1)[rows].mean(axis=1)], (0.025, 0.975), axis=1)
        held += (ends[0] <= gap) & (gap <= ends[1])
    return tuple(held / experiments)


def others_chosen(
    draw: np.random.Generator, arms: int, seeds: int, experiments: int, seed_noise: float, assumed: float
) -> float:
    """The share of experiments with arms that are alike in which another than the default is passed on."""
    wins = 0
    for _ in range(experiments):
        choice = choose(simulated(draw, arms * (0.0,), seeds, seed_noise=seed_noise), {"seed_noise": assumed})
        wins += choice.winner is not choice.declared
    return wins / experiments


def main(
    experiments: Annotated[int, typer.Option(help="Simulated experiments of each kind.")] = 1000,
    seed_noise: Annotated[float, typer.Option(help="True standard deviation between seeds.")] = 0.02,
    seed: Annotated[int, typer.Option(help="Of the simulation.")] = 0,
) -> None:
    """Print the coverage of 95 % intervals and how often one of several like arms is chosen, by numbers of seeds."""
    draw = np.random.default_rng(seed)
    print("seeds  coverage  bootstrap  of seeds alone  other of 2 arms chosen  of 6 arms")
    for seeds in (1, 2, 3, 5, 10):
        resampled = bootstrapped(draw, seeds, experiments, seed_noise) if seeds > 1 else (float("nan"),) * 2
        cells = coverage(draw, seeds, experiments, seed_noise), *resampled
        alike = [others_chosen(draw, arms, seeds, experiments, seed_noise, seed_noise) for arms in (2, 6)]
        print(f"{seeds:5d}  {cells[0]:8.3f}  {cells[1]:9.3f}  {cells[2]:14.3f}  {alike[0]:22.3f}  {alike[1]:9.3f}")


if __name__ == "__main__":
    typer.run(main)
