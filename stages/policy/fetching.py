"""Policies that are only sampled from: used where they lie, not copied."""

from __future__ import annotations

from pathlib import Path

from stages.records import DataError
from stages.sources import ModelSource

_WANTED = ["*.json", "*.safetensors", "*.jinja", "tokenizer.model"]


def local_folder(source: ModelSource) -> Path:
    """The folder of a policy: its `path`, or the Hub's files in its cache, downloaded if need be. Raises DataError."""
    if source.path is not None:
        if not (Path(source.path) / "config.json").is_file():
            raise DataError(f"{source.path}: no config.json in it; give the Hugging Face folder of a policy")
        return Path(source.path)
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError

    try:
        return Path(snapshot_download(source.hub, revision=source.revision, allow_patterns=_WANTED))
    except LocalEntryNotFoundError:
        raise DataError(
            f"{source.hub} is not in the local cache and the Hub cannot be reached; run once with network, or give "
            "`path:` with a local folder instead of `hub`"
        ) from None
    except (HfHubHTTPError, HFValidationError) as error:
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise DataError(
            f"{source.hub} cannot be had from the Hub ({reason:.160}); check id and revision and accept the policy's "
            "terms there, or give `path:` with a local folder"
        ) from None
