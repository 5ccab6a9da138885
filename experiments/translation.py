"""A small translator whose true alignment is known, and how well each method finds it.

Sentences of a little English become Spanish: adjectives go behind their nouns, "today" to the end, articles and
adjectives agree with nouns. A Marian model of 2 + 2 layers learns them from pairs alone.

python experiments/translation.py [--seed 0] [--steps 1500] [--save FOLDER]
"""

from __future__ import annotations

import random
import sys
from argparse import ArgumentParser
from dataclasses import dataclass
from typing import Any

import torch
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import MarianConfig, MarianMTModel, PreTrainedTokenizerFast

import mixlens
from mixlens.measure.alignment import alignment, alignment_error_rate

NOUNS = {  # the gender says the forms of articles and adjectives
    **{"house": ("casa", 1), "car": ("coche", 0), "dog": ("perro", 0), "cat": ("gato", 0), "cow": ("vaca", 1)},
    **{"tree": ("árbol", 0), "flower": ("flor", 1), "book": ("libro", 0), "table": ("mesa", 1), "moon": ("luna", 1)},
    **{"garden": ("jardín", 0), "street": ("calle", 1), "boat": ("barco", 0), "star": ("estrella", 1)},
}
ADJECTIVES = {
    **{"red": ("rojo", "roja"), "small": ("pequeño", "pequeña"), "new": ("nuevo", "nueva"), "old": ("viejo", "vieja")},
    **{"white": ("blanco", "blanca"), "black": ("negro", "negra"), "high": ("alto", "alta"), "green": ("verde",) * 2},
}
ARTICLES = {"the": ("el", "la"), "a": ("un", "una"), "my": ("mi", "mi"), "this": ("este", "esta")}
VERBS = {"sees": "ve", "has": "tiene", "wants": "quiere", "finds": "encuentra", "loves": "ama", "paints": "pinta"}
LINKING = {"and": "y", "but": "pero"}
SPECIAL = ["<pad>", "</s>", "<unk>"]


@dataclass(frozen=True)
class Pair:
    """A sentence, its translation, and which target word is which source word's: surely, or possibly too."""

    source: tuple[str, ...]
    target: tuple[str, ...]
    sure: frozenset[tuple[int, int]]
    possible: frozenset[tuple[int, int]]


def sentence(draw: random.Random) -> Pair:
    """One pair of sentences."""
    source: list[str] = []
    target: list[str] = []
    sure: list[tuple[int, int]] = []
    possible: list[tuple[int, int]] = []

    def put(word: str, other: str) -> None:
        sure.append((len(target), len(source)))
        source.append(word)
        target.append(other)

    def noun_phrase() -> None:
        article, noun = draw.choice(list(ARTICLES)), draw.choice(list(NOUNS))
        adjective = draw.choice(list(ADJECTIVES)) if draw.random() < 0.6 else None
        spanish, gender = NOUNS[noun]
        i, t = len(source), len(target)
        source.extend([article, *([adjective] if adjective else []), noun])
        target.extend([ARTICLES[article][gender], spanish, *([ADJECTIVES[adjective][gender]] if adjective else [])])
        last = len(source) - 1
        sure.extend([(t, i), (t + 1, last)])
        possible.append((t, last))  # the article's form is the noun's gender's
        if adjective:
            sure.append((t + 2, i + 1))
            possible.append((t + 2, last))

    today = draw.random() < 0.4
    if today:
        source.append("today")
    for clause in range(1 + (draw.random() < 0.4)):
        if clause:
            put(*draw.choice(list(LINKING.items())))
        noun_phrase()
        put(*draw.choice(list(VERBS.items())))
        noun_phrase()
    if today:
        sure.append((len(target), 0))
        target.append("hoy")
    return Pair(tuple(source), tuple(target), frozenset(sure), frozenset(possible))


def tokenizer_of() -> Any:
    """Words are tokens; the end of a sentence is marked."""
    nouns, adjectives = (word for word, _ in NOUNS.values()), (w for forms in ADJECTIVES.values() for w in forms)
    articles = (w for forms in ARTICLES.values() for w in forms)
    english = [*NOUNS, *ADJECTIVES, *ARTICLES, *VERBS, *LINKING, "today", "hoy"]
    words = dict.fromkeys([*SPECIAL, *english, *nouns, *adjectives, *articles, *VERBS.values(), *LINKING.values()])
    made = Tokenizer(models.WordLevel({word: i for i, word in enumerate(words)}, unk_token="<unk>"))
    made.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    made.post_processor = processors.TemplateProcessing(single="$A </s>", special_tokens=[("</s>", 1)])
    return PreTrainedTokenizerFast(
        tokenizer_object=made,
        pad_token="<pad>",
        eos_token="</s>",
        unk_token="<unk>",
        clean_up_tokenization_spaces=False,
    )


def trained(seed: int = 0, steps: int = 1500, width: int = 96) -> tuple[Any, Any]:
    """The translator and its tokenizer."""
    torch.manual_seed(seed)
    tokenizer, draw = tokenizer_of(), random.Random(seed)
    sizes = {f"{stack}_{name}": n for stack in ("encoder", "decoder") for name, n in _SIZES.items()}
    config = MarianConfig(
        vocab_size=len(tokenizer),
        d_model=width,
        max_position_embeddings=64,
        pad_token_id=0,
        eos_token_id=1,
        forced_eos_token_id=None,
        decoder_start_token_id=0,
        dropout=0.1,
        scale_embedding=True,
        activation_function="relu",
        **sizes,
    )
    model = MarianMTModel(config).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 2e-3, total_steps=steps, pct_start=0.1)
    for step in range(steps):
        pairs = [sentence(draw) for _ in range(48)]
        source = tokenizer([" ".join(pair.source) for pair in pairs], padding=True, return_tensors="pt")
        target = tokenizer([" ".join(pair.target) for pair in pairs], padding=True, return_tensors="pt")
        labels = target["input_ids"].masked_fill(target["attention_mask"] == 0, -100)
        loss = model(input_ids=source["input_ids"], attention_mask=source["attention_mask"], labels=labels).loss
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        if not (step + 1) % 100:
            print(f"step {step + 1}: loss {loss.item():.3f}", file=sys.stderr, flush=True)
    return model.eval(), tokenizer


_SIZES = {"layers": 2, "attention_heads": 4, "ffn_dim": 192}
METHODS = (
    *("random", "attention", "attention+layer:0", "attention+mean", "attention_rollout", "norm_rollout", "globenc"),
    *("alti", "alti+layer:-1", "alti+mean", "value_zeroing", "value_zeroing+mean"),
    *("saliency", "grad_l2", "grad_x_input"),
)


def measured(lens: mixlens.Lens, pairs: list[Pair], methods: tuple[str, ...]) -> dict[str, tuple[float, float]]:
    """Of each method the alignment error rate over all pairs, and the mean share of the source."""
    out = {}
    for method in methods:
        links: set[tuple[int, int]] = set()
        sure: set[tuple[int, int]] = set()
        possible: set[tuple[int, int]] = set()
        shares: list[float] = []
        for number, pair in enumerate(pairs):
            trace = lens.trace(" ".join(pair.source), " ".join(pair.target), method)
            shares += [share for share in trace.shares() if share is not None]
            scores = trace.scores[:, : len(pair.source)]
            at = 1000 * number  # every pair's words are numbers of their own
            links |= {(t + at, j + at) for t, j in alignment(scores)}
            sure |= {(t + at, j + at) for t, j in pair.sure}
            possible |= {(t + at, j + at) for t, j in pair.possible}
        out[method] = alignment_error_rate(links, sure, possible), sum(shares) / len(shares)
    return out


def main() -> int:
    parser = ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=1500)
    parser.add_argument("--pairs", type=int, default=40, help="of the held-out ones, for the table")
    parser.add_argument("--save", help="a folder for the model")
    parser.add_argument("--train-only", action="store_true")
    asked = parser.parse_args()
    model, tokenizer = trained(asked.seed, asked.steps)
    if asked.save:
        model.save_pretrained(asked.save)
        tokenizer.save_pretrained(asked.save)
    draw = random.Random(10_000 + asked.seed)
    held = [sentence(draw) for _ in range(100)]
    texts = tokenizer([" ".join(pair.source) for pair in held], padding=True, return_tensors="pt")
    with torch.no_grad():
        made = model.generate(
            input_ids=texts["input_ids"], attention_mask=texts["attention_mask"], max_new_tokens=40, num_beams=1
        )
    right = [tokenizer.decode(ids, skip_special_tokens=True) for ids in made]
    share = sum(text.split() == list(pair.target) for text, pair in zip(right, held, strict=True)) / len(held)
    print(f"{sum(p.numel() for p in model.parameters()):,} parameters; {share:.2f} of {len(held)} held out are right")
    if asked.train_only:
        return 0
    print("| method | alignment error rate | share of the source |\n| --- | --- | --- |")
    for method, (rate, source) in measured(mixlens.load(model, tokenizer), held[: asked.pairs], METHODS).items():
        print(f"| `{method}` | {rate:.3f} | {source:.2f} |")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
