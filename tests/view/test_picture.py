"""A picture with its heat: on a page, in a figure, in a notebook, in a terminal, in a file."""

import base64
import io
import re
from dataclasses import replace

import numpy as np
import pytest
import torch
from PIL import Image

import mixlens
from mixlens.measure.faithfulness import Faithfulness
from mixlens.view.kit import picture as kit
from models import pictures


@pytest.fixture(scope="module")
def attr():
    return pictures.lens("vit").attribute(pictures.image(), method="saliency")


def test_the_page_holds_the_picture_and_its_heat(attr, tmp_path):
    page = attr.to_html(tmp_path / "it.html")
    found = re.findall(r'src="data:image/png;base64,([^"]+)"', page)
    images = [Image.open(io.BytesIO(base64.b64decode(data))) for data in found]
    assert len(images) == 2 and images[0].size == images[1].size == (480, 360)
    assert "patch 1,1" in page and "60 x 45 pixels, 5 x 5 patches" in page and "probability" in page


def test_the_patch_with_the_largest_score_has_the_strongest_colour(attr):
    scores = attr.scores.numpy()
    drawn = np.asarray(kit.heat(attr.source, scores, kit.scale(attr.source, scores)), dtype=float)
    colour = drawn.max(2) - drawn.min(2)
    boxes = dict(kit.boxes(attr.source, (480, 360)))
    strength = {i: colour[top:bottom, left:right].mean() for i, (left, top, right, bottom) in boxes.items()}
    assert max(strength, key=strength.get) == max(boxes, key=lambda i: scores[i])
    assert min(strength, key=strength.get) == min(boxes, key=lambda i: scores[i])


def test_a_terminal_has_a_row_of_cells_for_each_row_of_patches(attr):
    rows = [line.split() for line in str(attr).splitlines() if re.fullmatch(r"[\s\d-]+", line) and line.strip()]
    patches = attr.scores[1:].numpy()
    assert np.array_equal(np.array(rows, dtype=float), np.round(100 * patches / patches.max()).reshape(5, 5))


def test_figures_and_the_notebook_s_piece(attr, tmp_path):
    attr.plot(tmp_path / "it.png")
    with Image.open(tmp_path / "it.png") as drawn:
        assert drawn.size[0] > 900
    attr.plot(tmp_path / "bars.png", kind="bar")
    with pytest.raises(mixlens.errors.UnknownOption, match="kind of figure, got 'text'"):
        attr.plot(kind="text")
    assert attr._repr_html_().count("data:image/png") == 2


def test_a_file_holds_the_picture_and_it_is_drawn_alike(attr, tmp_path):
    attr.save(tmp_path / "it.safetensors")
    again = mixlens.read(tmp_path / "it.safetensors")
    assert torch.equal(again.scores, attr.scores) and again.source.places == attr.source.places
    assert again.to_html() == attr.to_html()


def test_a_picture_whose_places_are_not_known_is_drawn_as_a_grid(attr):
    assert kit.boxes(replace(attr.source, places=None), (480, 360)) == kit.boxes(attr.source, (480, 360))


def test_methods_side_by_side_have_a_picture_each(attr, tmp_path):
    compared = pictures.lens("vit").compare(pictures.image(), ["alti", "saliency"], faithfulness=False)
    assert compared.to_html().count("data:image/png") == 2 and compared._repr_html_().count("data:image/png") == 2
    assert "patch 1,1 patch 1,2" not in str(compared)
    rated = replace(compared, faithfulness={"alti": Faithfulness(0.5, 0.5, 0.25, 0.625, 0.05)})
    assert "highest patches are taken out" in rated.to_html()


def test_pages_of_several_show_pictures_where_texts_have_a_script(attr):
    lens = pictures.lens("vit")
    compared = lens.compare(pictures.image(), ["alti", "saliency"], faithfulness=False).to_html()
    listed = lens.attribute([pictures.image(), pictures.image(seed=1)], method="saliency").to_html()
    for page in (compared, listed):
        assert "application/octet-stream" not in page and "data:image/png" in page
    assert "One picture, 2 methods" in compared and "<h1>2 pictures</h1>" in listed and "Picture 1" in listed


def test_a_picture_is_as_wide_as_there_is_room_and_keeps_its_sides(attr):
    page = attr.to_html()
    assert page.count('class="photo" src="data:image/png') == 2
    assert re.search(r"img\.photo \{[^}]*max-width: 100%; height: auto", page)
