"""Files of a dataset on the Hugging Face Hub at a pinned commit, from its cache or downloaded.

Without network, or without the right to the data, the error names the local file that would do instead.
"""

from __future__ import annotations

import re
from pathlib import Path

from stages.records import DataError
from stages.sources import DatasetFiles

_ENDINGS = ("parquet", "jsonl", "jsonl.gz")
_SHARD = re.compile(r"-[0-9]{5}-of-([0-9]{5})[-.]")


def local_files(source: DatasetFiles) -> list[Path]:
    """The local file of a source, or the files of its Hub dataset in order. Raises DataError."""
    if source.path is not None:
        return [Path(source.path)]
    wanted = patterns(source)
    folder = _download(source, wanted)
    found = next((files for pattern in wanted if (files := sorted(folder.glob(pattern)))), [])
    if not found:
        raise DataError(f"{_told(source)} has no file {' or '.join(wanted)}; name one with `file`")
    shards = _SHARD.search(found[0].name)
    if shards and source.file is None and len(found) != int(shards[1]):
        raise DataError(
            f"{_told(source)}: {len(found)} of {int(shards[1])} files of the split are at hand; run again online"
        )
    return found


def patterns(source: DatasetFiles) -> list[str]:
    """Names that the wanted files may have, the most likely first: `<config>/<split>-00000-of-00001.parquet`, ..."""
    if source.file is not None:
        return [source.file]
    folders = ["data/", ""] if source.config is None else [f"{source.config}/", f"data/{source.config}/"]
    names = [f"{source.split}{rest}.{ending}" for ending in _ENDINGS for rest in ("-*", "")]
    return [folder + name for folder in folders for name in names]


def _download(source: DatasetFiles, wanted: list[str]) -> Path:
    """The folder that holds the wanted files, named as in the dataset."""
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError

    try:
        return Path(snapshot_download(source.hub, repo_type="dataset", revision=source.revision, allow_patterns=wanted))
    except LocalEntryNotFoundError:
        raise DataError(
            f"{_told(source)} is not in the local cache and the Hub cannot be reached; run once with network, or "
            f"replace `hub` and what belongs to it by `path:` with a local copy of {' or '.join(wanted[:1])}"
        ) from None
    except (HfHubHTTPError, HFValidationError) as error:
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise DataError(
            f"{_told(source)} cannot be had from the Hub ({reason:.160}); check id and revision and accept the "
            f"dataset's terms there, or give `path:` with a local copy of {wanted[0]}"
        ) from None


def _told(source: DatasetFiles) -> str:
    return f"{source.hub} at {source.revision[:12]}"
