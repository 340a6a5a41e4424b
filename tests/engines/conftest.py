"""The contract's assertions are told like those of a test file."""

import pytest

pytest.register_assert_rewrite("tests.engines.contract")
