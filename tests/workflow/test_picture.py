"""The picture in the README is that of the workflow."""

from __future__ import annotations

import pytest

from tests.workflow.conftest import ROOT
from workflow import picture


def test_the_readme_shows_the_workflow_as_it_is():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert picture.redrawn(readme) == readme, "run `make picture`"


def test_a_readme_without_a_place_for_it_is_an_error():
    with pytest.raises(ValueError, match="no <!-- dag -->"):
        picture.redrawn("# Title\n")
