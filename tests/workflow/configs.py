"""Configs to check, and what is said of those that cannot work."""

from __future__ import annotations

from typing import Any

import pytest
from snakemake_interface_common.exceptions import WorkflowError

from workflow.schema import load

GRPO = {"train": "train", "validation": "validation"}


def config(**sections: Any) -> dict[str, Any]:
    data = {
        "train": {"source": "arithmetic", "split": "train", "size": 4},
        "validation": {"source": "arithmetic", "split": "validation", "size": 4},
        "traces": {"source": "arithmetic_traces", "size": 4},
    }
    return {"preset": "test", "model": {"pretrain": {}}, "data": data | sections.pop("data", {}), **sections}


def rates(**changes: Any) -> dict[str, Any]:
    return {"stage": "grpo", "fixed": GRPO, "grid": {"learning_rate": [1.0e-4, 3.0e-4]}} | changes


def faults(given: dict[str, Any]) -> list[str]:
    with pytest.raises(WorkflowError) as refused:
        load(given)
    first, *lines = str(refused.value).splitlines()
    assert first == "the config cannot work:"
    return [line.strip() for line in lines]
