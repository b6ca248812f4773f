"""Files to documents: text as UTF-8 with or without BOM, UTF-16 or GB18030; PDF, Word and HTML with the extra "files".

Anything else is an error that names the file. Also which paths can be written to, told before any work.
"""

from __future__ import annotations

import codecs
import os
import re
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

from llama_index.core import Document

from llama_index_chunking_plus.core.options import folder_flaw
from llama_index_chunking_plus.errors import ChunkingPlusWarning, InputFileError, MissingExtraError, OptionError
from llama_index_chunking_plus.ingestion import PageJoiner

TEXT_SUFFIXES = {".md", ".markdown", ".txt"}
HTML_SUFFIXES = {".html", ".htm"}
SUFFIXES = {*TEXT_SUFFIXES, *HTML_SUFFIXES, ".pdf", ".docx"}

_BOMS = {codecs.BOM_UTF8: "utf-8-sig", codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}
_CANDIDATES = ["gb18030", "big5", "euc_kr", "euc_jp", "shift_jis", "cp1251", "cp1252", "utf_16_le", "utf_16_be"]
_READABLE = {"gb18030", "utf_16_le", "utf_16_be"}
_SAMPLE_BYTES = 200_000

_UNSEEN = ["script", "style", "noscript", "template", "head"]
_BLOCKS = [
    "p",
    "div",
    "section",
    "article",
    "header",
    "footer",
    "main",
    "aside",
    "nav",
    "ul",
    "ol",
    "dl",
    "dt",
    "dd",
    "hr",
]
_BLOCKS += ["blockquote", "pre", "table", "caption", "figure", "figcaption", "form", "address", "details", "summary"]
_HEADINGS = [f"h{level}" for level in range(1, 7)]


def find_files(paths: Iterable[Path]) -> list[Path]:
    """The files that can be read and are given, or lie below the folders that are given; each once, sorted.

    Links to files and folders are followed. Hidden files and folders, whose names begin with a dot, are left out,
    unless they are given themselves.

    Raises:
        InputFileError: a path does not exist or is a file of another kind, a folder cannot be read, a path is not valid
            UTF-8, or there is no file at all.
    """
    found: set[Path] = set()
    paths = list(paths)
    for path in paths:
        if path.is_dir():
            found.update(each.resolve() for each in _below(path) if each.suffix.lower() in SUFFIXES and each.is_file())
        elif not path.is_file():
            raise InputFileError(f"{path}: no such file or folder")
        elif path.suffix.lower() not in SUFFIXES:
            raise InputFileError(
                f"{path}: not one of {', '.join(sorted(SUFFIXES))}; convert it to text or Markdown first"
            )
        else:
            found.add(path.resolve())
    if not found:
        raise InputFileError(
            f"no {', '.join(sorted(SUFFIXES))} file below {', '.join(map(str, paths))}; hidden files and folders are "
            "left out, give them by name"
        )
    files = sorted(found)
    _check_names(files)
    return files


def _check_names(files: Iterable[Path]) -> None:
    """Refuse paths that are not valid UTF-8, such as those of a Chinese archive: no store takes them as ids."""
    flawed = [path for path in files if not _is_utf8(path)]
    if flawed:
        first = os.fsencode(flawed[0]).decode("utf-8", "backslashreplace")
        more = f" and {len(flawed) - 1} more" if len(flawed) > 1 else ""
        raise InputFileError(
            f"{first}{more}: not valid UTF-8 in the path; rename it to UTF-8 (e.g. with convmv); nothing was changed"
        )


def _is_utf8(path: Path) -> bool:
    try:
        str(path).encode()
    except UnicodeEncodeError:
        return False
    return True


def passed_over(paths: Iterable[Path]) -> dict[str, int]:
    """How many files of other kinds lie in the folders, by suffix; hidden ones do not count."""
    others = (each for path in paths if path.is_dir() for each in _below(path))
    counts = Counter(each.suffix.lower() or each.name for each in others if each.suffix.lower() not in SUFFIXES)
    return dict(counts.most_common())


def _below(folder: Path) -> Iterator[Path]:
    """All files below that are not hidden.

    A folder that cannot be read is an error, and a link that leads nowhere: its files would pass for deleted.

    Links to folders are followed; each folder is visited once, so that links which lead back to it end.
    """
    visited: set[Path] = set()

    def refuse(error: OSError) -> None:
        raise InputFileError(f"{error.filename}: the folder cannot be read ({error.strerror}); nothing was changed")

    for place, folders, names in os.walk(folder, onerror=refuse, followlinks=True):
        here = Path(place).resolve()
        if here in visited:
            folders.clear()
            continue
        visited.add(here)
        folders[:] = _shown(folders)
        for each in (Path(place, name) for name in _shown(names)):
            if each.suffix.lower() in {"", *SUFFIXES} and _leads_nowhere(each):
                raise InputFileError(f"{each}: the link leads nowhere; mend or remove it; nothing was changed")
            yield each


def _leads_nowhere(path: Path) -> bool:
    """Whether it is a link to what is not there, perhaps not now; one that leads to itself holds nothing."""
    try:
        path.stat()
    except FileNotFoundError:
        return path.is_symlink()
    except OSError:
        return False
    return False


def _shown(names: Iterable[str]) -> list[str]:
    return [name for name in names if not name.startswith(".")]


def check_folder(option: str, folder: Path | None) -> None:
    """Nothing, if the folder is there or can be made, and may be written to, or if there is none to check.

    Raises:
        OptionError: it cannot be used; the message names the option, the path, and why.
    """
    if folder is not None and (flaw := folder_flaw(folder)):
        raise OptionError(f"{option} {folder} cannot be the folder: {flaw}; give another one")


def check_file(option: str, file: Path) -> None:
    """Nothing, if the file may be written, in a folder that is there or can be made.

    Raises:
        OptionError: it cannot be used; the message names the option, the path, and why.
    """
    flaw = folder_flaw(file.parent)
    if not flaw and file.is_dir():
        flaw = f"{file} is a folder"
    elif not flaw and file.exists() and not os.access(file, os.W_OK):
        flaw = f"{file} may not be written to"
    if flaw:
        raise OptionError(f"{option} {file} cannot be the file: {flaw}; give another one")


def read_document(path: Path) -> Document:
    """The file as a document whose id is its path.

    Line ends and white space of Markdown and text stay as they are, only a BOM is dropped. The pages of a PDF are
    joined (see `PageJoiner`); HTML becomes text with Markdown headings and table rows. A warning names a file of these
    kinds that has no text.

    Raises:
        InputFileError: the file cannot be read, or its encoding is none of those above.
        MissingExtraError: it is no text, and the extra "files" is not installed.
    """
    suffix = path.suffix.lower()
    metadata = {"file_name": path.name, "file_path": str(path)}
    if suffix in {".pdf", ".docx"}:
        document = _read_with(path, "PDFReader" if suffix == ".pdf" else "DocxReader", metadata)
    else:
        text = _read_text(path)
        document = Document(text=text if suffix in TEXT_SUFFIXES else html_to_text(text), metadata=metadata)
    if suffix not in TEXT_SUFFIXES and not document.text.strip():
        warnings.warn(f"{path}: no text found; a scan needs OCR first", ChunkingPlusWarning, stacklevel=2)
    document.id_ = str(path)
    document.excluded_embed_metadata_keys = [*document.metadata]
    document.excluded_llm_metadata_keys = [key for key in document.metadata if key != "file_name"]
    return document


def _read_text(path: Path) -> str:
    try:
        return decode(path.read_bytes(), str(path))
    except OSError as error:
        raise InputFileError(f"{path}: {error.strerror or error}") from error


def _read_with(path: Path, reader: str, metadata: dict[str, str]) -> Document:
    """The file as one of LlamaIndex's readers sees it, its pages joined."""
    try:
        readers = import_module("llama_index.readers.file")  # an extra
    except ImportError as error:
        raise MissingExtraError("llama-index-readers-file", "files") from error
    try:
        pages: list[Document] = getattr(readers, reader)().load_data(path, extra_info=metadata)
    except ImportError as error:  # the reader's own, which a base install of it may lack
        raise MissingExtraError(error.name or "docx2txt", "files") from error
    except Exception as error:
        raise InputFileError(f"{path}: {reader} cannot read it ({_cause(error)})") from error
    joined = PageJoiner().join(pages)
    return joined[0] if joined else Document(text="", metadata=metadata)


def _cause(error: Exception) -> str:
    """What went wrong; readers that try again wrap it."""
    attempt = getattr(error, "last_attempt", None)
    cause = error if attempt is None else attempt.exception()
    return f"{type(cause).__name__}: {cause}" if str(cause) else type(cause).__name__


def html_to_text(html: str) -> str:
    """What a reader of the page sees, a line for each block; LlamaIndex's own reader takes one kind of tag, in UTF-8.

    Raises:
        MissingExtraError: the extra "files" is not installed.
    """
    try:
        from bs4 import BeautifulSoup  # noqa: PLC0415  an extra
        from bs4.element import NavigableString  # noqa: PLC0415  an extra
    except ImportError as error:
        raise MissingExtraError("beautifulsoup4", "files") from error
    soup = BeautifulSoup(html, "html.parser")
    for tag in soup(_UNSEEN):
        tag.decompose()
    for string in soup.find_all(string=lambda string: type(string) is NavigableString):  # no comments
        if string.find_parent("pre") is None:
            string.replace_with(re.sub(r"\s+", " ", string))
    _mark_tables(soup)
    _mark_blocks(soup)
    text = re.sub(r"[ \t]+\n", "\n", soup.get_text())
    return re.sub(r"\n{3,}", "\n\n", re.sub(r"\n (?! )", "\n", text)).strip() + "\n"


def _mark_tables(soup: Any) -> None:
    """Rows as Markdown has them: the first is the header."""
    for cell in soup(["td", "th"]):
        cell.string = " ".join(cell.get_text(" ").split()) + " | "
    for table in soup("table"):
        rows = table("tr")
        for row in rows:
            row.insert(0, "\n| ")
        if rows:
            rows[0].append("\n|" + "---|" * len(rows[0](["td", "th"])))


def _mark_blocks(soup: Any) -> None:
    """Newlines around blocks, and the marks that Markdown has for headings and items."""
    for tag in soup(_BLOCKS):
        tag.insert(0, "\n")
        tag.append("\n")
    for tag in soup(_HEADINGS):
        tag.insert(0, f"\n\n{'#' * int(tag.name[1])} ")
        tag.append("\n\n")
    for tag in soup("li"):
        tag.insert(0, "\n- ")
    for tag in soup("br"):
        tag.replace_with("\n")


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
