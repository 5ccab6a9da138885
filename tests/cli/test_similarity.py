"""`mixlens similarity`: one text against one or several, and what is refused in its words."""

from __future__ import annotations

import json

import pytest
import torch
from typer.testing import CliRunner

import mixlens
from mixlens.cli import app
from mixlens.errors import MixlensError
from models import pictures, towers

FIRST, SECOND = "a fast car", "the quick automobile"


@pytest.fixture(scope="module")
def lens():
    return mixlens.load("mixlens:minilm")


@pytest.fixture
def similarity(lens, tmp_path, monkeypatch):
    """The verb in an empty folder, on the model that it takes where none is named, loaded once."""
    monkeypatch.chdir(tmp_path)
    load = mixlens.load
    monkeypatch.setattr(mixlens, "load", lambda name: lens if name == "mixlens:minilm" else load(name))

    def run(*words):
        result = CliRunner().invoke(app, ["similarity", *words])
        if not isinstance(result.exception, SystemExit | MixlensError | None):
            raise result.exception
        return result

    return run


def test_json_is_the_result_s(lens, similarity):
    result = similarity(FIRST, SECOND, "--method", "token_products", "--json", "-")
    assert (result.exit_code, result.stderr) == (0, "")
    data = json.loads(result.stdout)
    assert data == json.loads(json.dumps(lens.similarity(FIRST, SECOND, "token_products").to_dict()))


def test_files_are_written_one_a_text(similarity, tmp_path):
    result = similarity(
        FIRST, SECOND, "the stock market", "--method", "token_products", "--html", "a.html", "--save", "a.mix"
    )
    assert result.exit_code == 0, result.stderr
    assert result.stdout.count("the pairs sum to the cosine") == 2
    assert {path.name for path in tmp_path.iterdir()} == {"a-1.html", "a-2.html", "a-1.mix", "a-2.mix"}
    assert mixlens.read(tmp_path / "a-1.mix").value > mixlens.read(tmp_path / "a-2.mix").value


@pytest.mark.skipif(towers.TOO_OLD, reason="towers of older transformers are no models of their own")
def test_a_picture_stands_behind_the_text(similarity, tmp_path):
    towers.make("CLIP", torch.float32).save_pretrained(tmp_path / "clip")
    towers.tokenizer().save_pretrained(tmp_path / "clip")
    pictures.processor().save_pretrained(tmp_path / "clip")
    pictures.image().save(tmp_path / "one.png")
    result = similarity("a red cat", "--picture", "one.png", "--model", "clip", "--json", "-", "--html", "a.html")
    assert result.exit_code == 0, result.stderr
    data = json.loads(result.stdout)
    lens = mixlens.load("clip")
    assert data == json.loads(json.dumps(lens.similarity("a red cat", pictures.image()).to_dict()))
    several = similarity("a red cat", "--picture", "one.png", "--picture", "one.png", "--model", "clip")
    assert several.exit_code == 0 and several.stdout.count("cosine") >= 2
    assert (tmp_path / "a.html").is_file()
    checked = CliRunner().invoke(app, ["check", "clip"])
    assert checked.exit_code == 0 and "picture 1" in checked.stdout


def test_two_pictures_go_by_their_files(similarity, tmp_path):
    pictures.make("dinov2", torch.float32).save_pretrained(tmp_path / "model")
    pictures.processor().save_pretrained(tmp_path / "model")
    for seed in (0, 1):
        pictures.image(seed=seed).save(tmp_path / f"{seed}.png")
    result = similarity("0.png", "1.png", "--model", "model", "--pooling", "first", "--json", "-")
    assert (result.exit_code, result.stderr) == (0, "")
    assert json.loads(result.stdout)["first_tokens"][0] == "[CLS]"


def test_one_side_is_not_enough(similarity):
    assert "expected two texts or more, or a TEXT and --picture FILE" in similarity("a red cat").stderr


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--method", "tokens"], "no similarity method 'tokens'"),
        (["--pooling", "max"], "expected pooling='first', 'last' or 'mean'"),
        (["--option", "unit=letter"], "expected unit='word' or 'token'"),
    ],
)
def test_errors_are_one_line(similarity, words, says):
    result = similarity(FIRST, SECOND, *words)
    assert result.exit_code != 0 and says in str(result.exception) + result.stderr


def test_a_picture_for_a_model_of_texts_is_refused(similarity):
    result = similarity(FIRST, "--picture", "one.png")
    assert result.exit_code == 1
    assert "error: --picture is of a model of texts and pictures, mixlens:minilm reads texts alone" in result.stderr
