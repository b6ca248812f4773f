"""Files to documents: UTF-8 with or without BOM, UTF-16 and GB18030; anything else is an error that names the file."""

from __future__ import annotations

import codecs
from collections.abc import Iterable
from pathlib import Path

from llama_index.core import Document

from llama_index_chunking_plus.errors import InputFileError, MissingExtraError

SUFFIXES = {".md", ".markdown", ".txt"}

_BOMS = {codecs.BOM_UTF8: "utf-8-sig", codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}
_CANDIDATES = ["gb18030", "big5", "euc_kr", "euc_jp", "shift_jis", "cp1251", "cp1252", "utf_16_le", "utf_16_be"]
_READABLE = {"gb18030", "utf_16_le", "utf_16_be"}
_SAMPLE_BYTES = 200_000


def find_files(paths: Iterable[Path]) -> list[Path]:
    """The Markdown and text files that are given, or lie below the folders that are given; each once, sorted.

    Raises:
        InputFileError: a path does not exist or is a file of another kind, or there is no file at all.
    """
    found: set[Path] = set()
    paths = list(paths)
    for path in paths:
        if path.is_dir():
            found.update(
                each.resolve() for each in path.rglob("*") if each.suffix.lower() in SUFFIXES and each.is_file()
            )
        elif not path.exists():
            raise InputFileError(f"{path}: no such file or folder")
        elif path.suffix.lower() not in SUFFIXES:
            raise InputFileError(
                f"{path}: not one of {', '.join(sorted(SUFFIXES))}; convert it to text or Markdown first"
            )
        else:
            found.add(path.resolve())
    if not found:
        raise InputFileError(f"no {', '.join(sorted(SUFFIXES))} file below {', '.join(map(str, paths))}")
    return sorted(found)


def read_document(path: Path) -> Document:
    """The file as a document whose id is its path; line ends and white space stay as they are, only a BOM is dropped.

    Raises:
        InputFileError: the file cannot be read, or its encoding is none of those above.
    """
    try:
        text = decode(path.read_bytes(), str(path))
    except OSError as error:
        raise InputFileError(f"{path}: {error.strerror or error}") from error
    metadata = {"file_name": path.name, "file_path": str(path)}
    return Document(
        id_=str(path),
        text=text,
        metadata=metadata,
        excluded_embed_metadata_keys=list(metadata),
        excluded_llm_metadata_keys=["file_path"],
    )


def decode(data: bytes, name: str) -> str:
    """The text in ``data``, strictly decoded.

    Args:
        data: the bytes of a file.
        name: what an error calls the file.

    Raises:
        InputFileError: the bytes are in none of the encodings above.
    """
    for bom, encoding in _BOMS.items():
        if data.startswith(bom):
            return _strictly(data, encoding, name)
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        if not _is_cut_short(error, data):
            return _strictly(data, _detect(data, name), name)
        raise InputFileError(f"{name}: UTF-8 that stops in the middle of a character; the file is cut off") from error


def _is_cut_short(error: UnicodeDecodeError, data: bytes) -> bool:
    return error.reason == "unexpected end of data" and error.start > 0 and error.end == len(data)


def _strictly(data: bytes, encoding: str, name: str) -> str:
    try:
        text = data.decode(encoding)
    except UnicodeDecodeError as error:
        raise InputFileError(f"{name}: broken {encoding} at byte {error.start}; save it as UTF-8") from error
    return text.removeprefix("\ufeff")


def _detect(data: bytes, name: str) -> str:
    try:
        from charset_normalizer import from_bytes  # noqa: PLC0415  an extra
    except ImportError as error:
        raise MissingExtraError("charset-normalizer", "cli") from error
    best = from_bytes(data[:_SAMPLE_BYTES], cp_isolation=_CANDIDATES).best()
    if best is None or best.encoding not in _READABLE:
        looks_like = f"looks like {best.encoding}" if best else "no known text encoding"
        raise InputFileError(f"{name}: {looks_like}; UTF-8, UTF-16 and GB18030 can be read: save it as UTF-8")
    return best.encoding
