"""Every model type of the installed transformers: with a spec in the table, with one that is found, refused and why."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch

from mixlens.architectures import SPECS, Spec, base_class, spec_for, two_towers
from mixlens.errors import MixlensError, UnknownArchitecture, did_you_mean
from mixlens.infer import Misfit, require_one_stream, spec_of, twin_of, whole_of
from mixlens.process import settled
from mixlens.progress import Progress, barred, reporter, silent
from mixlens.subject import examined
from mixlens.subject.check import self_check
from mixlens.version import __version__

Status = Literal["hand-written", "inferred", "refused"]

_TASKS = (
    "MODEL_FOR_CAUSAL_LM",
    "MODEL_FOR_MASKED_LM",
    "MODEL_FOR_SEQUENCE_CLASSIFICATION",
    "MODEL_FOR_TOKEN_CLASSIFICATION",
    "MODEL_FOR_QUESTION_ANSWERING",
    "MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM",
    "MODEL_FOR_IMAGE_TEXT_TO_TEXT",
    "MODEL_FOR_IMAGE_CLASSIFICATION",
    "MODEL_FOR_ZERO_SHOT_IMAGE_CLASSIFICATION",
    "MODEL_FOR_CTC",
    "MODEL_FOR_AUDIO_CLASSIFICATION",
)
# Whose classes stand in no table of tasks: towers, and what has no head.
_BESIDE = ("clip_text_model", "clip_vision_model", "dinov3_vit", "siglip_vision_model")
# Where a class's defaults are no model that anybody has.
_SETTINGS: dict[str, dict[str, Any]] = {
    "dbrx": {
        "attn_config": {"kv_n_heads": 2, "rope_theta": 10000.0},
        "ffn_config": {"ffn_hidden_size": 64, "moe_num_experts": 4, "moe_top_k": 2},
    },
    "dots1": {"num_experts_per_tok": 2, "n_routed_experts": 4, "n_shared_experts": 1, "topk_group": 1, "n_group": 1},
    "deepseek_v2": {"num_experts_per_tok": 2, "n_routed_experts": 4, "topk_group": 1, "n_group": 1},
    "esm": {"vocab_size": 33, "pad_token_id": 1, "mask_token_id": 32},
}
_HEAD = """What a type needs: attention that is seen at transformers' attention interface or at its softmax, layers of
one kind in one list, in each one attention and one feed-forward network (`down(act(up(x)))`, gated or not, or a module
that maps each token alone, such as a mixture of experts), joined as post-LN, pre-LN or parallel layers are
([how a spec is found](architecture.md#specs)). Of an encoder-decoder none is found: those of the table are known, and
the spec of another may be said, its decoder's with `memory=` its encoder's ([encoder-decoders](encoder-decoders.md)).
Of two towers (CLIP) each is found, and the model has to compare them by a cosine ([similarity](similarity.md)); the row
is the tower's of texts.

Where none is found and you know one, say it; it is checked like any other:

```python
import mixlens

spec = mixlens.Spec(
    layers="encoder.layer",
    chain=(
        mixlens.Attend("attention.self", "attention.output.dense", norm="attention.output.LayerNorm"),
        mixlens.Feed(
            ("intermediate.dense",), "intermediate.intermediate_act_fn", "output.dense", norm="output.LayerNorm"
        ),
    ),
    order="post",
)
lens = mixlens.load(mixlens.load().model, spec=spec)
assert lens.check().origin == "given"
```
""".splitlines()


@dataclass(frozen=True)
class Known:
    """What is known of one model type: its spec and where that comes from, or why there is none."""

    model_type: str
    status: Status
    reason: str = ""
    spec: Spec | None = None

    def facts(self) -> dict[str, Any]:
        """As plain data."""
        spec = self.spec
        order = None if spec is None else spec.order
        return {"model_type": self.model_type, "status": self.status, "reason": self.reason, "order": order}


def known_types() -> list[str]:
    """The model types of the installed transformers that some class for texts, pictures or sounds is of."""
    from transformers.models.auto import modeling_auto

    tables = [getattr(modeling_auto, f"{task}_MAPPING_NAMES") for task in _TASKS]
    there = {kind for kind in _BESIDE if kind in modeling_auto.MODEL_MAPPING_NAMES}
    return sorted({kind for table in tables for kind in table} | there)


@settled
@barred
def survey(types: Iterable[str] | None = None, *, progress: bool | Progress | None = None) -> list[Known]:
    """What is known of each model type (None: of all that are known). Raises UnknownArchitecture for others."""
    told, listed = reporter(progress), []
    wanted = known_types() if types is None else _checked(types)
    for done, kind in enumerate(wanted):
        if told is not None:
            told(done, len(wanted))
        listed.append(examine(kind))
    return listed


def architectures(
    types: Iterable[str] | None = None, *, progress: bool | Progress | None = None
) -> list[dict[str, Any]]:
    """One dict a model type of the installed transformers: model_type, status, reason, order.

    `status`: "hand-written", "inferred" (a spec is found at load, and passes the self-check), or "refused" with the
    reason. `types`: these alone, else all for texts, pictures or sounds. A small model of each is built, which
    takes minutes for all.

    Examples:
        >>> [(known["model_type"], known["status"]) for known in mixlens.architectures(["bert", "phi"])]
        [('bert', 'hand-written'), ('phi', 'inferred')]
    """
    return [known.facts() for known in survey(types, progress=progress)]


def _checked(types: Iterable[str]) -> list[str]:
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    wanted = [types] if isinstance(types, str) else list(types)
    for kind in wanted:
        if kind not in CONFIG_MAPPING:
            raise UnknownArchitecture(
                f"expected a model type of the installed transformers, got {kind!r}{did_you_mean(kind, CONFIG_MAPPING)}"
            )
    return wanted


@torch.no_grad()
def examine(kind: str) -> Known:
    """What is known of a model type, tried on a small model of its class's default configuration."""
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    status: Status = "hand-written" if kind in SPECS else "inferred"
    try:
        with silent():
            config = CONFIG_MAPPING[kind](**_SETTINGS.get(kind, {}))
            cls = base_class(config.__class__)
            if cls is None:
                return Known(kind, "refused", "no class of it without a head")
            if two_towers(cls):
                return Known(kind, status, "", examined(whole_of(cls, config).float(), name=kind).spec)
            if kind not in SPECS:
                require_one_stream(config)
            twin = twin_of(cls, config)
            spec = spec_for(twin.model.config) if kind in SPECS else spec_of(twin)
            self_check(twin.model.float(), spec, kind).require()
    except (MixlensError, Misfit) as error:
        return Known(kind, "refused", _shortly(str(error)))
    except Exception as error:  # whatever a class says of the defaults that it comes with
        return Known(kind, "refused", _shortly(f"{type(error).__name__}: {error}"))
    return Known(kind, status, "", spec)


def _shortly(reason: str) -> str:
    reason = reason.partition("\n")[0]
    built = re.match(r"expected a class of which a small model can be built .*?, got \w+ \('.*?'\): ", reason)
    return f"no small model: {reason[built.end() :]}"[:160] if built else reason[:160]


def page(listed: Sequence[Known]) -> str:
    """The list as a page."""
    from transformers import __version__ as transformers

    counts = Counter(known.status for known in listed)
    total = counts["hand-written"] + counts["inferred"]
    lines = [
        "# Model types",
        "",
        f"Of {len(listed)} model types for texts, pictures, sounds, or several of them in transformers {transformers}, "
        f"mixlens {__version__} explains **{total}**: {counts['hand-written']} by a spec in its table, "
        f"{counts['inferred']} by a spec that is found at load; {counts['refused']} are refused. "
        "`mixlens architectures --markdown docs/architectures.md` writes this: it builds a small random model of each "
        "type's default configuration, finds its spec and runs the self-check on it, on token ids, on a "
        "picture or on a sound. A "
        "configuration of yours may differ: `mixlens check FOLDER` says what holds of it.",
        "",
        *_HEAD,
        "",
    ]
    lines += _table("By a spec in the table", [k for k in listed if k.status == "hand-written"])
    lines += _table("By a spec that is found", [k for k in listed if k.status == "inferred"])
    lines += ["## Refused, and why", "", "| model type | reason |", "| --- | --- |"]
    lines += [f"| {k.model_type} | {_cell(k.reason)} |" for k in listed if k.status == "refused"]
    return "\n".join(lines) + "\n"


def _table(title: str, listed: Sequence[Known]) -> list[str]:
    head = [f"## {title}", "", "| model type | order | norms | sub-blocks |", "| --- | --- | --- | --- |"]
    return [*head, *(_row(known.model_type, known.spec) for known in listed if known.spec is not None), ""]


def _row(kind: str, spec: Spec) -> str:
    norm = spec.norm + (" (1 + w)" if spec.one_plus else "")
    parts = []
    for part in spec.chain:
        gated = " (gated)" if getattr(part, "gated", False) else ""
        branch = ", norm behind" if getattr(part, "branch_norm", None) else ""
        memory = " to the encoder" if getattr(part, "reads", "self") == "memory" else ""
        parts.append(type(part).__name__ + gated + memory + branch)
    return f"| {kind} | {spec.order} | {norm} | {'; '.join(parts)} |"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
