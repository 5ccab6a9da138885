"""What is uploaded: read in memory alone, never written to a file, and opened only as what it is said to be."""

from __future__ import annotations

import io
import re
from collections.abc import AsyncIterable
from dataclasses import dataclass, field
from typing import Any

from python_multipart import MultipartParser
from python_multipart.exceptions import FormParserError
from python_multipart.multipart import parse_options_header

from mixlens.errors import EmptyInput, InputError, TooLong
from mixlens.subject.pictures import picture_in
from mixlens.subject.waves import sound_in

LARGEST = 10_000_000  # bytes of a file
BODY = LARGEST + 250_000  # and of what else a form sends
PIXELS = 20_000_000
SECONDS = 60
FORMATS = ("PNG", "JPEG", "WEBP")
PARTS = 40
NAME = 100  # characters of a file's name


@dataclass(frozen=True)
class Upload:
    """A file as it was sent: its last name, and what is in it."""

    name: str
    data: bytes = field(repr=False)


def picture(upload: Upload) -> Any:
    """The picture in a file. Raises InputError, TooLong."""
    return picture_in(io.BytesIO(upload.data), upload.name, FORMATS, PIXELS)


def sound(upload: Upload) -> Any:
    """The samples and the rate of a WAV file. Raises InputError, TooLong."""
    samples, rate = sound_in(io.BytesIO(upload.data), upload.name)
    if len(samples) > SECONDS * rate:
        length = len(samples) / max(rate, 1)
        raise TooLong(f"expected at most {SECONDS} s of sound, {upload.name!r} has {length:,.1f}; send a part of it")
    return samples, rate


def named(name: str) -> str:
    """A file's own name, as a command line takes it: without folders, and neither a flag nor a home."""
    last = re.split(r"[/\\]", name)[-1].replace("\0", "")[-NAME:]
    last = "file" if last in ("", ".", "..") else last
    return f"./{last}" if last[0] in "-~" else last


async def form_of(content_type: str, body: AsyncIterable[bytes]) -> tuple[list[tuple[str, str]], dict[str, Upload]]:
    """The fields of a form and its files. Raises InputError, TooLong."""
    form = _Form()
    kind, settings = parse_options_header(content_type)
    boundary = settings.get(b"boundary", b"")
    if kind != b"multipart/form-data" or not boundary:
        raise InputError("expected a form as multipart/form-data with its boundary, got another Content-Type")
    try:
        parser = MultipartParser(boundary, form.callbacks())
        async for chunk in body:
            form.count(len(chunk))
            parser.write(chunk)
        parser.finalize()
    except FormParserError as error:
        raise InputError(f"expected a form as multipart/form-data, got one that is damaged: {error}") from None
    if not form.whole:
        raise InputError("expected a form as multipart/form-data, got one that breaks off")
    return form.fields, form.files


class _Form:
    """The parts of a form as they come."""

    def __init__(self) -> None:
        self.fields: list[tuple[str, str]] = []
        self.files: dict[str, Upload] = {}
        self.whole, self.bytes, self.parts = False, 0, 0
        self.headers: dict[bytes, bytes] = {}
        self.key, self.value, self.data = bytearray(), bytearray(), bytearray()

    def callbacks(self) -> Any:
        """What the parser calls."""
        return {
            "on_part_begin": self.begin,
            "on_part_data": lambda data, start, end: self.data.extend(data[start:end]),
            "on_part_end": self.end,
            "on_header_field": lambda data, start, end: self.key.extend(data[start:end]),
            "on_header_value": lambda data, start, end: self.value.extend(data[start:end]),
            "on_header_end": self.header,
            "on_end": self.close,
        }

    def count(self, size: int) -> None:
        """Raises TooLong."""
        self.bytes += size
        if self.bytes > BODY:
            raise TooLong(f"expected a form of at most {BODY:,} bytes, got more; send a smaller file")

    def begin(self) -> None:
        self.parts += 1
        if self.parts > PARTS:
            raise InputError(f"expected at most {PARTS} fields, got more")
        self.headers, self.data = {}, bytearray()

    def header(self) -> None:
        self.headers[bytes(self.key).lower()] = bytes(self.value)
        self.key, self.value = bytearray(), bytearray()

    def end(self) -> None:
        _, options = parse_options_header(self.headers.get(b"content-disposition", b""))
        if b"name" not in options:
            raise InputError("expected a name of each field of a form, got a field without one")
        name = _decoded(options[b"name"])
        if b"filename" not in options:
            self.fields.append((name, _decoded(bytes(self.data)).replace("\r\n", "\n").replace("\r", "\n")))
        elif options[b"filename"] or self.data:  # else no file was chosen
            self.file(name, _decoded(options[b"filename"]))

    def file(self, field: str, name: str) -> None:
        name = named(name)
        if field in self.files:
            raise InputError(f"expected one file as {field}, got several")
        if len(self.data) > LARGEST:
            raise TooLong(f"expected a file of at most {LARGEST:,} bytes, {name!r} has {len(self.data):,}")
        if not self.data:
            raise EmptyInput(f"expected a file that holds something, {name!r} is empty")
        self.files[field] = Upload(name, bytes(self.data))
        self.data = bytearray()

    def close(self) -> None:
        self.whole = True


def _decoded(data: bytes) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        raise InputError("expected a form in UTF-8, got other bytes") from None
