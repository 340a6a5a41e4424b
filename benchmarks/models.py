"""Which decoders can be trained and sampled here: docs/models.md, made by `python -m benchmarks.models`.

Every architecture that the installed Transformers know as a causal language model is built tiny and random, with
windows, soft bounds and scales of such size that they matter, then sampled from and scored; every log-prob is held
against log_softmax(model(ids).logits) of its sequence alone.
"""

from __future__ import annotations

import contextlib
import io
import logging
import sys
import warnings
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import torch
import transformers
from transformers import CONFIG_MAPPING, AutoModelForCausalLM, GenerationConfig, PreTrainedModel
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

from stages.engines.decoding import Shared
from stages.engines.protocol import Request, Sampling
from stages.engines.transformers import TransformersEngine
from stages.policy.checking import check_scoring, own_log_probs
from stages.policy.scoring import fits, make_sequences, score
from stages.policy.shared_attention import supported
from stages.policy.tiny import make_tokenizer
from stages.records import DataError
from stages.tasks.arithmetic import documents

TABLE = Path(__file__).parent.parent / "docs" / "models.md"
VOCABULARY = 300
SIZES: dict[str, Any] = (
    dict.fromkeys(("hidden_size", "n_embd", "d_model", "word_embed_proj_dim", "lru_width", "dim"), 32)
    | dict.fromkeys(("num_hidden_layers", "n_layer", "n_layers", "num_layers", "decoder_layers", "encoder_layers"), 2)
    | dict.fromkeys(("num_attention_heads", "n_head", "n_heads", "decoder_attention_heads"), 4)
    | dict.fromkeys(("intermediate_size", "n_inner", "ffn_dim", "decoder_ffn_dim", "ffn_hidden_size"), 48)
    | dict.fromkeys(("max_position_embeddings", "n_positions", "max_seq_len", "n_ctx"), 128)
    | dict.fromkeys(("num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts"), 4)
    | dict.fromkeys(("num_experts_per_tok", "moe_k", "moe_topk"), 2)
    | dict.fromkeys(("moe_intermediate_size", "shared_expert_intermediate_size", "shared_intermediate_size"), 16)
    | dict.fromkeys(("sliding_window", "attention_window_size", "window_size", "attention_chunk_size"), 8)
    | dict.fromkeys(("final_logit_softcapping", "logits_soft_cap", "output_logit_soft_cap"), 2.0)
    | dict.fromkeys(("logits_scaling", "logit_scale", "lm_head_multiplier"), 0.25)
    | {"attn_logit_softcapping": 2.0, "num_key_value_heads": 2, "head_dim": 8, "vocab_size": VOCABULARY}
    | {"n_group": 1, "topk_group": 1, "first_k_dense_replace": 1, "q_lora_rank": 8, "kv_lora_rank": 8}
    | {"qk_rope_head_dim": 4, "qk_nope_head_dim": 4, "v_head_dim": 8, "state_size": 8, "time_step_rank": 4}
    | {"hidden_size_per_layer_input": 8, "vocab_size_per_layer_input": VOCABULARY, "num_kv_shared_layers": 0}
)
MATCHED = {"num_key_value_heads": 4, "qk_head_dim": 8, "head_dim": 4}  # latent attention: a key for each query head
OWN: dict[str, dict[str, Any]] = (
    dict.fromkeys(("axk1", "axk2", "deepseek_v3", "deepseek_v32", "glm4_moe_lite", "glm_moe_dsa"), MATCHED)
    | dict.fromkeys(("kimi_linear", "longcat_flash", "minicpm3", "youtu"), MATCHED)
    | {kind: {"rotary_dim": 4} for kind in ("codegen", "gptj")}
)
PROMPTS = (11, 15, 18)  # tokens; windows are 8
SAMPLING = Sampling(temperature=1.0, min_tokens=4, max_tokens=12, stop=("e",))
TOLERANCE = 1e-3


class Verdict(NamedTuple):
    """What became of one architecture: `shared` and `plain` say yes or no; `refused` why it is not taken, if so."""

    kind: str
    shared: bool
    plain: bool
    refused: str
    furthest: float  # nats, of all ways that are used


def build(kind: str) -> PreTrainedModel:
    """A tiny random model; raises whatever its config or constructor raises where it cannot be built so."""
    config_class = CONFIG_MAPPING[kind]
    known = config_class().to_dict() | dict.fromkeys(config_class.attribute_map)
    values = {name: value for name, value in SIZES.items() if name in known} | OWN.get(kind, {})
    config = config_class(**values, tie_word_embeddings=False)
    for name in ("bos_token_id", "pad_token_id"):
        setattr(config, name, None)
    config.eos_token_id = 0
    with torch.device("meta"):
        count = sum(p.numel() for p in AutoModelForCausalLM.from_config(config, dtype=torch.float32).parameters())
    if count > 1e7:
        raise ValueError(f"{count:,} parameters: not tiny")
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(config, dtype=torch.float32).eval()
    for parameter in model.parameters():
        if parameter.dim() > 1:
            torch.nn.init.normal_(parameter, 0, 0.2)
    model.generation_config = GenerationConfig(eos_token_id=0)
    return model


def judge(kind: str, model: PreTrainedModel) -> Verdict:
    """Open the model as stages do, sample and score, and measure."""
    tokenizer = make_tokenizer(islice(documents(0, 0.2, 0.8), 100), VOCABULARY)
    try:
        check_scoring(model)
        engine = TransformersEngine(model, tokenizer, 8)
    except DataError as refused:
        return Verdict(kind, False, False, str(refused), 0.0)
    generator = torch.Generator().manual_seed(1)
    furthest, shared = 0.0, False
    for lengths in ((2, 3, 2), PROMPTS):
        prompts = [torch.randint(10, VOCABULARY - 10, (n,), generator=generator).tolist() for n in lengths]
        sampling = SAMPLING if lengths is PROMPTS else Sampling(1.0, 2, 4, ())
        answers = engine.generate([Request(p, [i, i + 9]) for i, p in enumerate(prompts)], sampling)
        rows = [one for group in answers for one in group]
        own = [own_log_probs(model, prompts[i // 2], one.token_ids) for i, one in enumerate(rows)]
        batch = make_sequences(prompts, [one.token_ids for one in rows], "cpu")
        shared |= fits(model, batch) and engine.way(max(lengths) + sampling.max_tokens) is Shared
        ways = [[torch.tensor(one.log_probs) for one in rows]]
        for share in (False, True):
            found, _ = score(model, batch, temperature=1.0, shared=share)
            ways.append([row[: len(each)].detach() for row, each in zip(found, own, strict=True)])
        away = max((a - b).abs().max().item() for way in ways for a, b in zip(way, own, strict=True))
        furthest = max(furthest, away)
    return Verdict(kind, shared and supported(model), True, "", furthest)


def verdict(kind: str) -> Verdict | str:
    """The verdict on an architecture, or why none could be built."""
    with warnings.catch_warnings(), contextlib.redirect_stderr(io.StringIO()), torch.no_grad():
        warnings.simplefilter("ignore")
        try:
            model = build(kind)
        except Exception as error:
            return (str(error).strip() or type(error).__name__).splitlines()[0][:120]
        return judge(kind, model)


def render(found: dict[str, Verdict | str]) -> str:
    """The table as Markdown: what works, what is refused, and what no tiny model of could be built."""
    rows = {kind: one for kind, one in found.items() if isinstance(one, Verdict)}
    works = sum(one.plain for one in rows.values())
    lines = [
        "# Decoders that can be trained and sampled",
        "",
        f"Made by `python -m benchmarks.models` from Transformers {transformers.__version__}: causal language models, "
        "tiny and random, sampled",
        "from by engine transformers and scored, with long sequences, bounds and scales",
        "that matter. Every log-prob of one that works is within 1e-3 nats of `log_softmax(model(ids).logits)` of",
        f"each sequence. Of {len(rows)} that were built, {works} work; {len(rows) - works} are refused in one line.",
        "",
        "`shared`: prompts run once for all of their responses, where no window is shorter than the sequence. `plain`:",
        "every response runs with a prompt of its own. What is not shared is plain by itself, which is slower.",
        "",
        "| architecture | shared | plain | refused, because |",
        "|---|---|---|---|",
    ]
    said = {True: "yes", False: "no"}
    lines += [
        f"| {kind} | {said[one.shared]} | {said[one.plain]} | {one.refused.split(': ', 1)[-1].replace('|', '/')} |"
        for kind, one in sorted(rows.items())
    ]
    rest = ", ".join(sorted(set(found) - set(rows)))
    return "\n".join(
        [
            *lines,
            "",
            "Not built tiny by this command, so not known until one is opened, when it is checked:",
            rest + ".",
            "",
        ]
    )


def main() -> None:
    """Judge the architectures named, or all of them and write the table. Fails if a number is wrong."""
    logging.disable(logging.WARNING)
    transformers.logging.set_verbosity_error()
    found = {}
    for kind in sys.argv[1:] or sorted(MODEL_FOR_CAUSAL_LM_MAPPING_NAMES):
        found[kind] = verdict(kind)
        print(kind, found[kind], flush=True)
    if not sys.argv[1:]:
        TABLE.write_text(render(found), encoding="utf-8")
    wrong = [kind for kind, one in found.items() if isinstance(one, Verdict) and one.furthest > TOLERANCE]
    if wrong:
        sys.exit(f"wrong numbers: {', '.join(wrong)}")


if __name__ == "__main__":
    main()
