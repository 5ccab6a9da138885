"""What a model needs beside its weights, in whatever it came: a tokenizer, an image processor, a feature extractor."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from mixlens.capture.fed import SOUNDS, TowerProcessor
from mixlens.capture.picture import PIXELS
from mixlens.errors import InputError


def readable(tokenizer: Any) -> Any:
    """A tokenizer that is a transformers one: read by its name, or made of a raw one. Raises InputError, ModelError."""
    if tokenizer is None:
        return None
    if isinstance(tokenizer, str) or hasattr(tokenizer, "__fspath__"):
        from mixlens.processors import tokenizer_named

        return tokenizer_named(str(tokenizer))
    if type(tokenizer).__module__.startswith("tokenizers") and hasattr(tokenizer, "token_to_id"):
        return _of_raw(tokenizer)
    if not hasattr(tokenizer, "convert_ids_to_tokens") and hasattr(tokenizer, "tokenizer"):
        return readable(tokenizer.tokenizer)  # a processor
    if isinstance(tokenizer, type) or not (callable(tokenizer) and hasattr(tokenizer, "convert_ids_to_tokens")):
        kind = f"the class {tokenizer.__name__}" if isinstance(tokenizer, type) else type(tokenizer).__name__
        raise InputError(
            f"expected a tokenizer of transformers, its name, or a tokenizers.Tokenizer, got {kind}; "
            "AutoTokenizer.from_pretrained(...) gives one"
        )
    return tokenizer


def image_processor(given: Any) -> Any:
    """An image processor of transformers: read by its name, or in a processor. Raises InputError, ModelError."""
    if given is None:
        return None
    if isinstance(given, str) or hasattr(given, "__fspath__"):
        from mixlens.processors import image_processor_named

        return image_processor_named(str(given))
    given = getattr(given, "image_processor", given)
    if (
        isinstance(given, type)
        or not callable(given)
        or PIXELS not in (getattr(given, "model_input_names", None) or ())
    ):
        kind = f"the class {given.__name__}" if isinstance(given, type) else type(given).__name__
        raise InputError(
            f"expected an image processor of transformers or its name beside a model of pictures, got {kind}; "
            "AutoImageProcessor.from_pretrained(...) gives one"
        )
    return given


def tower_processor(given: Any) -> Any:
    """A processor with a tokenizer and an image processor, both as a pair, or one of them; read by its name.

    Raises InputError, ModelError.
    """
    if given is None:
        return TowerProcessor()
    if isinstance(given, str) or hasattr(given, "__fspath__"):
        from mixlens.processors import tower_processor_named

        return tower_processor_named(str(given))
    if isinstance(given, (tuple, list)) and len(given) == 2:
        return TowerProcessor(readable(given[0]), image_processor(given[1]))
    if hasattr(given, "tokenizer") or hasattr(given, "image_processor"):
        held = getattr(given, "tokenizer", None), getattr(given, "image_processor", None)
        return TowerProcessor(readable(held[0]), image_processor(held[1]))
    if PIXELS in (getattr(given, "model_input_names", None) or ()):
        return TowerProcessor(None, image_processor(given))
    return TowerProcessor(readable(given), None)


@dataclass(frozen=True)
class SoundProcessor:
    """What a model of sounds needs beside its weights: a feature extractor, and a tokenizer for what it says.

    transformers' own processors of both need no other; this one is of parts that came apart.
    """

    feature_extractor: Any
    tokenizer: Any = None


def sound_processor(given: Any) -> Any:
    """A feature extractor of sounds, alone or in a processor; read by its name. Raises InputError, ModelError."""
    if given is None:
        return None
    if isinstance(given, str) or hasattr(given, "__fspath__"):
        from mixlens.processors import sound_processor_named

        return sound_processor_named(str(given))
    extractor = getattr(given, "feature_extractor", given)
    names = getattr(extractor, "model_input_names", None) or ()
    if isinstance(given, type) or not callable(extractor) or not set(names) & set(SOUNDS):
        kind = f"the class {given.__name__}" if isinstance(given, type) else type(given).__name__
        raise InputError(
            f"expected a processor or a feature extractor of transformers or its name beside a model of sounds, got "
            f"{kind}; AutoProcessor.from_pretrained(...) gives one"
        )
    return given


_ROLES = {
    "unk_token": ("[UNK]", "<unk>"),
    "pad_token": ("[PAD]", "<pad>"),
    "mask_token": ("[MASK]", "<mask>"),
    "cls_token": ("[CLS]", "<s>"),
    "sep_token": ("[SEP]", "</s>"),
}


def _of_raw(tokenizer: Any) -> Any:
    """A raw tokenizer with the names that transformers wants: those of its special tokens that are the usual ones."""
    from transformers import PreTrainedTokenizerFast

    special = {token.content for token in tokenizer.get_added_tokens_decoder().values() if token.special}
    unknown = getattr(tokenizer.model, "unk_token", None)
    known = special | ({unknown} if unknown else set())
    roles = {role: next((t for t in usual if t in known), None) for role, usual in _ROLES.items()}
    roles["unk_token"] = unknown or roles["unk_token"]
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, **{r: t for r, t in roles.items() if t is not None})
