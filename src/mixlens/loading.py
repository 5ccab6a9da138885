"""A folder or a hub id to a model and its tokenizer; the embedded default without either.

What a folder says is not trusted: no code of its own runs unless it is asked for (`trust_remote_code=True`), standard
input is never read for consent, and whatever is damaged in it is a ModelError with the reason.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from mixlens.architectures import Spec, fed, has_spec, shares_layers, spec_for, two_towers
from mixlens.capture.fed import SOUNDS, TowerProcessor
from mixlens.capture.picture import PIXELS
from mixlens.embedded import DEFAULT, load_embedded
from mixlens.errors import MissingExtra, MixlensError, ModelError, UnknownOption
from mixlens.infer import refuse
from mixlens.progress import quiet

_EMBEDDED = "mixlens:"
# What says where a file is, or who may run code: for configuration, weights and tokenizer alike.
_SHARED = ("revision", "code_revision", "token", "cache_dir", "local_files_only", "force_download", "subfolder")
_VOCABULARY = """tokenizer.json tokenizer.model vocab.txt vocab.json merges.txt spiece.model sentencepiece.bpe.model
tekken.json bpe.codes source.spm""".split()
_PROCESSORS = ("preprocessor_config.json", "processor_config.json")
_EXPECTED = "expected a folder with a saved model (config.json and weights) or a hub id"
_WEIGHTS = ("*.safetensors", "*.bin", "*.gguf")
_HINTS = {
    "device": 'say device_map="cuda" or device_map={"": 0}, or load the model yourself and move it',
    "tokenizer": "pass it as the second argument: mixlens.load(model, tokenizer)",
    "torch_device": 'say device_map="cuda"',
    "gpu": 'say device_map="cuda"',
}


def load_named(name: str | None, spec: Spec | None = None, **options: Any) -> tuple[Any, Any, str]:
    """Model, tokenizer (None where there is none) and the name to show: an embedded model, a folder or a hub id.

    None: the embedded default. `spec`: as its user says that the layers are built. Raises ModelError, MissingExtra,
    UnknownOption.
    """
    if name is not None and not name.startswith(_EMBEDDED):
        return *load_pretrained(name, spec, **options), name
    if options:
        raise UnknownOption(f"expected no options for an embedded model, got {sorted(options)}; set them after loading")
    if name is None or name == _EMBEDDED + DEFAULT:
        return *load_embedded(), "mixlens default (MiniLM, SST-2)"
    return *load_embedded(name.removeprefix(_EMBEDDED)), name


def load_pretrained(name: str, spec: Spec | None = None, **options: Any) -> tuple[Any, Any]:
    """Model (with the head that its config names) and tokenizer (None where there is none).

    `options` go to `from_pretrained`; those that say where files are go to the tokenizer's too.
    Raises ModelError, UnknownOption, MissingExtra.
    """
    import transformers
    from transformers import AutoConfig

    where, folder, options = _place(name, options)
    trust = bool(options.pop("trust_remote_code", False))
    shared = {k: options.pop(k) for k in _SHARED if k in options} | {"trust_remote_code": trust}
    if "gguf_file" in options:
        shared["gguf_file"] = options.pop("gguf_file")
    with _reading(name, "configuration"):
        config, rest = AutoConfig.from_pretrained(where, return_unused_kwargs=True, **shared, **options)
    rest = {k: v for k, v in rest.items() if k in options}
    refuse(config, spec)  # before any weights are read
    if "gguf_file" not in shared and getattr(config, "quantization_config", None) is not None:
        del config.quantization_config  # (`refuse` lets nothing pass but floats that a GGUF file was made into)
    encoder = folder is not None and _pools(folder)
    cls = transformers.AutoModel if encoder else _class(config, trust, "gguf_file" in shared)
    if folder is not None:
        with _reading(name, "configuration"):
            claimed, there = _parameters(cls, config, trust, folder), _bytes(folder)
        if there and claimed > 4 * there:
            raise ModelError(
                f"expected weights of the size that config.json of {name!r} says, got {there:,} bytes for "
                f"{claimed:,} parameters or more; the configuration belongs to another model, or the weights are "
                "damaged"
            )
    with quiet(), _reading(name, "weights", options):
        settings: dict[str, Any] = {"dtype": "auto", **rest, **shared, "ignore_mismatched_sizes": True}
        model, loaded = cls.from_pretrained(where, config=config, output_loading_info=True, **settings)
    _complete(model, cls, config, loaded, name, encoder)
    if two_towers(type(model)):
        return model.eval(), load_tower_processor(where, name, folder, **shared)
    food = fed(model)
    reader = load_image_processor if food == PIXELS else load_sound_processor if food in SOUNDS else load_tokenizer
    return model.eval(), reader(where, name, folder, **shared)


def _place(name: str, options: Mapping[str, Any]) -> tuple[str, Path | None, dict[str, Any]]:
    """Where a name leads: what `from_pretrained` is given, the local folder (None: the hub), and the options."""
    options, path = dict(options), Path(name).expanduser()
    if not (name.startswith((".", "/", "~")) or os.path.exists(path)):
        return name, None, options
    if not os.path.exists(path):  # (a path's own question fails for a name that no file can have)
        raise ModelError(f"{_EXPECTED}, got {name!r:.200}: no such folder")
    if path.suffix == ".gguf" and path.is_file() and "gguf_file" not in options:
        path, options["gguf_file"] = path.parent, path.name
    folder = path / str(options.get("subfolder") or "")
    gguf = options.get("gguf_file")
    if gguf is None and not (folder / "config.json").is_file():
        held = sorted(file.name for file in folder.glob("*.gguf")) if folder.is_dir() else []
        reason = "a folder without config.json" if folder.is_dir() else "no such folder in it"
        if folder.is_file():
            reason = "a file"
        reason += f"; it holds {held[0]}: pass gguf_file={held[0]!r}" if held else ""
        raise ModelError(f"{_EXPECTED}, got {name!r}: {reason}")
    if gguf is not None and not (folder / str(gguf)).is_file():
        raise ModelError(f"expected the file {gguf!r} in {str(path)!r}, there is none")
    return str(path), folder, options


def tokenizer_named(name: str) -> Any:
    """The tokenizer of a folder, a file tokenizer.json or a hub id. Raises ModelError where there is none."""
    path = Path(name).expanduser()
    if os.path.isfile(path):
        from transformers import PreTrainedTokenizerFast

        with _reading(name, "tokenizer"):
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

    if folder is not None and "gguf_file" not in shared and not any((folder / file).is_file() for file in _VOCABULARY):
        return None  # token ids can still be explained; a text says then that a tokenizer is missing
    with _reading(name, "tokenizer"):
        try:
            return AutoTokenizer.from_pretrained(where, **shared)
        except OSError:
            if folder is not None:
                raise
            return None  # the hub has none


def image_processor_named(name: str) -> Any:
    """The image processor of a folder or a hub id. Raises ModelError where there is none."""
    folder = Path(name).expanduser()
    processor = load_image_processor(str(folder) if folder.exists() else name, name, trust_remote_code=False)
    if processor is None:
        raise ModelError(f"expected a folder with an image processor or a reachable hub id, got {name!r}: it has none")
    return processor


def load_image_processor(where: str, name: str, folder: Path | None = None, **shared: Any) -> Any:
    """The image processor of a folder or hub id; None where there is none. Raises ModelError for a damaged one."""
    from transformers import AutoImageProcessor

    if folder is not None and not any((folder / file).is_file() for file in _PROCESSORS):
        return None  # tensors can still be explained; a picture says then that a processor is missing
    with quiet(), _reading(name, "image processor"):
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
    folder = Path(name).expanduser()
    processor = load_sound_processor(str(folder) if folder.exists() else name, name, trust_remote_code=False)
    if processor is None:
        raise ModelError(f"expected a folder with a feature extractor or a reachable hub id, got {name!r}: it has none")
    return processor


def load_sound_processor(where: str, name: str, folder: Path | None = None, **shared: Any) -> Any:
    """The processor of a folder or hub id, else its feature extractor; None where there is none. Raises ModelError for
    a damaged one.
    """
    from transformers import AutoFeatureExtractor, AutoProcessor

    if folder is not None and not any((folder / file).is_file() for file in _PROCESSORS):
        return None
    with quiet(), _reading(name, "feature extractor"):
        for kind in (AutoProcessor, AutoFeatureExtractor):
            try:
                made = kind.from_pretrained(where, **shared)
            except (OSError, ValueError, TypeError):  # a folder of a feature extractor alone
                if kind is AutoFeatureExtractor and folder is not None:
                    raise
                continue
            if hasattr(made, "feature_extractor") or hasattr(made, "sampling_rate"):
                return made
    return None


def _class(config: Any, trust: bool, gguf: bool) -> Any:
    """The class that the configuration names, of transformers or (if trusted) of the folder; else without a head."""
    import transformers

    named = _named(config)
    known: Any = getattr(transformers, named, None)
    whole = isinstance(known, type) and issubclass(known, transformers.PreTrainedModel)
    if whole and getattr(known, "config_class", None) is not None:
        return known
    if trust:
        for auto, there in (getattr(config, "auto_map", None) or {}).items():
            if isinstance(there, str) and there.endswith(f".{named}") and hasattr(transformers, auto):
                return getattr(transformers, auto)
    return transformers.AutoModelForCausalLM if gguf else transformers.AutoModel


def encoder_parts(folder: Path) -> list[tuple[str, Path]]:
    """The parts of a sentence encoder that modules.json lists, and their folders; none where it is no such folder."""
    try:
        parts = json.loads((folder / "modules.json").read_text(encoding="utf-8"))
        return [(str(part["type"]).rpartition(".")[2], folder / str(part["path"])) for part in parts]
    except (OSError, ValueError, KeyError, TypeError):
        return []


def _pools(folder: Path) -> bool:
    """Whether it is a sentence encoder's, whose vectors are pooled: the head that its configuration names (of what it
    was tuned from) is not in it, and nobody runs it.
    """
    kinds = [kind for kind, _ in encoder_parts(folder)]
    return kinds[:1] == ["Transformer"] and "Pooling" in kinds


def _named(config: Any) -> str:
    names = getattr(config, "architectures", None)
    return names[0] if isinstance(names, (list, tuple)) and names and isinstance(names[0], str) else ""


def _complete(model: Any, cls: Any, config: Any, loaded: Mapping[str, Any], name: str, encoder: bool = False) -> None:
    """Raises ModelError for weights that are missing, of another shape, or of a head that nobody would run, but for a
    sentence encoder's.
    """
    bare = type(model) is not cls and "ForCausalLM" not in cls.__name__
    kind = type(model).__name__
    missing = sorted(key for key in loaded["missing_keys"] if not bare or "pooler" not in key)
    if missing:
        raise ModelError(
            f"expected all weights of {kind} in {name!r}, {len(missing)} are missing ({missing[0]} ...): they "
            "would be random numbers; save the tuned model with its head, or load it yourself and pass it"
        )
    other = sorted(tuple(mismatch) for mismatch in loaded.get("mismatched_keys", ()))
    if other:
        key, got, wanted = other[0]
        raise ModelError(
            f"expected weights of {kind} in {name!r} with the shapes that its config.json says, {len(other)} have "
            f"others ({key}: {tuple(got)}, not {tuple(wanted)} ...); the configuration belongs to another model"
        )
    left = sorted(loaded.get("unexpected_keys", ()))
    named = _named(config)
    if bare and left and named and named != kind and not encoder:
        raise ModelError(
            f"expected a class of transformers in {name!r}, got {named!r}, which it does not have: its weights "
            f"{left[0]} ... would be left out; load that class yourself and pass mixlens.load(model, tokenizer), or "
            "transformers' AutoModel of it to see the encoder alone"
        )


def _parameters(cls: Any, config: Any, trust: bool, folder: Path) -> int:
    """How many numbers a model of this configuration has at least; nothing is allocated for it."""
    layers, width = getattr(config, "num_hidden_layers", 0), getattr(config, "hidden_size", 0)
    shared = has_spec(config) and shares_layers(spec_for(config))
    least = 0 if shared else int(layers) * int(width)  # a norm a layer of its own
    if least > 4 * _bytes(folder):
        return least  # building so many layers, however empty, takes its time
    with torch.device("meta"):
        model = cls.from_config(config, trust_remote_code=trust) if hasattr(cls, "from_config") else cls(config)
    return sum(p.numel() for p in model.parameters())


def _bytes(folder: Path) -> int:
    return sum(path.stat().st_size for kind in _WEIGHTS for path in folder.glob(kind))


@contextmanager
def _reading(name: str, part: str, options: Mapping[str, Any] | None = None) -> Iterator[None]:
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
