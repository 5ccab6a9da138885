"""What a folder or the hub has beside a model's weights: a tokenizer, an image processor, a feature extractor."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from mixlens.capture.fed import TowerProcessor
from mixlens.errors import MissingExtra, MixlensError, ModelError, UnknownOption
from mixlens.progress import quiet

_VOCABULARY = """tokenizer.json tokenizer.model vocab.txt vocab.json merges.txt spiece.model sentencepiece.bpe.model
tekken.json bpe.codes source.spm""".split()
_PROCESSORS = ("preprocessor_config.json", "processor_config.json")
_HINTS = {
    "device": 'say device_map="cuda" or device_map={"": 0}, or load the model yourself and move it',
    "tokenizer": "pass it as the second argument: mixlens.load(model, tokenizer)",
    "torch_device": 'say device_map="cuda"',
    "gpu": 'say device_map="cuda"',
}


def tokenizer_named(name: str) -> Any:
    """The tokenizer of a folder, a file tokenizer.json or a hub id. Raises ModelError where there is none."""
    path = Path(name).expanduser()
    if os.path.isfile(path):
        from transformers import PreTrainedTokenizerFast

        with reading(name, "tokenizer"):
            return PreTrainedTokenizerFast(tokenizer_file=str(path))
    local = os.path.exists(path)
    if not local and name.startswith((".", "/", "~")):
        raise ModelError(f"expected a folder with a tokenizer or a reachable hub id, got {name!r:.200}: no such folder")
    tokenizer = load_tokenizer(str(path) if local else name, name, path if local else None, trust_remote_code=False)
    if tokenizer is None:
        raise ModelError(f"expected a folder with a tokenizer or a reachable hub id, got {name!r}: it has none")
    return tokenizer


def load_tokenizer(where: str, name: str, folder: Path | None = None, **shared: Any) -> Any:
    """The tokenizer of a folder or hub id; None where there is none. Raises ModelError where it cannot be read."""
    from transformers import AutoTokenizer

    if "gguf_file" not in shared and not _vocabulary(folder):
        return None  # token ids can still be explained; a text says then that a tokenizer is missing
    with reading(name, "tokenizer"):
        try:
            return AutoTokenizer.from_pretrained(where, **shared)
        except OSError:
            if folder is not None:
                raise
            return None  # the hub has none


def _vocabulary(folder: Path | None) -> bool:
    """Whether a folder may have a tokenizer; of the hub nothing is known before it is asked."""
    return folder is None or any((folder / file).is_file() for file in _VOCABULARY)


def image_processor_named(name: str) -> Any:
    """The image processor of a folder or a hub id. Raises ModelError where there is none."""
    return _named(name, load_image_processor, "an image processor")


def load_image_processor(where: str, name: str, folder: Path | None = None, **shared: Any) -> Any:
    """The image processor of a folder or hub id; None where there is none. Raises ModelError for a damaged one."""
    from transformers import AutoImageProcessor

    if folder is not None and not any((folder / file).is_file() for file in _PROCESSORS):
        return None  # tensors can still be explained; a picture says then that a processor is missing
    with quiet(), reading(name, "image processor"):
        try:
            return AutoImageProcessor.from_pretrained(where, **shared)
        except OSError:
            if folder is not None:
                raise
            return None


def tower_processor_named(name: str) -> Any:
    """The tokenizer and the image processor of a folder or a hub id. Raises ModelError where there is neither."""
    folder = Path(name).expanduser()
    here = folder if folder.exists() else None
    made = load_tower_processor(str(here or name), name, here, trust_remote_code=False)
    if made.tokenizer is None and made.image_processor is None:
        raise ModelError(
            f"expected a folder with a tokenizer and an image processor or a reachable hub id, got {name!r}: it has "
            "neither"
        )
    return made


def load_tower_processor(where: str, name: str, folder: Path | None = None, **shared: Any) -> Any:
    """The tokenizer and the image processor of a folder or hub id, None for what it has not. Raises ModelError."""
    return TowerProcessor(
        load_tokenizer(where, name, folder, **shared), load_image_processor(where, name, folder, **shared)
    )


def sound_processor_named(name: str) -> Any:
    """The processor or feature extractor of a folder or a hub id. Raises ModelError where there is none."""
    return _named(name, load_sound_processor, "a feature extractor")


def load_sound_processor(where: str, name: str, folder: Path | None = None, **shared: Any) -> Any:
    """The processor of a folder or hub id, else its feature extractor; None where there is none. Raises ModelError for
    a damaged one.
    """
    from transformers import AutoFeatureExtractor, AutoProcessor

    if folder is not None and not any((folder / file).is_file() for file in _PROCESSORS):
        return None
    with quiet(), reading(name, "feature extractor"):
        # a processor of a folder without a vocabulary has a tokenizer that knows no token
        for kind in (AutoProcessor, AutoFeatureExtractor) if _vocabulary(folder) else (AutoFeatureExtractor,):
            try:
                made = kind.from_pretrained(where, **shared)
            except (OSError, ValueError, TypeError):  # a folder of a feature extractor alone
                if kind is AutoFeatureExtractor and folder is not None:
                    raise
                continue
            if hasattr(made, "feature_extractor") or hasattr(made, "sampling_rate"):
                return made
    return None


def _named(name: str, load: Callable[..., Any], noun: str) -> Any:
    folder = Path(name).expanduser()
    processor = load(str(folder) if folder.exists() else name, name, trust_remote_code=False)
    if processor is None:
        raise ModelError(f"expected a folder with {noun} or a reachable hub id, got {name!r}: it has none")
    return processor


@contextmanager
def reading(name: str, part: str, options: Mapping[str, Any] | None = None) -> Iterator[None]:
    """Whatever goes wrong while a part of a model is read, in one line that names it."""
    try:
        yield
    except (MixlensError, MemoryError, torch.OutOfMemoryError):
        raise
    except ImportError as error:
        raise MissingExtra(
            f"the {part} of {name!r} need a package that is not installed: {first_line(error)}"
        ) from error
    except Exception as error:
        unknown = re.search(r"unexpected keyword argument '(\w+)'", str(error))
        if isinstance(error, TypeError) and unknown and unknown[1] in (options or {}):
            option = unknown[1]
            hint = _HINTS.get(option, "see from_pretrained of transformers for those it has")
            raise UnknownOption(f"from_pretrained has no option {option!r}; {hint}") from error
        raise ModelError(
            f"expected a folder with a saved model or a reachable hub id, got {name!r}: its {part} cannot be read: "
            f"{_reason(error)}"
        ) from error


def _reason(error: Exception) -> str:
    reason = first_line(error)
    if type(error).__name__ == "UnpicklingError":
        return "a pickle that is damaged or would run code, which is never done; save the weights as safetensors"
    if "trust_remote_code" in str(error):
        return (
            "it brings code of its own, which is not run unasked; read that code, and pass trust_remote_code=True if "
            "you trust it"
        )
    return reason if isinstance(error, OSError) else f"{type(error).__name__}: {reason}"


def first_line(error: Exception) -> str:
    """What an error says, on one line."""
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return " ".join(" ".join(lines[:2] if lines[0].endswith(":") else lines[:1]).split())
