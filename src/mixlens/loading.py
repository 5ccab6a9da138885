"""A folder or a hub id to a model and its tokenizer; the embedded default without either."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from mixlens.embedded import DEFAULT, load_embedded
from mixlens.errors import ModelError, UnknownOption

_EMBEDDED = "mixlens:"


def load_named(name: str | None, **options: Any) -> tuple[Any, Any, str]:
    """Model, tokenizer (None where there is none) and the name to show: an embedded model, a folder or a hub id.

    None: the embedded default. Raises ModelError, MissingExtra, UnknownOption.
    """
    if name is not None and not name.startswith(_EMBEDDED):
        return *load_pretrained(name, **options), name
    if options:
        raise UnknownOption(f"expected no options for an embedded model, got {sorted(options)}; set them after loading")
    if name is None or name == _EMBEDDED + DEFAULT:
        return *load_embedded(), "mixlens default (MiniLM, SST-2)"
    return *load_embedded(name.removeprefix(_EMBEDDED)), name


def load_pretrained(name: str, **options: Any) -> tuple[Any, Any]:
    """Model (with the head that its config names) and tokenizer (None where there is none). Raises ModelError."""
    import transformers
    from transformers import AutoConfig, AutoModel, AutoTokenizer

    from mixlens.architectures.match import check_config, spec_for

    looks_local = name.startswith((".", "/", "~")) or Path(name).expanduser().exists()
    where = str(Path(name).expanduser()) if looks_local else name
    if looks_local and not (Path(where) / "config.json").is_file():
        what = "a folder without config.json" if Path(where).is_dir() else "no such folder"
        raise ModelError(
            f"expected a folder with a saved model (config.json and weights) or a hub id, got {name!r}: {what}"
        )
    try:
        config = AutoConfig.from_pretrained(where)
        spec_for(config)  # refuse by name before any weights are read
        check_config(config)
        named = (getattr(config, "architectures", None) or [""])[0] or ""
        cls = getattr(transformers, named, AutoModel)
        model, found = cls.from_pretrained(where, output_loading_info=True, **{"dtype": "auto", **options})
    except (OSError, ValueError) as error:
        raise ModelError(
            f"expected a folder with a saved model or a reachable hub id, got {name!r}: {_first_line(error)}"
        ) from error
    missing = sorted(key for key in found["missing_keys"] if cls is not AutoModel or "pooler" not in key)
    if missing:
        raise ModelError(
            f"expected all weights of {cls.__name__} in {name!r}, {len(missing)} are missing ({missing[0]} ...): they "
            "would be random numbers; save the tuned model with its head, or load it yourself and pass it"
        )
    try:
        tokenizer = AutoTokenizer.from_pretrained(where)
    except (OSError, ValueError, KeyError, TypeError):
        tokenizer = None  # token ids can still be explained; a text says then that a tokenizer is missing
    return model.eval(), tokenizer


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
