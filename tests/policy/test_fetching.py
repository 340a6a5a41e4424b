"""A judge's policy is used where it lies; what is missing is told with the way out."""

import huggingface_hub
import pytest
from huggingface_hub.errors import HFValidationError, LocalEntryNotFoundError

from stages.policy.fetching import local_folder
from stages.records import DataError
from stages.sources import ModelSource

HUB = ModelSource(hub="org/judge", revision="a" * 40)


def test_a_folder_is_used_where_it_lies(tmp_path):
    with pytest.raises(DataError, match=r"no config\.json in it; give the Hugging Face folder"):
        local_folder(ModelSource(path=str(tmp_path)))
    (tmp_path / "config.json").write_text("{}")
    assert local_folder(ModelSource(path=str(tmp_path))) == tmp_path


def test_the_hub_is_asked_for_that_commit_and_for_no_code(tmp_path, monkeypatch):
    asked = {}

    def download(repository, **options):
        asked.update(options, repository=repository)
        return str(tmp_path)

    monkeypatch.setattr(huggingface_hub, "snapshot_download", download)
    assert local_folder(HUB) == tmp_path
    assert (asked["repository"], asked["revision"]) == ("org/judge", "a" * 40)
    assert "*.safetensors" in asked["allow_patterns"]
    assert not [pattern for pattern in asked["allow_patterns"] if pattern.endswith((".py", ".bin", "*"))]


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (LocalEntryNotFoundError("offline"), "org/judge is not in the local cache and the Hub cannot be reached"),
        (
            HFValidationError("not an id\nand more"),
            r"cannot be had from the Hub \(not an id\); .*accept the policy's terms",
        ),
    ],
)
def test_what_cannot_be_had_says_what_to_do(monkeypatch, error, told):
    def refuse(*args, **options):
        raise error

    monkeypatch.setattr(huggingface_hub, "snapshot_download", refuse)
    with pytest.raises(DataError, match=told):
        local_folder(HUB)
