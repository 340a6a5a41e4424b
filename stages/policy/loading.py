"""Policies from and to self-contained Hugging Face folders: weights (safetensors only), config, tokenizer."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import torch
from torch import nn
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedModel, PreTrainedTokenizerBase
from transformers.utils.logging import disable_progress_bar

from stages import console, sums
from stages.policy.sharding import weights_once, whole
from stages.records import DataError
from stages.strict import ConfigError

disable_progress_bar()  # a bar of its own for every load and save would drown the stage's progress

Policy = tuple[PreTrainedModel, PreTrainedTokenizerBase]
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}  # by `compute.dtype`
FLASH = "flash_attention_2"


def best_device() -> torch.device:
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def load_policy(
    folder: Path | str,
    dtype: torch.dtype = torch.float32,
    revision: str | None = None,
    attention: str | None = None,
    device: torch.device | None = None,
) -> Policy:
    """Model (on the best device if none is given, evaluation mode, dropout off) and tokenizer of a local folder or a
    hub id. `attention` names an implementation of Transformers; without it, Transformers chooses.

    Raises DataError naming the folder. Code that a model repository brings along is never run.
    """
    refuse_damaged(folder)
    tokenizer = load_tokenizer(folder, revision)
    try:
        model, found = AutoModelForCausalLM.from_pretrained(
            folder,
            revision=revision,
            dtype=dtype,
            attn_implementation=attention,
            use_safetensors=True,
            trust_remote_code=False,
            output_loading_info=True,
        )
    except Exception as error:  # whatever the readers of its files raise comes through Transformers as it is
        raise _unusable(folder, error) from error
    if missing := sorted(found["missing_keys"]):  # Transformers would go on with random values in their place
        raise DataError(
            f"{folder}: the weights lack {len(missing)} tensors of the model that config.json describes, such as "
            f"{missing[0]}; give the config.json that was saved with them"
        )
    if len(tokenizer) > (rows := model.get_input_embeddings().num_embeddings):
        raise DataError(
            f"{folder}: the tokenizer has {len(tokenizer)} tokens, the model {rows}; give the tokenizer that was saved "
            "with it"
        )
    model = model.to(device or best_device()).eval()
    refuse_not_finite(model, folder)
    return model, tokenizer


def refuse_damaged(folder: Path | str) -> None:
    """Raise DataError naming a file of a folder that a stage wrote and that is no longer as it was written."""
    advice = (
        f"if the workflow wrote it, delete {folder} and run again; if you changed it on purpose, delete {sums.NAME}"
    )
    sums.check(Path(folder), advice)


def refuse_not_finite(model: nn.Module, folder: Path | str) -> None:
    """Raise DataError naming a weight that is infinite or no number: every text would be as likely as any other, and
    none a result."""
    broken = [name for name, weight in model.state_dict().items() if not torch.isfinite(weight).all()]
    if broken:
        raise DataError(
            f"{folder}: {len(broken)} of its weights are not finite, such as {broken[0]}; a run that diverged may "
            "leave such a policy (its status.json tells): train it at a lower learning rate, or start from another"
        )


def choose_attention(wanted: str, dtype: torch.dtype, device: torch.device) -> str:
    """`compute.attention` for a model that computes in `dtype` on `device`; `auto` is flash_attention_2 where it can
    run, else sdpa. Raises ConfigError where flash_attention_2 is asked for and cannot run."""
    fits = device.type == "cuda" and dtype == torch.bfloat16
    installed = find_spec("flash_attn") is not None
    if wanted == FLASH and not fits:
        raise ConfigError(
            f"compute.attention: {FLASH} runs on a GPU with compute.dtype bfloat16, and this is {dtype} on "
            f"{device.type}; choose auto or sdpa"
        )
    if wanted == FLASH and not installed:
        raise ConfigError(f"compute.attention: {FLASH} is not installed (pip install flash-attn); choose auto or sdpa")
    if wanted == "auto" and fits and not installed:
        console.say(f"attention: sdpa, because {FLASH} is not installed")
    return wanted if wanted != "auto" else FLASH if fits and installed else "sdpa"


def load_tokenizer(folder: Path | str, revision: str | None = None) -> PreTrainedTokenizerBase:
    """The tokenizer alone, with a token to pad with. Raises DataError naming the folder, also where no token ends a
    text: a policy could neither stop nor be taught to."""
    try:
        tokenizer = AutoTokenizer.from_pretrained(folder, revision=revision, trust_remote_code=False)
    except Exception as error:  # whatever the readers of its files raise comes through Transformers as it is
        raise _unusable(folder, error) from error
    if tokenizer.eos_token_id is None:
        raise DataError(f"{folder}: the tokenizer has no end token; name it in tokenizer_config.json, as eos_token")
    if tokenizer.pad_token_id is None:
        tokenizer.pad_token = tokenizer.eos_token
    return tokenizer


def _unusable(folder: Path | str, error: Exception) -> DataError:
    said = (str(error).strip() or type(error).__name__).splitlines()[0]
    return DataError(
        f"{folder}: cannot load a policy from it ({said}); it needs config.json, model.safetensors and tokenizer "
        "files, each whole and no Git LFS pointer"
    )


def save_policy(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, folder: Path | None, dtype: torch.dtype | None = None
) -> None:
    """Write weights (in `dtype` if given), config and tokenizer, so that the folder stands alone.

    Every process of a policy that is split over several has to call this; those without a `folder` write nothing.
    """
    weights = {}
    for name, tensor in weights_once(model).items():
        value = whole(tensor.detach().to(dtype or tensor.dtype))
        if folder:
            weights[name] = value.cpu()
    if not folder:
        return
    with torch.device("meta"):  # the architecture alone: its own weights would be the split ones
        bare = AutoModelForCausalLM.from_config(model.config, dtype=dtype or model.dtype)
    bare.generation_config = model.generation_config
    bare.save_pretrained(folder, state_dict=weights, safe_serialization=True)
    tokenizer.save_pretrained(folder)


def parameter_count(model: nn.Module) -> int:
    return sum(p.numel() for p in model.parameters())
