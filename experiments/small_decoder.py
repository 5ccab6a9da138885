"""A small GPT-NeoX trained on planted prompts, and which method finds the source there.

Words are tokens. A share of the sets of what a prompt says (its facts, its lines, its names with place and gift, its
nouns with what links them) stands in no text that the model is trained on, though each part does; measured is on those.

python experiments/small_decoder.py FOLDER [--steps 900] [--items 67] [--tasks ...] [--plain] (resumes)
"""

from __future__ import annotations

import random
import time
from argparse import ArgumentParser
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from small_decoder_texts import KINDS, held, parts_of, texts, tokenizer_of
from transformers import GPTNeoXConfig, GPTNeoXForCausalLM

import mixlens
from mixlens.tasks.example import Example
from mixlens.tasks.planted import NAMES, NUMBERS, OWNED, SUBJECTS

TASKS: dict[str, tuple[str, dict[str, Any]]] = {
    "needle": ("needle", {"keys": 3}),
    "needle in filler": ("needle", {"keys": 3, "filler": 6}),
    "variables": ("variables", {"steps": 2, "chains": 2}),
    "indirect object": ("ioi", {}),
    "agreement": ("agreement", {"attractors": 1}),
}
METHODS = (
    ("random", "random", {}),
    ("attention_rollout", "attention_rollout", {"receptive_field": False}),
    ("globenc", "globenc", {"receptive_field": False}),
    ("alti", "alti", {"receptive_field": False}),
    ("ifr", "ifr", {}),
    ("flashtrace", "flashtrace", {}),
    ("head_logit", "head_logit", {}),
    ("head_logit, signed", "head_logit", {"signed": True}),
    ("path_logit", "path_logit", {}),
    ("path_logit, itself left out", "path_logit", {"itself": False}),
    ("path_logit, no r, head by head", "path_logit", {"average": None, "clamp": "head"}),
    ("path_logit, all rows", "path_logit", {"paths": "all"}),
    ("alti_logit", "alti_logit", {}),
    ("saliency", "saliency", {}),
    ("grad_l2", "grad_l2", {}),
    ("attcat", "attcat", {}),
    ("cp_lrp", "cp_lrp", {}),
    ("attn_lrp", "attn_lrp", {}),
    ("gim", "gim", {}),
)
ALL, NEXT = "mrr", "mrr, first token left out"
MEASURES = (ALL, (NEXT, "mrr", {"first": False}))
DEFAULTS = ("path_logit",)
SEEDS = (0, 1, 2)
LAYERS, WIDTH, HEADS, LONGEST = 3, 128, 4, 256
RATE, SPREAD = 2e-3, WIDTH**-0.5  # the usual 0.02 is for wide models: here attention would begin as a mean
BATCH = {"needle": 20, "variables": 20, "ioi": 6, "agreement": 8}  # texts a step
HARDEST, MASTERED = 4, 0.88  # a kind's level, and how often it is answered when the next begins
RESAMPLES = 10_000


def untrained(words: int, plain: bool) -> GPTNeoXForCausalLM:
    """Rotary positions over all of a head, attention and feed-forward side by side."""
    sizes = {"hidden_size": WIDTH, "num_hidden_layers": LAYERS, "num_attention_heads": HEADS}
    sizes |= {"intermediate_size": 2 * WIDTH, "max_position_embeddings": LONGEST}
    others = {"initializer_range": SPREAD, "rotary_pct": 1.0, "bos_token_id": None, "eos_token_id": None}
    model = GPTNeoXForCausalLM(GPTNeoXConfig(vocab_size=words, **sizes, **others)).train()
    if not plain:
        shape(model)
    return model


@torch.no_grad()
def shape(model: GPTNeoXForCausalLM) -> None:
    """Begin near what recalls a value, in place: from plain random weights minutes of one core do not get there.

    Three heads of layer 0 look one, two and three words back, by their biases, and carry the same part of a word into
    three subspaces; above, head 0 matches what came over one word with what came over two, head 1 two with three.
    Values go through orthogonal maps and back. The output's embeddings begin as half the input's. All is trained after.
    """
    size = WIDTH // HEADS
    carried = torch.linalg.qr(torch.randn(WIDTH, size))[0]
    spaces = torch.linalg.qr(torch.randn(WIDTH, WIDTH))[0].view(WIDTH, HEADS, size)
    angles = 10_000.0 ** (-torch.arange(size // 2) / (size // 2))  # of rotary positions, a word
    strong = 6.0 * (torch.arange(size // 2) < 6)  # the six fastest tell near positions apart
    for depth, layer in enumerate(model.gpt_neox.layers):
        weights = layer.attention.query_key_value.weight.view(HEADS, 3, size, WIDTH)
        bias = layer.attention.query_key_value.bias.view(HEADS, 3, size)
        out = layer.attention.dense.weight.view(WIDTH, HEADS, size)
        for head in range(HEADS):
            weights[head, 1] = 0.7 * (weights[head, 0] + weights[head, 1])
            values = torch.linalg.qr(torch.randn(WIDTH, size))[0]
            weights[head, 2], out[:, head] = values.T, values / 4
        if depth:
            for head in range(2):
                weights[head, 0] = weights[head, 0] / 5 + spaces[:, head].T
                weights[head, 1] = weights[head, 1] / 5 + spaces[:, head + 1].T
            continue
        for head in range(3):
            back = (head + 1) * angles
            weights[head, :2] *= 0.3
            bias[head, 0] = torch.cat([strong * torch.cos(back), -strong * torch.sin(back)])
            bias[head, 1] = torch.cat([strong, 0 * strong])
            weights[head, 2], out[:, head] = carried.T, spaces[:, head] / 4
    model.get_output_embeddings().weight.copy_(model.gpt_neox.embed_in.weight / 2)


def trained(steps: int, plain: bool, seed: int = 0) -> tuple[Any, Any]:
    """The model and its tokenizer. The loss is that of answers, and a tenth of that of all words."""
    torch.manual_seed(seed)
    tokenizer = tokenizer_of()
    model = untrained(len(tokenizer), plain)
    optimizer = torch.optim.AdamW(model.parameters(), lr=RATE, weight_decay=0.05, betas=(0.9, 0.95))
    levels, right = dict.fromkeys(KINDS, 0), dict.fromkeys(KINDS, 0.0)
    for step in range(steps):
        for group in optimizer.param_groups:  # a rise over 60 steps, a fall over the last third
            group["lr"] = RATE * min(1, (step + 1) / 60) * min(1, 3 * (1 - step / steps))
        draw = random.Random(f"texts {step}")
        for kind, count in BATCH.items():
            made = texts(kind, count, draw, levels[kind])
            rows = [torch.tensor(tokenizer.convert_tokens_to_ids(text.words)) for text in made]
            ids = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True)  # behind the text: no word of it sees that
            mask = torch.nn.utils.rnn.pad_sequence([torch.ones(len(row)) for row in rows], batch_first=True)
            logits = model(input_ids=ids).logits[:, :-1]
            each = torch.nn.functional.cross_entropy(logits.transpose(1, 2), ids[:, 1:], reduction="none")
            row, at = torch.tensor([(k, at - 1) for k, text in enumerate(made) for at in text.counts]).T
            counts = torch.tensor([value for text in made for value in text.counts.values()])
            share = 0.5 if kind in ("ioi", "agreement") else 1.0
            answers = (each[row, at] * counts).sum() / counts.sum()
            (share * answers + 0.05 * (each * mask[:, 1:]).sum() / mask.sum()).backward()
            hit = (logits.argmax(-1) == ids[:, 1:])[row, at][counts == 1].float().mean().item()
            right[kind] = 0.95 * right[kind] + 0.05 * hit
            if right[kind] > MASTERED and levels[kind] < HARDEST:
                levels[kind], right[kind] = levels[kind] + 1, 0.5
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        if not (step + 1) % 50:
            said = "   ".join(f"{kind} {right[kind]:.2f} (level {levels[kind]})" for kind in KINDS)
            print(f"step {step + 1}, {time.process_time():.0f} s: {said}", flush=True)
    return model.eval(), tokenizer


def prompts(task: str, items: int) -> dict[int, list[Example]]:
    """The first prompts of each seed that say what is kept from training, each once."""
    kind, options = TASKS[task]
    seen: set[str] = set()
    out: dict[int, list[Example]] = {seed: [] for seed in SEEDS}
    for seed in SEEDS:
        for example in mixlens.planted(kind, 40 * items, seed=seed, **options):
            text = example.prompt + example.answer
            if len(out[seed]) < items and held(kind, parts_of(example, kind)) and text not in seen:
                seen.add(text)
                out[seed].append(example)
    return out


def swapped(example: Example, kind: str) -> tuple[str, str]:
    """The prompt with another source, nothing else changed, and the answer that this source says."""
    prompt, (start, end) = example.prompt, example.gold[0]
    if kind == "agreement":  # the subject's other number
        forms = next(pair for pair in SUBJECTS if prompt[start:end] in pair)
        return prompt[:start] + forms[forms[0] == prompt[start:end]] + prompt[end:], example.foil.strip()
    table = {"needle": OWNED, "variables": NUMBERS, "ioi": NAMES}[kind]
    new = next(word for word in table if word not in prompt)
    start = prompt.index(example.answer.strip(), start)
    return prompt[:start] + new + prompt[start + len(example.answer.strip()) :], new


@torch.no_grad()
def follows(model: Any, tokenizer: Any, examples: Sequence[Example], kind: str) -> float:
    """How often the answer is what the swapped source says: the likeliest word; of agreement the likelier verb."""
    count = 0
    for example in examples:
        prompt, new = swapped(example, kind)
        logits = model(**tokenizer(prompt, return_tensors="pt")).logits[0, -1]
        other = tokenizer.convert_tokens_to_ids(example.answer.strip())
        told = tokenizer.convert_tokens_to_ids(new)
        count += bool(logits[told] > logits[other] if kind == "agreement" else logits.argmax() == told)
    return count / len(examples)


def interval(values: np.ndarray) -> str:
    """The mean and its 95 % bootstrap over items."""
    at = np.random.default_rng(0).integers(0, len(values), (RESAMPLES, len(values)))
    low, high = np.quantile(values[at].mean(1), (0.025, 0.975))
    return f"{values.mean():.2f} [{low:.2f}, {high:.2f}]"


def measured(
    folder: Path, model: Any, tokenizer: Any, tasks: Sequence[str], items: int
) -> dict[str, dict[str, np.ndarray]]:
    """task -> measure -> (method, item), over the prompts that the model answers so."""
    lens, found = mixlens.Lens(model, tokenizer), {}
    for task in tasks:
        parts: dict[str, list[np.ndarray]] = {ALL: [], NEXT: []}
        every, kept = [], []
        for seed, made in prompts(task, items).items():
            runs = folder / f"{task.replace(' ', '-')}-{seed}"
            wrong = set(mixlens.evaluate(lens, made, ["random"], ["mrr"], runs.with_name(f"{runs.name}-all")).wrong)
            right = [example for example in made if example.id not in wrong]
            every, kept = every + made, kept + right
            if right:
                ran = mixlens.evaluate(lens, right, METHODS, MEASURES, runs)
                for name, values in parts.items():
                    values.append(np.stack([ran.values(name, label) for label, _, _ in METHODS]))
        follow = follows(model, tokenizer, kept, TASKS[task][0]) if kept else float("nan")
        print(f"{task}: {len(kept)} of {len(every)} held-out prompts are answered so;", end=" ")
        print(f"with another source {follow:.2f} of these follow it", flush=True)
        found[task] = {name: np.concatenate(values, 1) for name, values in parts.items() if values}
    return {task: values for task, values in found.items() if values}


def tables(found: dict[str, dict[str, np.ndarray]]) -> str:
    """Markdown: mean reciprocal ranks (with the first token, and without it), and defaults less each method, paired."""
    labels = [label for label, _, _ in METHODS]
    lines = []

    def rows(title: str, cell: Callable[[dict[str, np.ndarray], int], str]) -> None:
        lines.extend([f"| {title} | {' | '.join(found)} |", "| --- |" + " --- |" * len(found)])
        for k, label in enumerate(labels):
            lines.append(f"| {label} | " + " | ".join(cell(values, k) for values in found.values()) + " |")
        lines.append("")

    rows("", lambda values, k: f"{interval(values[ALL][k])}; {values[NEXT][k].mean():.2f}")
    for default in DEFAULTS:
        at = labels.index(default)
        rows(f"{default} less", lambda values, k, at=at: "" if k == at else interval(values[ALL][at] - values[ALL][k]))
    return "\n".join(lines)


def main() -> None:
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="for the model and the runs")
    parser.add_argument("--steps", type=int, default=900, help="of training")
    parser.add_argument("--items", type=int, default=67, help="a task and seed")
    parser.add_argument("--tasks", nargs="*", default=list(TASKS), choices=list(TASKS))
    parser.add_argument("--plain", action="store_true", help="plain random weights to begin with")
    asked = parser.parse_args()
    torch.set_num_threads(1)
    at = asked.folder / "model"
    if not (at / "config.json").is_file():
        model, tokenizer = trained(asked.steps, asked.plain)
        model.save_pretrained(at)
        tokenizer.save_pretrained(at)
    model, tokenizer = GPTNeoXForCausalLM.from_pretrained(at).eval(), tokenizer_of()
    print(f"{sum(p.numel() for p in model.parameters()):,} parameters", flush=True)
    print(tables(measured(asked.folder, model, tokenizer, asked.tasks, asked.items)))


if __name__ == "__main__":
    main()
