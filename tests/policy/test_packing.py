import json

import pytest
import torch
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast

from stages.algorithm.log_probs import get_response_log_probs
from stages.policy.packing import PackedSFTDataset, encode_document, iterate_batches
from stages.policy.preference import compute_per_instance_dpo_loss

BOS, EOS, UNKNOWN = 0, 1, 2
WORDS = ["one", "two", "three", "four", "five", "six"]


@pytest.fixture
def tokenizer():
    """Words apart, every word of the template one unknown; BOS in front, as Llama's tokenizer has it."""
    vocab = {word: index for index, word in enumerate(["<bos>", "<eos>", "<unk>", *WORDS])}
    backend = Tokenizer(models.WordLevel(vocab, unk_token="<unk>"))
    backend.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    backend.post_processor = processors.TemplateProcessing(single="<bos> $A", special_tokens=[("<bos>", BOS)])
    return PreTrainedTokenizerFast(tokenizer_object=backend, bos_token="<bos>", eos_token="<eos>", unk_token="<unk>")


@pytest.fixture
def dataset_path(tmp_path):
    rows = [("one", "two three"), ("four", "five"), ("six", "one")]
    path = tmp_path / "sft.jsonl"
    path.write_text("\n".join(json.dumps({"prompt": p, "response": r}) for p, r in rows) + "\n")
    return path


# The two sentences of the template with "### Instruction:", and "### Response:".
OPENING = [BOS] + [UNKNOWN] * (8 + 8 + 2)
BETWEEN = [UNKNOWN] * 2
STREAM = [
    *[*OPENING, 3, *BETWEEN, 4, 5, EOS],
    *[*OPENING, 6, *BETWEEN, 7, EOS],
    *[*OPENING, 8, *BETWEEN, 3, EOS],
]


def test_a_document_is_the_template_with_one_eos(tokenizer):
    assert encode_document(tokenizer, "one", "two three") == STREAM[:25]
    assert encode_document(tokenizer, "one", "two three <eos>") == STREAM[:25]


def test_no_newline_comes_between_response_and_eos():
    class Characters:
        eos_token_id = -1

        def encode(self, text):
            return [ord(character) for character in text]

    assert encode_document(Characters(), "say {response}", "done")[-6:] == [*map(ord, "\ndone"), -1]
    assert encode_document(Characters(), "say", "done\n")[-3:] == [ord("e"), ord("\n"), -1]


def test_chunks_are_consecutive_and_labels_run_one_ahead(tokenizer, dataset_path):
    dataset = PackedSFTDataset(tokenizer, dataset_path, seq_length=10, shuffle=False)
    assert len(STREAM) == 73
    assert len(dataset) == 7
    chunks = list(dataset)
    assert [token for chunk in chunks for token in chunk["input_ids"].tolist()] == STREAM[:70]
    assert [token for chunk in chunks for token in chunk["labels"].tolist()] == STREAM[1:71]
    assert {tensor.dtype for chunk in chunks for tensor in chunk.values()} == {torch.int64}


@pytest.mark.parametrize(("seq_length", "chunks"), [(72, 1), (73, 0), (36, 2), (1, 72)])
def test_a_chunk_needs_one_token_more_than_its_length(tokenizer, dataset_path, seq_length, chunks):
    assert len(PackedSFTDataset(tokenizer, dataset_path, seq_length, shuffle=False)) == chunks


def test_shuffling_permutes_whole_documents_by_seed(tokenizer, dataset_path):
    def streams(seed):
        return PackedSFTDataset(tokenizer, dataset_path, 72, shuffle=True, seed=seed).tokens.tolist()

    plain = PackedSFTDataset(tokenizer, dataset_path, 72, shuffle=False).tokens.tolist()
    assert streams(0) == streams(0)
    assert len({tuple(streams(seed)) for seed in range(20)}) == 6  # all orders of three documents
    assert sorted(streams(1)) == sorted(plain)
    assert all(stream.count(EOS) == stream.count(BOS) == 3 for stream in map(streams, range(3)))


def test_batches_are_one_epoch_over_all_chunks(tokenizer, dataset_path):
    dataset = PackedSFTDataset(tokenizer, dataset_path, seq_length=10, shuffle=False)
    for shuffle in (False, True):
        batches = list(iterate_batches(dataset, batch_size=4, shuffle=shuffle))
        assert [tuple(batch["input_ids"].shape) for batch in batches] == [(4, 10), (3, 10)]
        rows = [row for batch in batches for row in batch["labels"].tolist()]
        assert sorted(rows) == sorted(chunk["labels"].tolist() for chunk in dataset)
    assert len(iterate_batches(dataset, batch_size=4, shuffle=True)) == 2


def test_a_faulty_line_is_named(tokenizer, dataset_path):
    with dataset_path.open("a") as file:
        file.write('{"prompt": "one"}\n')
    with pytest.raises(ValueError, match="line 4: expected an object"):
        PackedSFTDataset(tokenizer, dataset_path, 10, shuffle=False)


@pytest.fixture
def models_pair():
    torch.manual_seed(0)
    config = GPT2Config(vocab_size=9, n_positions=64, n_embd=16, n_layer=1, n_head=2)
    return GPT2LMHeadModel(config).eval(), GPT2LMHeadModel(config).eval()


def test_dpo_loss_of_a_pair_is_that_of_responses_conditioned_on_the_prompt(tokenizer, models_pair):
    def response_log_prob(model, response):
        ids = torch.tensor([encode_document(tokenizer, "one", response)])
        log_probs = get_response_log_probs(model, ids[:, :-1], ids[:, 1:])["log_probs"]
        return log_probs[0, -(len(response.split()) + 1) :].sum()  # the response and its EOS, without the prompt

    lm, lm_ref = models_pair
    loss = compute_per_instance_dpo_loss(lm, lm_ref, tokenizer, 0.5, "one", "two three", "four")
    chosen, rejected = (response_log_prob(lm, text) - response_log_prob(lm_ref, text) for text in ("two three", "four"))
    expected = torch.log(1 + torch.exp(-0.5 * (chosen - rejected)))
    torch.testing.assert_close(loss, expected, rtol=0, atol=1e-5)
    loss.backward()
    assert lm.transformer.wte.weight.grad.abs().sum() > 0
    assert all(parameter.grad is None for parameter in lm_ref.parameters())


def test_dpo_loss_of_a_policy_that_is_its_reference_is_log_two(tokenizer, models_pair):
    lm, _ = models_pair
    loss = compute_per_instance_dpo_loss(lm, lm, tokenizer, 0.5, "one", "two", "three four")
    torch.testing.assert_close(loss.item(), 0.6931472)
