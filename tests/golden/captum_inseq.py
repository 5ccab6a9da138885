"""How `captum_inseq.json` was made (see README.md): captum's and inseq's own numbers on the models of peer_models.py.

    PYTHONPATH=tests:src python tests/golden/captum_inseq.py

with captum 0.9.0, inseq 0.7.1 (and treescope), torch 2.13.0, transformers 5.24.0.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import captum.attr as captum
import inseq
import numpy as np
import torch
from inseq.attr.feat.ops.value_zeroing import ValueZeroing
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from golden.peer_models import ANSWER, IDS, model

NAMES = ("llama with biases", "qwen3")
UNKNOWN, STEPS, TARGET = 4, 50, 3


def words(ids: list[int]) -> str:
    """Token ids as a text: two digits, so that no word begins another."""
    return " ".join(f"w{i:02}" for i in ids)


def tokenizer() -> Any:
    """One that reads `words`."""
    made = Tokenizer(models.WordLevel({f"w{i:02}": i for i in range(97)}, unk_token=f"w{UNKNOWN:02}"))
    made.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    special = {"pad_token": "w00", "bos_token": "w01", "eos_token": "w02", "unk_token": f"w{UNKNOWN:02}"}
    return PreTrainedTokenizerFast(tokenizer_object=made, clean_up_tokenization_spaces=False, **special)


class Embedded(torch.nn.Module):
    """The last row's logits of embeddings: a module, since DeepLift takes no function."""

    def __init__(self, made: Any) -> None:
        super().__init__()
        self.made = made

    def forward(self, embeddings: torch.Tensor) -> torch.Tensor:
        """(batch, n, dim) -> (batch, vocabulary)."""
        return self.made(inputs_embeds=embeddings).logits[:, -1]


def of_captum(made: Any) -> dict[str, Any]:
    """The next token's logit behind IDS, and whole answers by the wrappers of language models."""
    ids = torch.tensor([IDS])
    embeddings = made.get_input_embeddings()(ids).detach()
    embedded, zeros = Embedded(made), torch.zeros_like(embeddings)
    gradients = captum.Saliency(embedded).attribute(embeddings, target=TARGET, abs=False)[0]
    products = captum.InputXGradient(embedded).attribute(embeddings, target=TARGET)[0]
    integrated = captum.IntegratedGradients(embedded).attribute(embeddings, zeros, target=TARGET, n_steps=STEPS)[0]
    rescaled = captum.DeepLift(embedded).attribute(embeddings, zeros, target=TARGET)[0]

    def logits(tokens: torch.Tensor) -> torch.Tensor:
        return made(input_ids=tokens).logits[:, -1]

    inner = captum.LayerGradientXActivation(logits, made.model.layers[0]).attribute(ids, target=TARGET)
    inner = inner[0] if isinstance(inner, tuple) else inner
    ablated = captum.FeatureAblation(logits).attribute(ids, baselines=UNKNOWN, target=TARGET)[0]
    text = captum.TextTokenInput(words(IDS), tokenizer(), baselines=UNKNOWN)
    wrapped = captum.LLMAttribution(captum.FeatureAblation(made), tokenizer(), attr_target="prob")
    answers = [
        wrapped.attribute(text, target=words(ANSWER), use_cached_outputs=cached).token_attr for cached in (True, False)
    ]
    return {
        "Saliency, l2": gradients.norm(dim=-1),
        "InputXGradient, sum": products.sum(-1),
        "InputXGradient, l2": products.norm(dim=-1),
        "IntegratedGradients, sum": integrated.sum(-1),
        "DeepLift, sum": rescaled.sum(-1),
        "LayerGradientXActivation of layer 0, sum": inner.reshape(len(IDS), -1).sum(-1),
        "FeatureAblation": ablated,
        "LLMAttribution, cached": answers[0],
        "LLMAttribution, not cached": answers[1],
    }


def _mended(self: ValueZeroing, block_idx: int, hidden_state_idx: int = 0) -> Any:
    """inseq's hook for layers that give a tensor, as transformers 5's do: it takes them for tuples and ends there."""

    def hook(module: Any, args: Any, output: torch.Tensor) -> torch.Tensor:
        self.corrupted_block_output_states[block_idx] = output.clone().float().detach()
        return self.clean_block_output_states[block_idx]

    return hook


def of_inseq(name: str) -> dict[str, Any]:
    """Of every answer token behind IDS, (source, answer token, ...); the probability is explained, as by default."""
    ValueZeroing.get_states_extract_and_patch_hook = _mended

    def scores(method: str, **options: Any) -> torch.Tensor:
        made = model(name)
        made.set_attn_implementation("eager")
        wrapped = inseq.load_model(made, method, tokenizer=tokenizer())
        out = wrapped.attribute(words(IDS), words([*IDS, *ANSWER]), show_progress=False, **options)
        return out.sequence_attributions[0].target_attributions.double().nan_to_num()

    products = scores("input_x_gradient")
    out = {
        "saliency, l2": scores("saliency").norm(dim=-1),
        "input_x_gradient, l2": products.norm(dim=-1),
        "input_x_gradient, sum": products.sum(-1),
        "integrated_gradients, sum": scores("integrated_gradients", n_steps=STEPS).sum(-1),
        "occlusion": scores("occlusion"),
        "attention, mean of heads": scores("attention").mean(-1),
    }
    if "llama" in name:  # inseq's table of modules has no Qwen3
        out["value_zeroing"] = scores("value_zeroing")
    return out


def plain(scores: Any) -> Any:
    """Lists of numbers of seven digits: the packages hold float32."""
    return np.array([float(f"{x:.7g}") for x in np.ravel(scores.detach())]).reshape(scores.shape).tolist()


def main() -> None:
    out: dict[str, Any] = {"captum": {}, "inseq": {}}
    for name in NAMES:
        out["captum"][name] = {label: plain(scores) for label, scores in of_captum(model(name)).items()}
        out["inseq"][name] = {label: plain(scores) for label, scores in of_inseq(name).items()}
    lines = []
    for package, each in out.items():
        for name, scores in each.items():
            inner = ",\n".join(f'   "{label}": {json.dumps(values)}' for label, values in scores.items())
            lines.append(f'  "{package}, {name}": {{\n{inner}\n  }}')
    Path(__file__).with_name("captum_inseq.json").write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
