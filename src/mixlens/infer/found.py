"""A class and its configuration to a spec, once in a process."""

from __future__ import annotations

import json
from threading import Lock
from typing import Any, Literal, TypeAlias

from mixlens.architectures import SPECS, Spec, base_class, base_model, has_spec, spec_for, two_towers
from mixlens.architectures.match import check_gone
from mixlens.errors import UnknownArchitecture, UnknownOption
from mixlens.infer.reasons import Misfit
from mixlens.infer.spec import spec_of
from mixlens.infer.twin import require_one_stream, twin_of
from mixlens.progress import silent

Origin: TypeAlias = Literal["hand-written", "inferred", "given"]
_found: dict[tuple[Any, str], Spec | str] = {}
_lock = Lock()


def known(model: Any, given: Spec | None = None) -> tuple[Spec, Origin]:
    """How a model's layers are built, and who says so: its user, the table, or its class's numbers.

    Raises UnknownArchitecture, UnsupportedConfig.
    """
    if given is not None:
        _check_given(given)
        check_gone(model.config)
        return given, "given"
    base = base_model(model)
    if has_spec(model.config):
        spec = spec_for(model.config)
        alone = spec.memory is not None and not hasattr(base, "decoder")  # an encoder that was taken out (Whisper's)
        return (spec.memory or spec) if alone else spec, "hand-written"
    return infer(type(base), base.config), "inferred"


def refuse(config: Any, given: Spec | None = None) -> None:
    """Refuse by its configuration what `known` would refuse, before any weights are read.

    Raises UnknownArchitecture, UnsupportedConfig.
    """
    kind = base_class(config.__class__)
    if given is not None:
        _check_given(given)
        check_gone(config)
    elif has_spec(config):
        spec_for(config)
    elif kind is not None:
        if not two_towers(kind):  # of which each is found when the model is there
            infer(kind, config)
    elif not any(name.startswith("AutoModel") for name in getattr(config, "auto_map", None) or {}):
        raise _unknown(config, "no class of transformers is a model of it without a head")


def _check_given(given: object) -> None:
    """Raises UnknownOption for what is no spec."""
    if not isinstance(given, Spec):
        raise UnknownOption(
            f"expected spec= a mixlens.Spec, got {type(given).__name__}; docs/architectures.md shows one"
        )


def infer(kind: Any, config: Any) -> Spec:
    """The spec of a class without heads and its configuration. Raises UnknownArchitecture with the reason.

    It is found on a small random model of the class, so it has to pass the self-check on the real one.
    """
    check_gone(config)
    key = kind, _settings(config)
    with _lock:
        if key not in _found:
            try:
                require_one_stream(config)
                with silent():
                    _found[key] = spec_of(twin_of(kind, config))
            except (Misfit, UnknownArchitecture) as error:
                _found[key] = str(error)
        spec = _found[key]
    if isinstance(spec, Spec):
        return spec
    raise _unknown(config, spec)


def _unknown(config: Any, reason: str) -> UnknownArchitecture:
    return UnknownArchitecture(
        f"expected a model type with a spec ({', '.join(sorted(SPECS))}) or layers that one can say, got "
        f"'{config.model_type}': {reason}; docs/architectures.md lists what has no room yet, and load(..., spec=) "
        "takes a spec of your own"
    )


def _settings(config: Any) -> str:
    """What a configuration says of the model itself, as a key."""
    beside = ("_name_or_path", "dtype", "transformers_version")
    settings = {k: v for k, v in config.to_dict().items() if k not in beside}
    return json.dumps(settings, sort_keys=True, default=str)
