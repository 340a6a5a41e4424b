"""Instruction-tuning documents, packed: no padding, every position trains."""

import json
import random
from collections.abc import Iterator, Sequence
from os import PathLike
from typing import Protocol

import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset
from transformers import PreTrainedModel

from stages.policy.scoring import make_sequences, score
from stages.tasks.prompts import render


class Tokenizer(Protocol):
    """What is used of a Hugging Face tokenizer."""

    eos_token_id: int | None

    def encode(self, text: str) -> list[int]: ...


def encode_document(tokenizer: Tokenizer, prompt: str, response: str) -> list[int]:
    """Token ids of one instruction and its response in the Alpaca template, closed by exactly one EOS.

    The newline that ends the template's file does not come between the response and EOS. The tokenizer adds
    the special tokens it always adds: Llama begins with BOS, GPT-2 and Qwen with nothing.
    """
    if tokenizer.eos_token_id is None:
        raise ValueError("the tokenizer has no eos token; without one the model never learns to stop")
    document = render("alpaca_sft", instruction=prompt, response=response).removesuffix("\n")
    ids = list(tokenizer.encode(document))
    return ids if ids[-1:] == [tokenizer.eos_token_id] else [*ids, tokenizer.eos_token_id]


class PackedSFTDataset(Dataset):
    """Documents of a JSON-lines file in one stream of tokens, cut into chunks of `seq_length`.

    Each line holds `prompt` and `response`. Item i is a dict of `input_ids` and `labels`, int64
    [seq_length]: the labels are the tokens one position further on, so the last one of a chunk is the first
    of the next. A rest that does not fill a chunk with its labels is dropped. `shuffle` permutes documents,
    not chunks, by `seed`.
    """

    def __init__(
        self,
        tokenizer: Tokenizer,
        dataset_path: str | PathLike,
        seq_length: int,
        shuffle: bool,
        seed: int = 0,
    ):
        if seq_length < 1:
            raise ValueError(f"seq_length must be at least 1, got {seq_length}")
        documents = list(_read_documents(dataset_path))
        if shuffle:
            random.Random(seed).shuffle(documents)
        stream = [token for document in documents for token in encode_document(tokenizer, *document)]
        self.seq_length = seq_length
        self.tokens = torch.tensor(stream, dtype=torch.int64)

    def __len__(self) -> int:
        return max(len(self.tokens) - 1, 0) // self.seq_length

    def __getitem__(self, index: int) -> dict[str, Tensor]:
        if not 0 <= index < len(self):
            raise IndexError(f"chunk {index} of {len(self)}")
        start, stop = index * self.seq_length, (index + 1) * self.seq_length
        return {"input_ids": self.tokens[start:stop], "labels": self.tokens[start + 1 : stop + 1]}


def iterate_batches(dataset: Dataset, batch_size: int, shuffle: bool, seed: int = 0) -> DataLoader:
    """One pass over `dataset` is one epoch: dicts of int64 [batch_size, seq_length], the last may be smaller.

    With `shuffle`, the order follows from `seed`; passing over the result again continues the sequence and
    gives another order.
    """
    generator = torch.Generator().manual_seed(seed)
    return DataLoader(dataset, batch_size=batch_size, shuffle=shuffle, generator=generator)


class Epochs:
    """Tokenised documents, packed for every epoch in an order of its own, which follows from (seed, epoch).

    A chunk holds `seq_length` + 1 tokens, of which the last is the first of the next chunk: all but the last are read,
    all but the first are predicted. Every epoch has as many chunks, `len(epochs)`, and drops the rest.
    """

    def __init__(self, documents: Sequence[Sequence[int]], seq_length: int, seed: int) -> None:
        self.documents = documents
        self.seq_length = seq_length
        self.seed = seed
        self._packed: tuple[int, list[list[int]]] | None = None

    def __len__(self) -> int:
        return max(sum(map(len, self.documents)) - 1, 0) // self.seq_length

    def chunks(self, epoch: int) -> list[list[int]]:
        """The chunks of one epoch; the newest epoch asked for is kept."""
        if self._packed is None or self._packed[0] != epoch:
            order = list(self.documents)
            random.Random(f"{self.seed}/{epoch}").shuffle(order)
            self._packed = epoch, cut(order, self.seq_length)
        return self._packed[1]

    def batch(self, size: int, step: int, n_epochs: int) -> list[list[int]]:
        """The `step`-th batch, from 0, of all epochs in a row; the last one may be smaller."""
        last = min((step + 1) * size, len(self) * n_epochs)
        places = [divmod(position, len(self)) for position in range(step * size, last)]
        return [self.chunks(epoch)[index] for epoch, index in places]


def cut(documents: Sequence[Sequence[int]], seq_length: int) -> list[list[int]]:
    """Documents in one stream, cut into chunks of `seq_length` tokens and the one after them; the rest is dropped."""
    stream = [token for document in documents for token in document]
    return [stream[at : at + seq_length + 1] for at in range(0, len(stream) - seq_length, seq_length)]


def chunk_nll(model: PreTrainedModel, chunks: Sequence[Sequence[int]]) -> Tensor:
    """Negative log-likelihood in nats, summed over all tokens of the chunks but the first of each; a scalar.

    Documents of a chunk see those before them, as in the handout.
    """
    sequences = make_sequences([chunk[:1] for chunk in chunks], [chunk[1:] for chunk in chunks], model.device)
    log_probs, _ = score(model, sequences, temperature=1.0, shared=False)
    return -log_probs.sum()


def _read_documents(path: str | PathLike) -> Iterator[tuple[str, str]]:
    with open(path, encoding="utf-8") as lines:
        for number, line in enumerate(lines, start=1):
            if not line.strip():
                continue
            try:
                row = json.loads(line)
                yield row["prompt"], row["response"]
            except (json.JSONDecodeError, KeyError, TypeError) as error:
                raise ValueError(
                    f'{path}, line {number}: expected an object with "prompt" and "response" ({error!r})'
                ) from error
