"""Pictures as they come, whatever they come as; and what is refused."""

import struct

import numpy as np
import pytest
import torch
import transformers
from PIL import Image, ImageOps

import mixlens
from mixlens.errors import EmptyInput, InputError, UnknownOption
from mixlens.subject.pictures import opened
from models import families, pictures


@pytest.fixture(scope="module")
def lens():
    return pictures.lens("vit")


def test_an_image_an_array_a_file_and_what_the_processor_gives_are_one_picture(lens, tmp_path):
    image = pictures.image()
    image.save(tmp_path / "it.png")
    processed = pictures.processor()(images=image, return_tensors="pt")
    given = [
        image,
        np.asarray(image),
        tmp_path / "it.png",
        str(tmp_path / "it.png"),
        processed,
        processed["pixel_values"][0],
    ]
    scores = [lens.attribute(item, method="alti").scores for item in given]
    assert all(torch.equal(scores[0], other) for other in scores[1:])


def test_several_pictures_give_several_results(lens):
    both = [pictures.image(), pictures.image(seed=1)]
    results = lens.attribute(both, method="saliency")
    assert [len(attr.source) for attr in results] == [26, 26]
    assert len(lens.attribute(pictures.pixels(2), method="saliency")) == 2


def test_grey_pictures_are_read(lens):
    grey = pictures.image().convert("L")
    assert torch.equal(
        lens.attribute(grey, method="alti").scores, lens.attribute(grey.convert("RGB"), method="alti").scores
    )


def test_a_crop_is_seen_in_the_places():
    """What a processor cuts off is in no patch."""
    kind = getattr(transformers, "CLIPImageProcessorPil", None) or transformers.CLIPImageProcessor
    processor = kind(size={"shortest_edge": 30}, crop_size={"height": 30, "width": 30})
    stream = mixlens.load(pictures.model("vit"), processor).subject.read(pictures.image(120, 60)).require()[0]
    left, top, right, bottom = stream.places[1]
    assert (left, top) == pytest.approx((30, 0), abs=1.5) and (right - left, bottom - top) == pytest.approx(
        (12, 12), abs=0.3
    )
    assert stream.places[25][2:] == pytest.approx((90, 60), abs=1.5)


@pytest.mark.parametrize(
    ("picture", "error", "says"),
    [
        (Image.new("P", (9, 9)), InputError, r"RGB or grey \(L\), got mode 'P'.*convert\('RGB'\)"),
        (Image.new("RGBA", (9, 9)), InputError, r"got mode 'RGBA', which may hold transparency"),
        (Image.new("CMYK", (9, 9)), InputError, r"got mode 'CMYK'"),
        (np.zeros((0, 5, 3), np.uint8), EmptyInput, r"with pixels, got an array of the shape \(0, 5, 3\)"),
        (np.zeros((5, 5, 3)), InputError, r"array of uint8, 0 to 255, got float64"),
        (np.zeros((5, 5, 4), np.uint8), InputError, r"1 or 3 channels, got \(5, 5, 4\); four"),
        (np.zeros(5, np.uint8), InputError, r"\(row, column\) or \(row, column, channel\)"),
        (torch.zeros(3, 30, 31), InputError, r"of a size that ViTForImageClassification takes \(30 x 30"),
        (torch.zeros(1, 30, 30), InputError, r"with 3 channel\(s\), got \(1, 30, 30\)"),
        (torch.zeros(3, 30, 30, dtype=torch.uint8), InputError, r"floating-point numbers.*got torch.uint8"),
        (torch.full((3, 30, 30), float("nan")), InputError, r"finite numbers, got NaN"),
        (torch.full((3, 30, 30), 200.0), InputError, r"numbers of -1 to 1, what the image processor.*got 200 to 200"),
        (torch.zeros(3, 0, 30), EmptyInput, r"with pixels, got a tensor"),
        ([], EmptyInput, r"a picture or several, got an empty list"),
        ("no/such/file.png", InputError, r"path of a picture, got 'no/such/file.png': No such file"),
        (7, InputError, r"expected a picture: a PIL image .* got int"),
        ({"input_ids": [1, 2]}, InputError, r"mapping with 'pixel_values' alone"),
        ({"pixel_values": None}, InputError, r"'pixel_values' as a tensor .*got NoneType: None"),
        ({"pixel_values": "a"}, InputError, r"'pixel_values' as a tensor .*got str: 'a'"),
        ({"pixel_values": [[1.0], [2.0, 3.0]]}, InputError, r"'pixel_values' as a tensor .*got list"),
        ({"pixel_values": torch.zeros(0, 3, 30, 30)}, EmptyInput, r"a picture or several, got none"),
        (torch.zeros(3, 30, 30).to_sparse(), InputError, r"whose numbers are there, dense, got one torch.sparse_coo"),
        (torch.zeros(3, 30, 30, device="meta"), InputError, r"whose numbers are there.*on the device meta"),
    ],
)
def test_what_is_no_picture_for_the_model_is_refused(lens, picture, error, says):
    with pytest.raises(error, match=says):
        lens.attribute(picture, method="alti")


def test_a_text_file_is_no_picture(lens, tmp_path):
    (tmp_path / "a.png").write_text("no")
    with pytest.raises(InputError, match=r"expected a file with a picture \(PNG, JPEG \.\.\.\), got"):
        lens.attribute(tmp_path / "a.png", method="alti")


def exif(*entries: tuple[int, int, int, bytes]) -> bytes:
    """EXIF of entries (tag, kind, count, value), whether they make sense or not."""
    listed = b"".join(struct.pack(">HHI4s", *entry) for entry in entries)
    return b"Exif\0\0MM\0*" + struct.pack(">IH", 8, len(entries)) + listed + bytes(4)


@pytest.mark.parametrize("turn", range(10))
def test_a_file_is_turned_as_its_camera_says(tmp_path, turn):
    image = pictures.image(5, 3)
    image.save(tmp_path / "a.png", exif=exif((0x0112, 3, 1, bytes([0, turn, 0, 0]))))
    expected = ImageOps.exif_transpose(Image.open(tmp_path / "a.png"))
    got = opened(tmp_path / "a.png")
    assert got.size == expected.size and got.tobytes() == expected.tobytes()


@pytest.mark.parametrize("tag", [0x0100, 0x011A])
@pytest.mark.parametrize("kind", [1, 2])
def test_a_tag_of_exif_that_is_damaged_keeps_no_picture_back(tmp_path, tag, kind):
    image = pictures.image(5, 3)
    image.save(tmp_path / "a.png", exif=exif((0x0112, 3, 1, b"\0\6\0\0"), (tag, kind, 3, b"ab\0\0")))
    assert opened(tmp_path / "a.png").tobytes() == image.transpose(Image.Transpose.ROTATE_270).tobytes()


def test_one_of_several_pictures_is_named_by_its_number(lens):
    with pytest.raises(InputError, match=r"^picture 1: expected a picture in RGB"):
        lens.attribute([pictures.image(), Image.new("RGBA", (9, 9))], method="alti")


def test_without_a_processor_a_picture_needs_one_and_a_tensor_does_not():
    lens = mixlens.load(pictures.model("vit"))
    with pytest.raises(InputError, match=r"needs its model's image processor: mixlens.load\(model, processor\)"):
        lens.attribute(pictures.image(), method="alti")
    assert len(lens.attribute(pictures.pixels()[0], method="alti").source) == 26
    with pytest.raises(InputError, match=r"as an image processor gives, got numbers from 0 to 255"):
        lens.attribute(torch.linspace(0, 255, 2700).reshape(3, 30, 30), method="alti")


def test_a_tokenizer_is_no_image_processor_and_options_of_texts_are_refused(lens):
    with pytest.raises(InputError, match=r"expected an image processor of transformers or its name.*got object"):
        mixlens.load(pictures.model("vit"), object())
    with pytest.raises(UnknownOption, match=r"truncate=True cuts texts, this model reads pictures"):
        lens.attribute(pictures.image(), method="alti", truncate=True)
    with pytest.raises(
        UnknownOption, match=r"expected replace='grey', 'blur' or 'zero' for blank_out of a picture, got 'unk'"
    ):
        lens.attribute(pictures.image(), method="blank_out", replace="unk")


def test_one_of_two_towers_is_a_model():
    tower = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 44}
    config = transformers.CLIPConfig(
        text_config={**tower, "vocab_size": families.VOCABULARY, "max_position_embeddings": 40},
        vision_config={**tower, "image_size": 30, "patch_size": 6},
        projection_dim=16,
    )
    model = transformers.CLIPModel(config).eval()
    picture = mixlens.load(model.vision_model).mixing(torch.zeros(3, 30, 30), method="alti")
    assert picture.source.unit == "patch"
    if tuple(map(int, transformers.__version__.split(".")[:2])) >= (5, 24):  # older ones have no whole model there
        assert mixlens.load(model.text_model).mixing([7, 8, 9, 10], method="alti").source.unit == "token"


def test_a_folder_brings_its_image_processor(tmp_path):
    pictures.make("vit", torch.float32).save_pretrained(tmp_path)
    pictures.processor().save_pretrained(tmp_path)
    lens = mixlens.load(tmp_path)
    assert lens.attribute(pictures.image(), method="alti").source.grid == (5, 5)
    (tmp_path / "preprocessor_config.json").unlink()
    assert mixlens.load(tmp_path).tokenizer is None
