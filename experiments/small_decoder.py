"""A small GPT-NeoX trained on planted prompts, and which method finds the source there.

Words are tokens. A share of the pairs that a prompt is about (who has what, which two names, ...) stands in no prompt
that the model is trained on; measured is on prompts about these pairs alone, of other seeds.

python experiments/small_decoder.py FOLDER [--minutes 8] [--items 67] [--tasks ...] (resumes)
"""

from __future__ import annotations

import random
import re
import time
import zlib
from argparse import ArgumentParser
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import count, islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tokenizers import Regex, Tokenizer, models, pre_tokenizers
from transformers import GPTNeoXConfig, GPTNeoXForCausalLM, PreTrainedTokenizerFast

import mixlens
from mixlens.tasks.example import Example
from mixlens.tasks.planted import ATTRACTORS, FILLER, GIVEN, LINKS, NAMES, NUMBERS, OWNED, PLACES, SUBJECTS, VERBS

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
DEFAULTS = ("path_logit", "head_logit", "head_logit, signed")
SEEDS = (0, 1, 2)
TRAINED = 1_000  # the first seed of training; one a step
LAYERS, WIDTH, HEADS, LONGEST = 4, 128, 4, 256
RATE, SPREAD = 2e-3, WIDTH**-0.5  # the usual 0.02 is for wide models: here attention would begin as a mean
BATCH = {"needle": 16, "variables": 12, "ioi": 4, "agreement": 4}  # prompts a step
HELD = {"needle": 8, "variables": 8, "ioi": 8, "agreement": 2}  # a pair in so many is kept from training
RESAMPLES = 10_000
FACT, LINE = re.compile(r"(\w+) has a (\w+)\."), re.compile(r"(\w) = (\w+)")


def tokenizer_of() -> Any:
    """Words, marks and line ends are tokens, made from the words that planted prompts are made of."""
    split = pre_tokenizers.Sequence(
        [pre_tokenizers.Split(" ", "removed"), pre_tokenizers.Split(Regex(r"[.,?:=\n]"), "isolated")]
    )
    marks = [".", ",", "?", ":", "=", "\n", *"ABCDEFGHJKLMNPQRSTUVWXYZ"]
    frames = "Question What does have Answer has a The value of is When and went to were in met near the gave"
    tables = [NAMES, OWNED, PLACES, NUMBERS, FILLER, GIVEN, LINKS, *SUBJECTS, *ATTRACTORS, *VERBS, (frames,)]
    text = " ".join(word for table in tables for word in table)
    words = dict.fromkeys(["<pad>", "<unk>", *marks, *sorted({word for word, _ in split.pre_tokenize_str(text)})])
    made = Tokenizer(models.WordLevel({word: i for i, word in enumerate(words)}, unk_token="<unk>"))
    made.pre_tokenizer = split
    return PreTrainedTokenizerFast(
        tokenizer_object=made, pad_token="<pad>", unk_token="<unk>", clean_up_tokenization_spaces=False
    )


def config_of(words: int) -> GPTNeoXConfig:
    """Rotary positions over all of a head, attention and feed-forward side by side."""
    sizes = {"hidden_size": WIDTH, "num_hidden_layers": LAYERS, "num_attention_heads": HEADS}
    sizes |= {"intermediate_size": 4 * WIDTH, "max_position_embeddings": LONGEST}
    others = {"initializer_range": SPREAD, "rotary_pct": 1.0, "bos_token_id": None, "eos_token_id": None}
    return GPTNeoXConfig(vocab_size=words, **sizes, **others)


def held(example: Example, kind: str) -> tuple[bool, bool]:
    """Whether what is asked for is a pair kept from training, and whether any pair of the prompt is."""
    prompt, answer = example.prompt, example.answer.strip()
    if kind == "needle":  # who has what
        pairs = FACT.findall(prompt)
        asked = (prompt.split()[-3], answer)
    elif kind == "variables":  # the line that says the number
        pairs = LINE.findall(prompt)
        asked = next(pair for pair in pairs if pair[1] == answer)
    elif kind == "ioi":  # the two names, whichever gives
        asked = tuple(sorted((answer, example.foil.strip())))
        pairs = [asked]
    else:  # the subject, what stands between, and the noun behind it, of either number
        number = {form: pair[0] for pair in (*SUBJECTS, *ATTRACTORS) for form in pair}
        words = prompt.split()
        end = next((k for k, word in enumerate(words) if k > 1 and word in number), 1)
        asked = (number[words[1]], *words[2:end], number[words[end]])
        pairs = [asked]
    kept = {pair: zlib.crc32(" ".join(pair).encode()) % HELD[kind] == 0 for pair in (*pairs, asked)}
    return kept[asked], any(kept.values())


def batch(kind: str, step: int, grown: float) -> list[Example]:
    """Prompts of one step and kind, none with a pair that is kept back; more facts and filler as `grown` goes to 1."""
    draw = random.Random(f"{kind} {step}")
    options: dict[str, Any] = {}
    if kind == "needle":
        options = {"keys": draw.randint(2, 4 + round(2 * grown)), "filler": draw.randint(0, round(6 * grown))}
    elif kind == "variables":
        options = {"steps": draw.randint(1, 3), "chains": draw.randint(2, 3)}
    elif kind == "agreement":
        options = {"attractors": draw.randint(0, 3)}
    made = mixlens.planted(kind, 4 * BATCH[kind], seed=TRAINED + step, **options)
    return list(islice((example for example in made if not held(example, kind)[1]), BATCH[kind]))


def text_of(example: Example, kind: str, step: int) -> tuple[str, list[int]]:
    """A text to train on and where its answers begin: the prompt with its answer or with all questions of its facts."""
    prompt, answer = example.prompt, example.answer
    if kind not in ("needle", "variables"):
        return prompt + answer, [len(prompt) + 1]
    draw = random.Random(f"{example.id} {step}")
    if kind == "needle":
        text = prompt[: prompt.index("Question: ")]
        asked = {
            f"Question: What does {name} have? Answer: {name} has a": value for name, value in FACT.findall(prompt)
        }
        end = ". "
    else:
        text = prompt[: prompt.index("The value of")]
        values: dict[str, str] = {}
        for left, right in LINE.findall(prompt):  # a chain's lines stand in order
            values[left] = values.get(right, right)
        asked = {f"The value of {letter} is": value for letter, value in values.items()}
        end = "\n"
    starts = []
    for question in draw.sample(list(asked), len(asked)):
        starts.append(len(text) + len(question) + 1)
        text += f"{question} {asked[question]}{end}"
    return text, starts


def trained(minutes: float, seed: int = 0) -> tuple[Any, Any, int]:
    """The model, its tokenizer and the number of steps: the loss is that of all words, and once more of the answers."""
    torch.manual_seed(seed)
    tokenizer = tokenizer_of()
    model = GPTNeoXForCausalLM(config_of(len(tokenizer))).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=RATE, weight_decay=0.01, betas=(0.9, 0.98))
    begun = time.process_time()
    for step in count():
        part = (time.process_time() - begun) / (60 * minutes)
        if part >= 1:
            break
        for group in optimizer.param_groups:  # a rise over 100 steps, then down to nothing with the time that is left
            group["lr"] = RATE * min(1, (step + 1) / 100) * min(1, 2.5 * (1 - part))
        said = []
        grown = min(1, max(0, (part - 0.4) / 0.3))
        for kind in BATCH:
            examples = batch(kind, step, grown)
            texts, starts = zip(*(text_of(example, kind, step) for example in examples), strict=True)
            read = tokenizer(list(texts), padding=True, return_tensors="pt")
            ids, mask = read["input_ids"], read["attention_mask"]
            logits = model(input_ids=ids, attention_mask=mask).logits[:, :-1]
            each = torch.nn.functional.cross_entropy(logits.transpose(1, 2), ids[:, 1:], reduction="none")
            at = [(k, read.char_to_token(k, start) - 1) for k, each_start in enumerate(starts) for start in each_start]
            rows, last = torch.tensor(at).T
            answers = each[rows, last].mean()
            ((each * mask[:, 1:]).sum() / mask[:, 1:].sum() + answers).backward()
            right = (logits.argmax(-1) == ids[:, 1:])[rows, last].float().mean()
            said.append(f"{answers.item():.2f} {right.item():.2f}")
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        if not step % 100:
            print(f"step {step}, {60 * minutes * part:.0f} s: {'   '.join(said)}", flush=True)
    return model.eval(), tokenizer, step


def prompts(task: str, items: int) -> dict[int, list[Example]]:
    """The first prompts of each seed that ask for a pair kept from training, each once.

    Gold of agreement is the noun before the verb, not the subject: always of the other number, so that either says the
    verb's, and this model goes by the nearer one (`follows`).
    """
    kind, options = TASKS[task]
    seen: set[str] = set()
    out: dict[int, list[Example]] = {seed: [] for seed in SEEDS}
    for seed in SEEDS:
        for example in mixlens.planted(kind, 40 * items, seed=seed, **options):
            text = example.prompt + example.answer
            if len(out[seed]) < items and held(example, kind)[0] and text not in seen:
                seen.add(text)
                if kind == "agreement":
                    end = len(example.prompt)
                    example = replace(example, gold=((example.prompt.rindex(" ") + 1, end),))
                out[seed].append(example)
    return out


def follows(lens: mixlens.Lens, examples: Sequence[Example], word: int) -> float:
    """Of agreement: how often the other verb is said where that word of the prompt, 1 or -1, has its other number."""
    other = {a: b for pair in (*SUBJECTS, *ATTRACTORS) for a, b in (pair, pair[::-1])}
    changed = 0
    for example in examples:
        words = example.prompt.split()
        words[word] = other[words[word]]
        (said,) = lens.trace(" ".join(words), example.answer, "random", foil=example.foil).said
        changed += said["target_probability"] < said["foil_probability"]
    return changed / len(examples)


def interval(values: np.ndarray) -> str:
    """The mean and its 95 % bootstrap over items."""
    at = np.random.default_rng(0).integers(0, len(values), (RESAMPLES, len(values)))
    low, high = np.quantile(values[at].mean(1), (0.025, 0.975))
    return f"{values.mean():.2f} [{low:.2f}, {high:.2f}]"


def measured(lens: mixlens.Lens, tasks: Sequence[str], items: int, out: Path) -> dict[str, dict[str, np.ndarray]]:
    """task -> measure -> (method, item), over the prompts that the model answers so."""
    found = {}
    for task in tasks:
        parts: dict[str, list[np.ndarray]] = {ALL: [], NEXT: []}
        kept = asked = 0
        for seed, made in prompts(task, items).items():
            folder = out / f"{task.replace(' ', '-')}-{seed}"
            wrong = set(mixlens.evaluate(lens, made, ["random"], ["mrr"], folder.with_name(f"{folder.name}-all")).wrong)
            right = [example for example in made if example.id not in wrong]
            kept, asked = kept + len(right), asked + len(made)
            if right:
                ran = mixlens.evaluate(lens, right, METHODS, MEASURES, folder)
                for name, values in parts.items():
                    values.append(np.stack([ran.values(name, label) for label, _, _ in METHODS]))
        print(f"{task}: {kept} of {asked} held-out prompts are answered so", flush=True)
        if task == "agreement":
            every = [example for made in prompts(task, items).values() for example in made]
            print(f"  the verb follows the subject: {follows(lens, every, 1):.2f}, the noun before it:", end=" ")
            print(f"{follows(lens, every, -1):.2f}", flush=True)
        found[task] = {name: np.concatenate(values, 1) for name, values in parts.items() if values}
    return found


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
    parser.add_argument("--minutes", type=float, default=8, help="of training, of one core")
    parser.add_argument("--items", type=int, default=67, help="a task and seed")
    parser.add_argument("--tasks", nargs="*", default=list(TASKS), choices=list(TASKS))
    asked = parser.parse_args()
    torch.set_num_threads(1)
    if not (asked.folder / "model" / "config.json").is_file():
        model, tokenizer, steps = trained(asked.minutes)
        model.save_pretrained(asked.folder / "model")
        tokenizer.save_pretrained(asked.folder / "model")
        print(f"{sum(p.numel() for p in model.parameters()):,} parameters, {steps} steps", flush=True)
    lens = mixlens.load(str(asked.folder / "model"))
    print(tables(measured(lens, asked.tasks, asked.items, asked.folder)))


if __name__ == "__main__":
    main()
