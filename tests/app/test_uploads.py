"""Pictures and sounds that are sent: what answers, and what of a form or a file is refused, in words."""

from __future__ import annotations

import asyncio
import html
import io
import re
import struct
import tempfile
import zlib
from base64 import b64decode
from typing import Any

import numpy as np
import pytest

pytest.importorskip("starlette", reason='needs the extra "app"')
pytest.importorskip("httpx", reason="needs httpx")

import httpx
import torch
from PIL import Image
from scipy.io import wavfile
from typer.testing import CliRunner

import mixlens
from app.pages import client, error
from app.pages import data as packed
from mixlens import embedded_pictures, embedded_sounds
from mixlens.app import Models, application, server, uploads
from mixlens.cli import app
from mixlens.errors import InputError
from models import pictures, sounds, speech, towers


def written(image: Image.Image, kind: str = "PNG", **settings: Any) -> bytes:
    out = io.BytesIO()
    image.save(out, kind, **settings)
    return out.getvalue()


def digit(number: int = 3) -> bytes:
    return written(Image.fromarray(embedded_pictures.held_out()[number][0]))


def tones(number: int = 3) -> tuple[bytes, Any]:
    """A sentence as a WAV file, and what it is."""
    made, out = embedded_sounds.held_out()[number], io.BytesIO()
    wavfile.write(out, made.sound["sampling_rate"], np.asarray(made.sound["array"], np.float32))
    return out.getvalue(), made


def body(page: str) -> str:
    """What a page shows, without its script."""
    return page.partition("<main>")[2].rpartition("</main>")[0]


@pytest.fixture(scope="module")
def asking():
    with client() as made:
        yield made


def send(asking: Any, data: bytes, name: str = "seven.png", path: str = "picture", **fields: str) -> Any:
    return asking.post(f"/{path}", files={path: (name, data, "image/png")}, data=fields)


def test_a_picture_is_answered_and_the_command_writes_the_same_page(asking, tmp_path, monkeypatch):
    response = send(asking, digit(), "it's seven.png", method="alti", target="7", option="p=2")
    assert response.status_code == 200, error(response)
    command = "mixlens explain --model mixlens:digits --method alti --target 7 --option p=2 --html answer.html -- "
    (line,) = re.findall(r"data-copied>(.*?)</code>", response.text)
    assert html.unescape(line) == command + "'it'\"'\"'s seven.png'"
    monkeypatch.chdir(tmp_path)
    (tmp_path / "it's seven.png").write_bytes(digit())
    result = CliRunner().invoke(app, [*command.split()[1:], "it's seven.png"])
    assert result.exit_code == 0, result.output
    page = (tmp_path / "answer.html").read_text("utf-8")
    assert "patch" in body(page) and body(page) == body(response.text)


def test_a_picture_is_compared_and_mapped_as_the_command_line_does(asking, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "seven.png").write_bytes(digit())
    for verb, fields in (
        ("compare", {"method": ["alti", "saliency"], "target": "7", "no_faithfulness": "on"}),
        ("map", {"method": "attention"}),
    ):
        files = {"picture": ("seven.png", digit(), "image/png")}
        response = asking.post(f"/picture-{verb}", files=files, data=fields)
        assert response.status_code == 200, error(response)
        (line,) = re.findall(r"data-copied>(.*?)</code>", response.text)
        assert line.startswith(f"mixlens {verb} --model mixlens:digits") and line.endswith("-- seven.png")
        result = CliRunner().invoke(app, line.split()[1:])
        assert result.exit_code == 0, result.output
        page = (tmp_path / "answer.html").read_text("utf-8")
        assert packed(page) == packed(response.text) and body(page) == body(response.text)


def test_a_sound_is_mapped_as_the_command_line_does(asking, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    data, _ = tones()
    (tmp_path / "a.wav").write_bytes(data)
    response = asking.post("/sound-map", files={"sound": ("a.wav", data)}, data={"method": "attention"})
    assert response.status_code == 200, error(response)
    (line,) = re.findall(r"data-copied>(.*?)</code>", response.text)
    assert line == "mixlens map --model mixlens:tones --method attention --html answer.html -- a.wav"
    result = CliRunner().invoke(app, line.split()[1:])
    assert result.exit_code == 0, result.output
    page = (tmp_path / "answer.html").read_text("utf-8")
    assert packed(page) == packed(response.text) and body(page) == body(response.text)
    (held,) = packed(page)
    assert b'"unit":"word"' in zlib.decompress(b64decode(held))  # what is said is known
    fields = {"method": "effective_attention", "option": "k=2"}
    refused = asking.post("/sound-map", files={"sound": ("a.wav", data)}, data=fields)
    assert refused.status_code == 400 and "'k'" in error(refused)


def test_what_is_written_of_a_sound_is_traced(tmp_path, monkeypatch):
    """Of Whisper, with each option; the command line writes the same page. Its encoder is mapped, frame by frame."""
    folder = speech.whisper(tmp_path / "whisper")
    data, fields = wave(0.4, 16_000), {"model": str(folder), "method": "saliency", "max_new_tokens": "3"}
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.wav").write_bytes(data)
    with client(folder) as asked_of:
        response = asked_of.post("/sound-trace", files={"sound": ("a.wav", data)}, data=fields)
        assert response.status_code == 200, error(response)
        both = asked_of.post("/sound-trace", files={"sound": ("a.wav", data)}, data={**fields, "answer": "w5"})
        assert both.status_code == 400 and "nothing generated" in error(both)
        mapped = asked_of.post("/sound-map", files={"sound": ("a.wav", data)}, data={"model": str(folder)})
        (held,) = packed(mapped.text)
        assert b'"unit":"frame"' in (head := zlib.decompress(b64decode(held))) and b'"noun":"sound"' in head
    (line,) = re.findall(r"data-copied>(.*?)</code>", response.text)
    assert line.endswith("--method saliency --max-new-tokens 3 --html answer.html -- a.wav")
    result = CliRunner().invoke(app, line.split()[1:])
    assert result.exit_code == 0, result.output
    page = (tmp_path / "answer.html").read_text("utf-8")
    assert packed(page) == packed(response.text) and body(page) == body(response.text)


def test_the_link_leads_to_the_form_as_it_was_filled_in(asking):
    page = send(asking, digit(), method="alti", target="7").text
    (link,) = re.findall(r'href="(/picture\?[^"]*)"', page)
    assert html.unescape(link) == "/picture?model=mixlens%3Adigits&method=alti&target=7"
    form = asking.get(html.unescape(link)).text
    assert '<option value="alti" selected>' in form and 'value="7"' in form and body(form) != body(page)
    assert 'method="post" enctype="multipart/form-data"' in form and 'type="file" accept="image/png' in form


@pytest.mark.slow
def test_a_sound_is_answered(asking):
    data, made = tones()
    target = made.text.split()[made.alike]
    response = send(asking, data, "a.wav", "sound", target=target, method="attention")
    assert response.status_code == 200, error(response)
    expected = mixlens.load("mixlens:tones").attribute(made.sound, "attention", target).to_html()
    assert body(response.text) == body(expected)
    assert f"mixlens explain --model mixlens:tones --method attention --target {target} --html" in response.text


@pytest.mark.skipif(towers.TOO_OLD, reason="towers of older transformers are no models of their own")
def test_a_text_and_a_picture(tmp_path):
    for part in (towers.make("CLIP", torch.float32), towers.tokenizer(), pictures.processor()):
        part.save_pretrained(tmp_path)
    picture = written(pictures.image())
    with client(tmp_path) as asked_of:
        files = {"picture": ("-one.png", picture, "image/png")}
        response = asked_of.post("/text-picture", files=files, data={"text": "a red cat"})
        wanted = mixlens.load(str(tmp_path)).similarity("a red cat", pictures.image()).to_html()
        assert response.status_code == 200 and body(response.text) == body(wanted)
        line = f"mixlens similarity --picture ./-one.png --model {tmp_path} --html answer.html -- 'a red cat'"
        assert line in html.unescape(response.text)
        assert error(asked_of.post("/text-picture", files=files)) == "expected a text, got none"


def test_a_text_is_never_a_file_of_this_machine(tmp_path):
    """As it would be for a model of pictures, by its path."""
    for part in (pictures.make("vit", torch.float32), pictures.processor()):
        part.save_pretrained(tmp_path / "vit")
    pictures.image().save(tmp_path / "secret.png")
    with client(tmp_path / "vit") as asked_of:
        for name in ("explain", "compare", "map", "trace", "similarity"):
            fields = {"text": str(tmp_path / "secret.png"), "model": str(tmp_path / "vit")}
            fields |= {"second": fields["text"]} if name == "similarity" else {}
            response = asked_of.get(f"/{name}", params=fields)
            assert response.status_code == 400 and re.search(r"reads (texts|what is asked about)", error(response))
        assert str(tmp_path / "vit") not in asked_of.get("/explain").text  # it is known now what it reads
        assert asked_of.get("/picture").text.count(str(tmp_path / "vit")) == 2


def header(width: int, height: int) -> bytes:
    """A PNG file that says how large it is and ends."""
    parts = (b"IHDR" + struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0), b"IDAT")
    chunks = (struct.pack(">I", len(part) - 4) + part + struct.pack(">I", zlib.crc32(part)) for part in parts)
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunks)


def frames() -> bytes:
    image = Image.fromarray(embedded_pictures.held_out()[3][0])
    return written(image, save_all=True, append_images=[Image.new("L", image.size)])


@pytest.mark.parametrize(
    ("data", "status", "words"),
    [
        (b"no picture", 400, "expected a file with a picture (PNG, JPEG, WEBP), got 'seven.png', which holds none"),
        (b"<svg xmlns='http://www.w3.org/2000/svg'/>", 400, "holds none"),
        (written(Image.new("L", (8, 8)), "GIF"), 400, "holds none"),
        (written(Image.new("L", (8, 8)), "TIFF"), 400, "holds none"),
        (digit()[:60], 400, "expected a file with a picture, got 'seven.png'"),
        (header(5000, 5000), 413, "expected at most 20,000,000 pixels, 'seven.png' has 5,000 x 5,000"),
        (header(60_000, 60_000), 400, "decompression bomb"),
        (frames(), 400, "expected one picture, got 2 frames"),
        (written(Image.new("RGBA", (8, 8))), 400, "mode 'RGBA'"),
        (b"", 400, "expected a file that holds something, 'seven.png' is empty"),
        (b"\0" * (uploads.LARGEST + 1), 413, "expected a file of at most 10,000,000 bytes, 'seven.png' has 10,000,001"),
    ],
    ids=["text", "svg", "gif", "tiff", "cut", "large", "bomb", "frames", "mode", "empty", "bytes"],
)
def test_what_is_no_picture_is_refused(asking, data, status, words):
    response = send(asking, data)
    assert response.status_code == status and words in error(response)


def test_a_file_with_several_frames_is_not_cut_to_its_first(tmp_path):
    (tmp_path / "two.png").write_bytes(frames())
    with pytest.raises(InputError, match="expected one picture, got 2 frames"):
        mixlens.load("mixlens:digits").attribute(tmp_path / "two.png", "attention")


def wave(seconds: float, rate: int) -> bytes:
    out = io.BytesIO()
    wavfile.write(out, rate, (np.arange(int(seconds * rate)) % 100 * 100).astype(np.int16))
    return out.getvalue()


@pytest.mark.parametrize(
    ("data", "status", "words"),
    [
        (b"RIFF0000WAVE", 400, "expected a WAV file, 'a.wav' cannot be read"),
        (b"", 400, "is empty"),
        (tones()[0][:50], 400, "a.wav"),
        (wave(0.5, 100), 400, "samples a second, the model's rate, got 100"),
        (wave(61, 100), 413, "expected at most 60 s of sound, 'a.wav' has 61.0; send a part of it"),
    ],
    ids=["damaged", "empty", "cut", "rate", "long"],
)
def test_what_is_no_sound_is_refused(asking, data, status, words):
    response = send(asking, data, "a.wav", "sound")
    assert response.status_code == status and words in error(response)


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("../../etc/passwd", "passwd"),
        ("C:\\Users\\me\\seven.png", "seven.png"),
        ("-", "./-"),
        ("--help", "./--help"),
        ("~root", "'./~root'"),
        ("..", "file"),
        ("x" * 300 + ".png", "x" * 96 + ".png"),
        ("a$(touch b).png", "'a$(touch b).png'"),
        ("</code><script>alert(1)</script>", "'script>'"),
        ("\x1b[31m.png", "$'\\033[31m.png'"),
        ("中文.png", "'中文.png'"),
    ],
)
def test_a_files_name_is_a_word_and_no_more(name, shown):
    from mixlens.app.questions import quoted

    assert quoted(uploads.named(name)) == shown


def test_a_hostile_name_is_shown_and_does_nothing(asking):
    page = send(asking, digit(), '<script>alert(1)<\\script>"').text
    assert "<script>alert" not in page
    refused = send(asking, b"?", "<b>\u202egnp")
    assert "<b>" not in refused.text and "'<b>" in error(refused)


PART = b'--x\r\ncontent-disposition: form-data; name="%s"%s\r\n\r\n%s\r\n'
END = b"--x--\r\n"
FILE = PART % (b"picture", b'; filename="a.png"', b"a")


@pytest.mark.parametrize(
    ("sent", "status", "words"),
    [
        (b"", 400, "breaks off"),
        (b"rubbish", 400, "is damaged"),
        (FILE[:30], 400, "breaks off"),
        (FILE, 400, "breaks off"),
        (END, 400, "expected a file with a picture, got none"),
        (PART % (b"picture", b'; filename=""', b"") + END, 400, "expected a file with a picture, got none"),
        (PART % (b"picture", b"", b"a") + END, 400, "expected picture as a file, got text"),
        (FILE + FILE + END, 400, "expected one file as picture, got several"),
        (PART % (b"method", b'; filename="a"', b"a") + END, 400, "expected method as text, got a file"),
        (PART % (b"pictur", b'; filename="a"', b"a") + END, 400, "no field 'pictur'; did you mean 'picture'?"),
        (PART % (b"mothod", b"", b"a") + END, 400, "no field 'mothod'; did you mean 'method'?"),
        (FILE + PART % (b"method", b"", b"\xff") + END, 400, "expected a form in UTF-8"),
        (b'--x\r\ncontent-disposition: form-data; filename="a"\r\n\r\na\r\n' + END, 400, "a name of each field"),
        (b"--x\r\n\r\na\r\n" + END, 400, "a name of each field"),
        ((PART % (b"option", b"", b"a=1")) * 41 + END, 400, "expected at most 40 fields"),
        ((PART % (b"option", b"", b"a=1")) * 3 + FILE + END, 400, "option at most 2 times, got 3"),
        (FILE + PART % (b"model", b"", b"/etc") + END, 400, "one of the models that are offered here"),
        (b"--x\r\n" + b"a: b\r\n" * 500 + b"\r\n\r\n" + END, 400, "is damaged"),
        (b"--x\r\na: " + b"b" * 100_000 + b"\r\n\r\n" + END, 400, "is damaged"),
    ],
)
def test_a_form_that_is_wrong_is_refused(asking, sent, status, words):
    response = asking.post("/picture", content=sent, headers={"content-type": "multipart/form-data; boundary=x"})
    assert response.status_code == status and words in error(response)


@pytest.mark.parametrize(
    ("headers", "status", "words"),
    [
        ({"content-type": "application/json"}, 415, "expected a form as multipart/form-data"),
        ({"content-length": "99999999"}, 413, "expected a form of at most 10,250,000 bytes, got 99999999"),
        ({"content-length": "9" * 5000}, 413, "expected a form of at most 10,250,000 bytes"),
        ({"content-length": "-1"}, 411, "with its Content-Length"),
        ({"transfer-encoding": "chunked"}, 411, "with its Content-Length"),
        ({"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate", "sec-fetch-dest": "document"}, 403, "send it"),
        ({"sec-fetch-site": "same-site"}, 403, "another site may link to this one, and send it nothing"),
        ({"origin": "http://evil.example"}, 403, "another site"),
        ({"host": "evil.example"}, 421, "this machine's own name"),
    ],
)
def test_who_may_send_nothing_is_told_before_it_is_read(asking, headers, status, words):
    given = {"content-type": "multipart/form-data; boundary=x", **headers}
    response = asking.post("/picture", content=FILE + END, headers=given)
    assert response.status_code == status and words in response.text and "<" not in response.text


def test_what_is_sent_needs_the_token_and_a_page_that_takes_files(asking):
    ours = {"origin": "http://localhost", "sec-fetch-site": "same-origin"}
    assert asking.post("/picture", files={"picture": ("a.png", digit())}, headers=ours).status_code == 200
    assert asking.post("/explain", files={"picture": ("a.png", digit())}).status_code == 405
    assert asking.put("/picture").headers["allow"] == "GET, HEAD, POST"
    with client(hosts=None, token="s3cret") as outside:
        refused = outside.post("/picture", files={"picture": ("a.png", digit())})
        assert refused.status_code == 401
        outside.get("/picture?token=s3cret")
        assert outside.post("/picture", files={"picture": ("a.png", digit())}).status_code == 200


def test_a_file_is_never_written(asking, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", "/nowhere")
    large = written(Image.fromarray(np.random.default_rng(0).integers(0, 255, (1300, 1300), np.uint8)))
    assert len(large) > 1_500_000
    assert send(asking, large, method="attention").status_code == 200


# ---- many at once


def calls(models: Models, **settings: Any) -> Any:
    transport = httpx.ASGITransport(application(models, **settings))
    return httpx.AsyncClient(transport=transport, base_url="http://localhost", timeout=None)


def test_each_of_many_that_are_sent_at_once_gets_its_answer():
    async def ask() -> list[Any]:
        async with calls(Models()) as asked_of:
            files = [{"picture": (f"digit{number}.png", digit(number))} for number in range(12)]
            fields = {"method": "attention"}
            return await asyncio.gather(*(asked_of.post("/picture", files=file, data=fields) for file in files))

    lens = mixlens.load("mixlens:digits")
    for number, response in enumerate(asyncio.run(ask())):
        assert response.status_code == 200 and f"-- digit{number}.png</code>" in response.text
        attr = lens.attribute(embedded_pictures.held_out()[number][0], "attention")
        assert body(response.text) == body(attr.to_html())


async def by_hand(made: Any, parts: list[bytes], length: int, gone: bool = False) -> list[Any]:
    """What is answered to who sends these parts of a form, and then leaves or says nothing more."""
    sent: list[Any] = []
    messages = [{"type": "http.request", "body": part, "more_body": True} for part in parts]
    messages[-1]["more_body"] = sum(map(len, parts)) < length

    async def receive() -> Any:
        if messages:
            return messages.pop(0)
        if not gone:
            await asyncio.sleep(30)
        return {"type": "http.disconnect"}

    async def take(message: Any) -> None:
        sent.append(message)

    headers = {"host": "localhost", "content-type": "multipart/form-data; boundary=x", "content-length": str(length)}
    scope: dict[str, Any] = {"type": "http", "method": "POST", "path": "/picture", "query_string": b"", "root_path": ""}
    scope |= {"headers": [(key.encode(), value.encode()) for key, value in headers.items()]}
    scope |= {"scheme": "http", "server": ("localhost", 80), "http_version": "1.1"}
    await made(scope, receive, take)
    return sent


def test_who_sends_slowly_or_leaves_keeps_no_room(monkeypatch):
    """And who sends when there is none comes back."""
    monkeypatch.setattr(server, "PATIENCE", 0.2)
    monkeypatch.setattr(server, "HELD", 1000)

    async def ask() -> list[list[Any]]:
        made = application(Models())
        slow = asyncio.create_task(by_hand(made, [FILE], 600))
        await asyncio.sleep(0.05)
        out = [await by_hand(made, [FILE + END], 600), await slow]
        out.append(await by_hand(made, [FILE], 600, gone=True))
        return [*out, await by_hand(made, [b"a" * 11_000_000], 600), await by_hand(made, [FILE, END], len(FILE + END))]

    full, slow, left, more, after = asyncio.run(ask())
    assert full[0]["status"] == 503 and b"as many files wait already as may; try again in about 1 s" in full[1]["body"]
    assert (b"retry-after", b"1") in full[0]["headers"]
    assert slow[0]["status"] == 408 and b"expected the file within 0 s" in slow[1]["body"]
    assert left[0]["status"] == 499
    assert more[0]["status"] == 413 and b"expected a form of at most 10,250,000 bytes" in more[1]["body"]
    assert after[0]["status"] == 400 and b"holds none" in after[1]["body"]


def test_a_sound_of_another_length_fits_a_folders_model(tmp_path):
    for part in (sounds.make("wav2vec2-classes", torch.float32), sounds.extractor()):
        part.save_pretrained(tmp_path)
    with client(tmp_path) as asked_of:
        data = wave(0.5, sounds.RATE)
        response = asked_of.post("/sound", files={"sound": ("a.wav", data)}, data={"model": str(tmp_path)})
        assert response.status_code == 200, error(response)
