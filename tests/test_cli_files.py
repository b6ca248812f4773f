"""Files that are no plain text: PDF, Word and HTML, made here and read as a person would read them."""

from __future__ import annotations

import os
import re
import sys
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from llama_index.readers.file import PDFReader

from llama_index_chunking_plus import (
    ChunkingPlusWarning,
    InputFileError,
    MissingExtraError,
    OptionError,
    PageJoiner,
    SlidingWindowNodeParser,
)
from llama_index_chunking_plus.cli.files import (
    check_file,
    check_folder,
    find_files,
    html_to_text,
    passed_over,
    read_document,
)

PAGES = ["The shop opened in 1987. It sells books, maps", "and pens. It is closed on Monday.", "Visit us soon."]
WORD = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"


def write_pdf(path: Path, pages: Sequence[str]) -> Path:
    """The smallest PDF that has these texts, a line each."""
    kids = " ".join(f"{4 + 2 * i} 0 R" for i in range(len(pages)))
    objects = [
        "<< /Type /Catalog /Pages 2 0 R >>",
        f"<< /Type /Pages /Kids [{kids}] /Count {len(pages)} >>",
        "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    ]
    for i, text in enumerate(pages):
        content = f"BT /F1 12 Tf 72 720 Td ({text}) Tj ET"
        objects.append(
            "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Resources << /Font << /F1 3 0 R >> >> "
            f"/Contents {5 + 2 * i} 0 R >>"
        )
        objects.append(f"<< /Length {len(content)} >>\nstream\n{content}\nendstream")
    data, offsets = b"%PDF-1.4\n", []
    for number, each in enumerate(objects, 1):
        offsets.append(len(data))
        data += f"{number} 0 obj\n{each}\nendobj\n".encode()
    table = "".join(f"{offset:010} 00000 n \n" for offset in offsets)
    size = len(objects) + 1
    trailer = f"xref\n0 {size}\n0000000000 65535 f \n{table}trailer\n<< /Size {size} /Root 1 0 R >>\n"
    path.write_bytes(data + f"{trailer}startxref\n{len(data)}\n%%EOF\n".encode())
    return path


def write_docx(path: Path, paragraphs: Sequence[str]) -> Path:
    body = "".join(f"<w:p><w:r><w:t>{text}</w:t></w:r></w:p>" for text in paragraphs)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("word/document.xml", f'<w:document xmlns:w="{WORD}"><w:body>{body}</w:body></w:document>')
    return path


def test_the_pages_of_a_pdf_are_one_document(tmp_path: Path) -> None:
    path = write_pdf(tmp_path / "a.pdf", PAGES)
    document = read_document(path)
    assert document.id_ == str(path)
    assert (
        document.text
        == "The shop opened in 1987. It sells books, maps and pens. It is closed on Monday.\nVisit us soon."
    )
    assert document.metadata == {"file_name": "a.pdf", "file_path": str(path), "page_map": "1:0,2:46,3:80"}
    assert document.excluded_embed_metadata_keys == ["file_name", "file_path", "page_map"]
    assert document.excluded_llm_metadata_keys == ["file_path", "page_map"]
    nodes = SlidingWindowNodeParser(chunk_size=40, chunk_overlap=0, unit="chars")([document])
    assert [(node.metadata["page_start"], node.metadata["page_end"]) for node in nodes] == [
        ("1", "1"),
        ("1", "2"),
        ("2", "3"),
    ]


def test_pages_as_the_reader_gives_them_can_be_joined(tmp_path: Path) -> None:
    pages = PDFReader().load_data(write_pdf(tmp_path / "a.pdf", PAGES))
    (document,) = PageJoiner().join(pages)
    assert (len(pages), document.id_, document.text) == (3, "a.pdf", read_document(tmp_path / "a.pdf").text)


def test_a_word_document(tmp_path: Path) -> None:
    path = write_docx(tmp_path / "合同.docx", ["第一条 甲方应当付款。", "第二条 乙方应当交货。"])
    document = read_document(path)
    assert document.text == "第一条 甲方应当付款。\n\n第二条 乙方应当交货。"
    assert (document.id_, document.metadata) == (str(path), {"file_name": "合同.docx", "file_path": str(path)})


HTML = """<!DOCTYPE html><html><head><title>不显示</title><style>p {}</style></head><body>
<script>var x = 1;</script><!-- 也不显示 --><div><h1>劳动
合同</h1><p>第一段，
  换行。</p><p>第<b>二</b>段<br/>新行&amp;</p></div>
<ul><li>甲</li><li>乙</li></ul>
<table><thead><tr><th>名</th><th>数</th></tr></thead><tbody><tr><td><p>甲</p></td><td>1</td></tr></tbody></table>
<pre>x = 1
    y = 2</pre>后面</body></html>"""
TEXT = (
    "# 劳动 合同\n\n第一段， 换行。\n\n第二段\n新行&\n\n- 甲\n- 乙\n\n| 名 | 数 |\n|---|---|\n| 甲 | 1 |\n\n"
    "x = 1\n    y = 2\n后面\n"
)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "gb18030", "utf-16"])
def test_html_is_what_a_reader_sees(tmp_path: Path, encoding: str) -> None:
    path = tmp_path / "page.htm"
    path.write_bytes((HTML + "<p>这里再写一段中文，好让编码看得出来。</p>" * 3).encode(encoding))
    document = read_document(path)
    assert document.text.startswith(TEXT)
    assert (document.id_, document.metadata) == (str(path), {"file_name": "page.htm", "file_path": str(path)})


def test_html_without_a_body_or_anything() -> None:
    assert html_to_text("一<p>二") == "一\n二\n"
    assert html_to_text("") == "\n"
    assert html_to_text("<table></table><table><tr></tr></table>").strip("\n| ") == ""


def test_folders_are_searched_for_all_kinds(tmp_path: Path) -> None:
    names = ["a.pdf", "b.DOCX", "c.html", "d.htm", "e.md", "f.txt", "g.png", "h.doc"]
    for name in names:
        (tmp_path / name).write_bytes(b"x")
    assert [path.name for path in find_files([tmp_path])] == names[:6]
    with pytest.raises(
        InputFileError, match=r"h\.doc: not one of \.docx, \.htm, \.html, \.markdown, \.md, \.pdf, \.txt"
    ):
        find_files([tmp_path / "h.doc"])


@pytest.mark.parametrize("name", ["broken.pdf", "broken.docx"])
def test_a_broken_file_is_an_error_that_names_it(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_bytes(b"nothing that anybody could read")
    with pytest.raises(InputFileError, match=rf"{name}: \w+ cannot read it \(\w+: .+\)"):
        read_document(path)


def test_a_scan_is_a_warning_that_names_it(tmp_path: Path) -> None:
    with pytest.warns(ChunkingPlusWarning, match=r"scan\.pdf: no text found; a scan needs OCR"):
        document = read_document(write_pdf(tmp_path / "scan.pdf", ["", ""]))
    assert (document.text, document.id_) == ("", str(tmp_path / "scan.pdf"))


@pytest.mark.parametrize(
    "name, absent, package",
    [
        ("a.pdf", "llama_index.readers.file", "llama-index-readers-file"),
        ("a.docx", "llama_index.readers.file", "llama-index-readers-file"),
        ("a.docx", "docx2txt", "docx2txt"),
        ("a.html", "bs4", "beautifulsoup4"),
    ],
)
def test_without_the_extra_the_pip_line_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, absent: str, package: str
) -> None:
    (tmp_path / name).write_bytes(b"x")
    monkeypatch.setitem(sys.modules, absent, None)
    with pytest.raises(MissingExtraError, match=rf"{package} .*pip install 'llama-index-chunking-plus\[files\]'"):
        read_document(tmp_path / name)


def close_folder(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As if it could not be read; who is root may read any."""
    real = os.scandir

    def scandir(path: object) -> object:
        if Path(str(path)).name == name:
            raise PermissionError(13, "Permission denied", str(path))
        return real(str(path))

    monkeypatch.setattr(os, "scandir", scandir)


def test_a_folder_that_cannot_be_read_is_an_error_and_nothing_is_deleted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.md").write_text("甲。", encoding="utf-8")
    (tmp_path / "closed").mkdir()
    close_folder("closed", monkeypatch)
    with pytest.raises(InputFileError, match="closed: the folder cannot be read"):
        find_files([tmp_path])


def test_files_of_other_kinds_in_a_folder_are_counted(tmp_path: Path) -> None:
    for name in ("a.md", "b.csv", "sub/c.CSV", "sub/d.json", ".hidden"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("甲。", encoding="utf-8")
    assert passed_over([tmp_path]) == {".csv": 2, ".json": 1}
    assert passed_over([tmp_path / "a.md"]) == {}


def test_what_is_hidden_below_a_folder_is_read_only_if_it_is_given_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    below = (
        "a.md",
        "b.csv",
        ".h.md",
        ".h.csv",
        ".venv/c.md",
        ".venv/d.csv",
        ".venv/.e.md",
        "sub/.git/f.md",
        "sub/g.md",
    )
    for name in below:
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True, parents=True)
        path.write_text("甲。", encoding="utf-8")
    (tmp_path / "shown.md").symlink_to(tmp_path / ".venv" / ".e.md")
    monkeypatch.chdir(tmp_path)

    def found(*paths: str) -> set[str]:
        return {str(path.relative_to(tmp_path)) for path in find_files(map(Path, paths))}

    assert found(".") == {"a.md", "sub/g.md", ".venv/.e.md"}  # of a link its own name counts
    assert found(".", ".h.md") == {"a.md", "sub/g.md", ".venv/.e.md", ".h.md"}
    assert found(".venv") == found("sub/../.venv") == {".venv/c.md"}
    assert passed_over([Path()]) == passed_over([Path(".venv")]) == {".csv": 1}
    (tmp_path / "sub" / "g.md").unlink()
    with pytest.raises(InputFileError, match=r"file below sub; hidden files and folders are left out"):
        find_files([Path("sub")])


def test_a_hidden_folder_that_cannot_be_read_is_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.md").write_text("甲。", encoding="utf-8")
    (tmp_path / ".closed").mkdir()
    close_folder(".closed", monkeypatch)
    assert [path.name for path in find_files([tmp_path])] == ["a.md"]


@pytest.mark.skipif(sys.platform in {"win32", "darwin"}, reason="all names of files are Unicode there")
@pytest.mark.parametrize(
    "given, named",
    [
        (b"names", rb"names/\xd7\xca\xc1\xcf.txt"),
        (b"names/\xd7\xca\xc1\xcf.txt", rb"names/\xd7\xca\xc1\xcf.txt"),
        (b"\xba\xcf", rb"\xba\xcf/b.md"),
    ],
)
def test_a_path_that_is_not_utf8_is_named_with_its_bytes_escaped(given: bytes, named: bytes, tmp_path: Path) -> None:
    for place in (b"names/a.md", b"names/" + "资料.txt".encode("gbk"), "合".encode("gbk") + b"/b.md"):
        path = tmp_path / os.fsdecode(place)
        path.parent.mkdir(exist_ok=True)
        path.write_text("甲。", encoding="utf-8")
    with pytest.raises(InputFileError) as caught:
        find_files([tmp_path / os.fsdecode(given)])
    assert str(caught.value) == (
        f"{tmp_path}/{named.decode()}: not valid UTF-8 in the path; rename it to UTF-8 (e.g. with convmv); nothing was "
        "changed"
    )
    with pytest.raises(InputFileError, match=" and 1 more: not valid UTF-8"):
        find_files([tmp_path])


@pytest.mark.parametrize("name", ["share", "notes.md"])
def test_a_link_that_leads_nowhere_is_an_error_as_its_files_would_pass_for_deleted(name: str, tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("甲。", encoding="utf-8")
    (tmp_path / name).symlink_to(tmp_path / "gone")
    with pytest.raises(InputFileError, match=f"{name}: the link leads nowhere; mend or remove it; nothing was changed"):
        find_files([tmp_path])


def test_a_pipe_is_no_file(tmp_path: Path) -> None:
    pipe = tmp_path / "p.txt"
    os.mkfifo(pipe)
    with pytest.raises(InputFileError, match=r"p\.txt: no such file"):
        find_files([pipe])


def test_linked_folders_are_followed_and_links_that_lead_back_end(tmp_path: Path) -> None:
    docs, shared = tmp_path / "docs", tmp_path / "shared"
    (docs / "sub").mkdir(parents=True)
    (shared / "deep").mkdir(parents=True)
    for path in (docs / "a.md", docs / "sub" / "b.md", shared / "c.md", shared / "deep" / "d.md", shared / "e.csv"):
        path.write_text("甲。", encoding="utf-8")
    (docs / "linked").symlink_to(shared, target_is_directory=True)
    (docs / "again").symlink_to(shared, target_is_directory=True)
    (docs / "sub" / "up").symlink_to(docs, target_is_directory=True)
    (shared / "deep" / "back").symlink_to(docs, target_is_directory=True)
    (docs / "self").symlink_to(docs / "self")
    assert [path.name for path in find_files([docs])] == ["a.md", "b.md", "c.md", "d.md"]
    assert passed_over([docs])[".csv"] == 1


@pytest.mark.parametrize("check, what", [(check_folder, "folder"), (check_file, "file")])
def test_a_path_in_a_place_that_may_not_be_written_to_is_one_sentence(
    check: Callable[[str, Path], None], what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "new" / "it"
    check("--out", path)
    monkeypatch.setattr(os, "access", lambda *_: False)  # who is root may write anywhere
    message = f"--out {path} cannot be the {what}: {tmp_path} may not be written to; give another one"
    with pytest.raises(OptionError, match=f"^{re.escape(message)}$"):
        check("--out", path)


def test_a_file_that_may_not_be_written_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "view.html"
    path.write_text("")
    check_file("--out", path)
    monkeypatch.setattr(os, "access", lambda place, _: place != path)
    message = f"--out {path} cannot be the file: {path} may not be written to; give another one"
    with pytest.raises(OptionError, match=f"^{re.escape(message)}$"):
        check_file("--out", path)
