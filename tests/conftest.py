"""Read before any test module: threads would only fight over the few cores that small tensors do not need."""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
