"""Read before any test module: threads would only fight over the few cores that small tensors do not need."""

import os
from pathlib import Path

import pytest

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")


@pytest.fixture(scope="session")
def warm(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Inputs of training stages whose policy has learned a little."""
    from tests.small_runs import write_warm_inputs  # brings torch along, which most tests do without

    folder = tmp_path_factory.mktemp("warm")
    write_warm_inputs(folder)
    return folder
