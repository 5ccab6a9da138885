"""Files by their address in an object store, or in any file system that pyarrow knows: s3://, gs://, hdfs://, file://."""

from __future__ import annotations

import gzip
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, cast

from mixlens.errors import DataError, missing


@dataclass(frozen=True)
class Stored:
    """A file of such a system. Reading all of it may take long, and is done no more often than it must."""

    address: str
    system: Any
    path: str

    @property
    def name(self) -> str:
        """The last part of its address."""
        return self.path.rstrip("/").rpartition("/")[2]

    def __str__(self) -> str:
        return self.address


def stored(address: str) -> Stored:
    """The file of an address. Raises DataError where there is none, MissingExtra."""
    try:
        from pyarrow import fs
    except ImportError:
        raise missing(f"data={address!r}", "pyarrow", "parquet") from None
    try:
        system, path = fs.FileSystem.from_uri(address)
        info = system.get_file_info(path)
    except (OSError, ValueError, NotImplementedError) as error:  # ValueError: pyarrow's ArrowInvalid
        raise DataError(
            f"expected the address of a file, got {address!r:.200}: {' '.join(str(error).split())}"
        ) from None
    if not info.is_file:
        kind = "the folder" if info.type == fs.FileType.Directory else "no such file:"
        raise DataError(f"expected the address of a file, got {kind} {address}")
    return Stored(address, system, path)


def opened(file: Path | Stored) -> IO[bytes]:
    """A file to read as bytes. Raises OSError."""
    return open(file, "rb") if isinstance(file, Path) else cast(IO[bytes], file.system.open_input_file(file.path))


def unzipped(file: Path | Stored) -> IO[bytes]:
    """The same, unzipped where its name ends in `.gz`. Raises OSError."""
    raw = opened(file)
    return cast(IO[bytes], _Unzipped(raw)) if file.name.lower().endswith(".gz") else raw


class _Unzipped(gzip.GzipFile):
    """What closes the file below it too."""

    def __init__(self, raw: IO[bytes]) -> None:
        self.raw = raw
        super().__init__(fileobj=raw)

    def close(self) -> None:
        """Both of them."""
        super().close()
        self.raw.close()
