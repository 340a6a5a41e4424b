"""The table of decoders, over a dozen of both kinds: those that share prompts, and those that cannot."""

from __future__ import annotations

import pytest

from benchmarks.models import TOLERANCE, Verdict, render, verdict

KINDS = {"llama": True, "cohere": True, "nanochat": True, "mistral": True, "gemma3_text": True, "hyperclovax": True}
KINDS |= {"gemma2": False, "gpt_oss": False, "deepseek_v3": False, "jamba": False, "falcon": False, "granitemoe": False}


@pytest.mark.parametrize("kind", KINDS)
def test_log_probs_are_the_models_own(kind):
    found = verdict(kind)
    assert isinstance(found, Verdict), found
    assert (found.plain, found.refused) == (True, "")
    assert found.furthest < TOLERANCE
    assert found.shared or not KINDS[kind]


def test_what_sees_the_future_is_refused_in_one_line_of_the_table():
    found = verdict("bert")
    assert not found.plain
    assert "\n" not in found.refused
    assert "| bert | no | no | its log-probs would be" in render({"bert": found, "blt": "not tiny"})
