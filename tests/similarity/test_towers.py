"""A text and a picture by a model of two towers: its own cosine, methods against plain torch, what is refused."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import transformers

import mixlens
from mixlens.errors import EmptyInput, InputError, SelfCheckFailed, Undefined, UnknownArchitecture, UnknownOption
from mixlens.subject.towers import Tower, line_residual
from models import families, pictures, towers
from pages import Page, data

TEXT = "a photo of the red cat"
PARTS = (("text_model", "get_text_features"), ("vision_model", "get_image_features"))
if towers.TOO_OLD:
    pytest.skip("older transformers hold parts of towers that are no models of their own", allow_module_level=True)


@pytest.fixture(scope="module")
def picture():
    return pictures.image()


def inputs(kind: str, text: str = TEXT, image=None) -> dict[str, torch.Tensor]:
    """As the authors feed a model."""
    full = {"padding": "max_length", "max_length": towers.LIMIT} if kind == "Siglip" else {}
    ids = towers.tokenizer()(text, return_tensors="pt", **full)["input_ids"]
    pixels = pictures.processor()(images=image or pictures.image(), return_tensors="pt")["pixel_values"]
    return {"input_ids": ids, "pixel_values": pixels.double()}


def cosine(model, output) -> float:
    """Out of `logits_per_image`, by the model's own scale and bias."""
    bias = model.logit_bias if hasattr(model, "logit_bias") else 0
    return float((output.logits_per_image[0, 0] - bias) / model.logit_scale.exp())


@torch.no_grad()
def vectors(kind: str, fed: dict[str, torch.Tensor]) -> tuple[torch.Tensor, torch.Tensor]:
    """Both vectors by the model's own features."""
    model = towers.model(kind)
    text = model.get_text_features(input_ids=fed["input_ids"]).pooler_output
    return text[0], model.get_image_features(pixel_values=fed["pixel_values"]).pooler_output[0]


@pytest.mark.parametrize("kind", towers.KINDS)
def test_the_cosine_is_the_models_own(kind, picture):
    lens = towers.lens(kind)
    with torch.no_grad():
        wanted = cosine(towers.model(kind), towers.model(kind)(**inputs(kind)))
    for method in ("leave_out", "jacobian"):
        assert lens.similarity(TEXT, picture, method).value == pytest.approx(wanted, abs=1e-6)
    assert lens.similarity(picture, TEXT).value == pytest.approx(wanted, abs=1e-6)


@pytest.mark.parametrize("kind", towers.KINDS)
@pytest.mark.parametrize(
    "method", ["leave_out", "jacobian", pytest.param("integrated_jacobian", marks=pytest.mark.slow)]
)
def test_the_sides_may_be_swapped(kind, method, picture):
    lens = towers.lens(kind)
    one, other = lens.similarity(TEXT, picture, method), lens.similarity(picture, TEXT, method)
    assert [stream.unit for stream in one.streams] == ["token", "patch"]
    assert torch.equal(one.scores, other.scores.T)
    assert torch.equal(one.first_scores, other.second_scores)


@pytest.mark.parametrize("kind", towers.KINDS)
def test_jacobians_are_finite_differences(kind, picture):
    """d cos / d embedding, a direction a token and a patch: central differences of the model's own features."""
    alike, model, fed = towers.lens(kind).similarity(TEXT, picture, "jacobian"), towers.model(kind), inputs(kind)
    whole = vectors(kind, fed)
    step = 1e-5
    parts = []
    for side, (name, features) in enumerate(PARTS):
        layer = getattr(model, name).encoder.layers[0]
        kept: list[torch.Tensor] = []
        hook = layer.register_forward_pre_hook(lambda _, args, kept=kept: kept.append(args[0]))
        key = ("input_ids", "pixel_values")[side]
        with torch.no_grad():
            getattr(model, features)(fed[key])
        hook.remove()
        (x,) = kept
        rows = []
        for i in range(x.shape[1]):
            ends = []
            for sign in (1, -1):
                moved = x.clone()
                moved[0, i] *= 1 + sign * step
                hook = layer.register_forward_pre_hook(lambda _, args, moved=moved: (moved, *args[1:]))
                with torch.no_grad():
                    ends.append(getattr(model, features)(fed[key]).pooler_output[0])
                hook.remove()
            rows.append((ends[0] - ends[1]) / (2 * step) / whole[side].norm())
        parts.append(torch.stack(rows))
    scale = float((parts[0] @ parts[1].T).abs().max())
    torch.testing.assert_close(alike.scores.double(), parts[0] @ parts[1].T, rtol=1e-4, atol=1e-6 * scale)
    towards = parts[0] @ whole[1] / whole[1].norm()
    torch.testing.assert_close(alike.first_scores.double(), towards, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kind", towers.KINDS)
def test_integrated_jacobians_sum_to_the_difference_from_the_references(kind, picture):
    """A text of padding and the picture's own mean: references of no content (after Moeller et al. 2024)."""
    fed, options = inputs(kind), {"steps": 40, "baseline": {"text": "pad", "picture": "grey"}}
    alike = towers.lens(kind).similarity(TEXT, picture, "integrated_jacobian", **options)
    ids, pixels = fed["input_ids"].clone(), fed["pixel_values"]
    ids[0, 1:7] = 0
    whole = vectors(kind, fed)
    empty = vectors(kind, {"input_ids": ids, "pixel_values": pixels.mean((2, 3), keepdim=True).expand_as(pixels)})
    moves = [(f - r) / f.norm() for f, r in zip(whole, empty, strict=True)]
    assert alike.explained == pytest.approx(float(moves[0] @ moves[1]), rel=1e-4, abs=1e-6)
    towards = float(moves[0] @ whole[1] / whole[1].norm())
    assert float(alike.first_scores.sum()) == pytest.approx(towards, rel=1e-4, abs=1e-6)


@pytest.mark.parametrize("kind", towers.KINDS)
def test_leaving_out_is_the_second_difference(kind, picture):
    """A word is deleted (SigLIP's text filled up again), a patch made grey."""
    alike, fed = towers.lens(kind).similarity(TEXT, picture, "leave_out"), inputs(kind)
    words, grey = TEXT.split(), fed["pixel_values"].mean((2, 3), keepdim=True)
    for i, j in ((1, 3), (4, 24), (5, 0)):
        less = inputs(kind, " ".join(words[:i] + words[i + 1 :]))
        row, column = divmod(j, 5)
        pixels = fed["pixel_values"].clone()
        pixels[:, :, 6 * row : 6 * row + 6, 6 * column : 6 * column + 6] = grey
        less["pixel_values"] = pixels
        units = [[v / v.norm() for v in vectors(kind, f)] for f in (fed, less)]
        both = (units[0][0] - units[1][0]) @ (units[0][1] - units[1][1])
        places = [n for n, cell in enumerate(alike.source.cells) if cell == (row, column)]
        assert float(alike.scores[1 + i, places[0]]) == pytest.approx(float(both), abs=1e-6)


@pytest.mark.parametrize("method", ["token_products", "alti", "globenc", "attention_rollout"])
def test_rows_share_out_all_of_the_cosine_of_a_tower_that_reads_one(method, picture):
    alike = towers.lens("CLIP").similarity(TEXT, picture, method)
    assert alike.explained == pytest.approx(alike.value, abs=1e-6)
    torch.testing.assert_close(alike.scores.sum(1), alike.first_scores, rtol=1e-5, atol=1e-7)
    if method == "token_products":  # all of it stands in the rows that the vectors are made of
        at = alike.into.ids.index(49), alike.source.names.index("[CLS]")
        assert float(alike.scores[at]) == pytest.approx(alike.value, abs=1e-6)


def test_a_vector_of_many_rows_at_once_has_no_rows_to_share(picture):
    with pytest.raises(Undefined, match=r"made of 25 rows at once \(attention pooling\); use leave_out, jacobian"):
        towers.lens("Siglip").similarity(TEXT, picture, "token_products")


@pytest.mark.parametrize("kind", towers.KINDS)
def test_two_of_a_kind_go_as_well_and_company_changes_no_number(kind, picture):
    lens, other = towers.lens(kind), pictures.image(seed=3)
    assert [s.unit for s in lens.similarity(picture, other, "jacobian").streams] == ["patch", "patch"]
    texts = ["the blue dog", "a house"]
    several = lens.similarity(picture, texts)
    for text, alike in zip(texts, several, strict=True):
        torch.testing.assert_close(alike.scores, lens.similarity(picture, text).scores, rtol=1e-6, atol=1e-8)
    words = lens.similarity("a red cat", "a blue cat")
    assert [p.first.text for p in words.top(1)] == ["a"] or words.top(1)[0].first.text in ("red", "cat")


def test_an_option_may_be_said_for_each_side(picture):
    lens = towers.lens("CLIP")
    both = lens.similarity(TEXT, picture, replace={"text": "unk", "picture": "blur"})
    assert not torch.equal(both.scores, lens.similarity(TEXT, picture, replace={"picture": "blur"}).scores)
    assert torch.equal(
        both.first_scores, lens.similarity(TEXT, picture, replace={"text": "unk", "picture": "zero"}).first_scores
    )
    assert both.options == {"replace": {"text": "unk", "picture": "blur"}}


def test_siglips_text_is_filled_up_as_its_processor_does(picture):
    alike = towers.lens("Siglip").similarity(TEXT, picture)
    assert len(alike.into) == towers.LIMIT and alike.into.pieces[-1] == "[PAD]" and all(alike.into.special[8:])
    given = towers.lens("Siglip").similarity(list(alike.into.ids[:8]), picture)
    assert len(given.into) == 8  # ids are taken as they come
    assert [towers.lens(kind).subject.model.last for kind in towers.KINDS] == [False, True]


def test_pairs_are_words_and_patches_and_a_file_gives_them_back(picture, tmp_path):
    alike = towers.lens("CLIP").similarity(TEXT, picture)
    first, second, shares = alike.words()
    assert [u.text for u in first if not u.special] == TEXT.split()
    assert [u.text for u in second][:2] == ["[CLS]", "patch 1,1"] and second[1].place is not None
    best = alike.top(1)[0]
    content = shares[1:-1, 1:]
    assert best.score == pytest.approx(float(content.max())) and best.second.text.startswith("patch ")
    again = mixlens.read(alike.save(tmp_path / "alike"))
    assert again.streams[1].png == alike.source.png and torch.equal(again.scores, alike.scores)
    assert repr(again) == f"Similarity(leave_out, 8 tokens x 26 patches, cosine {alike.value:.3f})"
    assert alike.meta["architecture"] == "clip" and alike.meta["self_check"] < 1e-12
    assert alike.to_frame().iloc[28]["second_token"] == "patch 1,2"


def test_the_page_has_the_picture_on_its_side(picture):
    page = towers.lens("CLIP").similarity(TEXT, picture).to_html()
    assert "Which words and which patches make them alike?" in Page(page).text
    head, arrays = data(page)
    assert "picture" not in head["queries"] and arrays["maps"].shape == (1, 8, 26)
    assert head["keys"]["picture"]["uri"].startswith("data:image/png;base64,")
    assert head["keys"]["picture"]["boxes"][:3] == [None, [0, 0, 0.2, 0.2], [0.2, 0, 0.4, 0.2]]
    both = towers.lens("CLIP").similarity(picture, picture)
    assert "Which patches make these pictures alike?" in Page(both.to_html()).text
    assert "<img" in both._repr_html_() and "%" not in str(both).split("cosine")[0]


@pytest.mark.parametrize(
    ("first", "second", "options", "error", "says"),
    [
        (TEXT, [TEXT, np.zeros((9, 9, 3), np.uint8)], {}, InputError, "expected texts or pictures in a list, got both"),
        (TEXT, TEXT, {"pooling": "mean"}, UnknownOption, "expected no pooling= for two towers"),
        (TEXT, np.zeros((9, 9, 4), np.uint8), {}, InputError, "four channels hold transparency"),
        ("", np.zeros((9, 9, 3), np.uint8), {}, EmptyInput, "expected a text"),
        (TEXT, np.zeros((9, 9, 3), np.uint8), {"replace": "unk"}, UnknownOption, "of a picture, got 'unk'"),
        (TEXT, pictures.image(), {"replace": {"words": "unk"}}, UnknownOption, r"\{'text': ..., 'picture': ...\}, got"),
        (pictures.image(), pictures.image(), {"truncate": True}, UnknownOption, "both are pictures"),
    ],
)
def test_what_is_refused(first, second, options, error, says):
    with pytest.raises(error, match=says):
        towers.lens("CLIP").similarity(first, second, **options)


def test_every_other_verb_asks_for_one_tower(tmp_path):
    lens = towers.lens("CLIP")
    says = r"got two towers \(CLIPModel\).*lens\.similarity\(text, picture\).*mixlens\.load\(model\.vision_model"
    for verb in ("attribute", "mixing", "trace", "compare", "mixing_ratio", "output_statistics"):
        with pytest.raises(Undefined, match=says):
            getattr(lens, verb)([TEXT])
    with pytest.raises(Undefined, match=says):
        lens.plan(TEXT, "alti")
    with pytest.raises(Undefined, match=says):
        lens.subject.read(TEXT)
    rows = [{"text": TEXT, "label": 0}]
    with pytest.raises(Undefined, match=says):
        mixlens.explain_data(lens, rows, out=tmp_path / "run")
    with pytest.raises(Undefined, match=says):
        mixlens.evaluate(lens, rows, ["alti"], ["spearman"])


def test_both_towers_are_checked_and_the_model_stays_as_it_is(picture):
    model = towers.make("CLIP")
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    lens = mixlens.load(model, (towers.tokenizer(), pictures.processor()))
    check = lens.check()
    assert {layer.name for layer in check.layers} == {"text 0", "text 1", "picture 0", "picture 1"} and check.passed
    lens.similarity(TEXT, picture, "jacobian")
    assert lens.model is model and not model.training
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())
    residual = lens.self_check_residual
    model.float()
    assert lens.self_check_residual > 10 * residual  # checked again in the other precision
    assert lens.similarity(TEXT, picture).meta["dtype"] == "float32"


def test_a_model_that_compares_in_another_way_is_refused():
    class Distance(transformers.CLIPModel):
        def forward(self, **inputs):
            text = self.get_text_features(inputs["input_ids"]).pooler_output
            image = self.get_image_features(inputs["pixel_values"]).pooler_output
            return transformers.utils.ModelOutput(logits_per_image=-torch.cdist(image, text))

    model = Distance(towers.model("CLIP").config).double()
    families.randomize(model)
    with pytest.raises(SelfCheckFailed, match="to go by the cosines of its towers' vectors, they are off by"):
        mixlens.load(model)
    assert line_residual(torch.tensor([0.0, 1, 2, 4]), torch.tensor([1.0, 3, 5, 9])) < 1e-6


def test_a_tower_that_is_not_known_says_which():
    config = transformers.CLIPConfig(
        text_config={"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 4, "intermediate_size": 44},
        vision_config={"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 4, "intermediate_size": 44},
    )

    class Odd(transformers.CLIPModel):
        pass

    model = Odd(config).eval()
    del model.vision_model
    with pytest.raises(UnknownArchitecture, match=r"the towers of Odd at model\.text_model and model\.vision_model"):
        mixlens.load(model)
    with pytest.raises(UnknownOption, match="expected no spec= for a model of two towers"):
        mixlens.load(towers.model("CLIP"), spec=mixlens.load(towers.model("CLIP").text_model).spec)


def test_readers_come_as_a_processor_a_pair_or_alone(picture):
    class Processor:
        tokenizer, image_processor = towers.tokenizer(), pictures.processor()

    model = towers.model("CLIP")
    wanted = towers.lens("CLIP").similarity(TEXT, picture).scores
    assert torch.equal(mixlens.load(model, Processor()).similarity(TEXT, picture).scores, wanted)
    alone = mixlens.load(model, towers.tokenizer())
    with pytest.raises(InputError, match="a picture needs its model's image processor"):
        alone.similarity(TEXT, picture)
    pixels = inputs("CLIP")["pixel_values"][0]
    torch.testing.assert_close(alone.similarity(TEXT, pixels).scores, wanted, rtol=1e-4, atol=1e-6)
    seen = mixlens.load(model, pictures.processor())
    with pytest.raises(InputError, match="a text needs a tokenizer"):
        seen.similarity(TEXT, picture)


def test_a_folder_brings_both_readers(tmp_path, picture):
    towers.make("CLIP", torch.float32).save_pretrained(tmp_path)
    towers.tokenizer().save_pretrained(tmp_path)
    pictures.processor().save_pretrained(tmp_path)
    lens = mixlens.load(tmp_path)
    wanted = towers.lens("CLIP").similarity(TEXT, picture).scores
    torch.testing.assert_close(lens.similarity(TEXT, picture).scores, wanted, rtol=1e-3, atol=1e-5)


def test_a_tower_holds_the_model_and_no_copy():
    tower = Tower(towers.model("CLIP"), "pixel_values")
    assert tower.base_model is towers.model("CLIP").vision_model and not tower.last


def test_each_call_sees_towers_of_its_own():
    """Of what was seen of the weights nothing is kept: they may have been replaced since."""
    lens = towers.lens("CLIP")
    before, after = lens.subject.towers, lens.subject.towers
    assert all(one is not other and one.model is other.model for one, other in zip(before, after, strict=True))
