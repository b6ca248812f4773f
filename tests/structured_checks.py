"""What every document cut by its structure must keep, as one function: it names what is wrong."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from itertools import takewhile

from llama_index.core import Document
from llama_index.core.schema import BaseNode, MetadataMode
from markdown_it import MarkdownIt

from llama_index_chunking_plus import StructuredMarkdownNodeParser
from llama_index_chunking_plus.core.belonging import ties
from llama_index_chunking_plus.core.blocks import Block, BlockKind
from llama_index_chunking_plus.core.markdown import markdown_blocks
from llama_index_chunking_plus.core.spans import Span
from llama_index_chunking_plus.node_parser.tokenizers import resolve_sizer

SHOWN = ("header_path", "lead", "goes_on")
_BESIDE = {BlockKind.HEADING, BlockKind.BREAK, BlockKind.COMMENT}


def flaws(parser: StructuredMarkdownNodeParser, document: Document) -> list[str]:
    """All that is wrong with the chunks of a Markdown document."""
    nodes, blocks = parser.get_nodes_from_documents([document]), markdown_blocks(document.text)
    size = resolve_sizer(parser.unit, parser.tokenizer).size
    return [
        *_of_ranges(document.text, nodes),
        *_of_sizes(parser, document, nodes, size),
        *_of_headings(blocks, nodes, parser.chunk_size - size(document.get_metadata_str()), size),
        *_of_tables(document.text, blocks, nodes, parser.chunk_size - size(document.get_metadata_str()), size),
        *_of_fences(nodes),
        *_of_atoms(document.text, blocks, nodes, parser.chunk_size - size(document.get_metadata_str()), size),
        *_of_lines(document.text, nodes),
        *_of_answers(document.text, nodes),
        *_of_ties(document.text, blocks, nodes, parser.chunk_size - size(document.get_metadata_str()), size),
        *_of_parts(document.text, blocks, nodes, parser.chunk_size - size(document.get_metadata_str()), size),
    ]


def unclosed_fences(shown: str) -> int:
    """How many fences of a Markdown text have no end."""
    lines = [line.lstrip("> ") for line in shown.splitlines()]
    fences = [token for token in MarkdownIt("commonmark").parse("\n".join(lines)) if token.type == "fence"]
    closing = [lines[token.map[1] - 1].strip() if token.map[1] - token.map[0] > 1 else "" for token in fences]
    return sum(
        set(line) != {token.markup[0]} or len(line) < len(token.markup)
        for token, line in zip(fences, closing, strict=True)
    )


def _of_ranges(text: str, nodes: Sequence[BaseNode]) -> Iterator[str]:
    covered = bytearray(len(text))
    for node in nodes:
        if text[node.start_char_idx : node.end_char_idx] != node.text:
            yield f"no slice: {node.text!r}"
        covered[node.start_char_idx : node.end_char_idx] = b"\1" * len(node.text)
    lost = "".join(char for char, seen in zip(text, covered, strict=True) if not seen)
    if lost.strip():
        yield f"lost: {lost!r}"


def _of_sizes(
    parser: StructuredMarkdownNodeParser, document: Document, nodes: Sequence[BaseNode], size: Callable[[str], int]
) -> Iterator[str]:
    common = max(size(document.get_metadata_str(mode)) for mode in (MetadataMode.EMBED, MetadataMode.LLM))
    for node in nodes:
        around = common + sum(size(f"{key}: {node.metadata[key]}\n") for key in SHOWN if key in node.metadata)
        if size(node.text) > parser.chunk_size:
            yield f"{size(node.text)} is too large: {node.text!r}"
        if around * 2 <= parser.chunk_size - 10 and size(node.text) + around > parser.chunk_size:
            yield f"{size(node.text)} and {around} are too large: {node.text!r} with {node.metadata}"


def _inside(blocks: Sequence[Block], node: BaseNode) -> list[Block]:
    return [block for block in blocks if block.span.start < node.end_char_idx and node.start_char_idx < block.span.end]


def _of_headings(
    blocks: Sequence[Block], nodes: Sequence[BaseNode], limit: int, size: Callable[[str], int]
) -> Iterator[str]:
    last = max((block.span.start for block in blocks if block.kind not in _BESIDE), default=-1)
    for node in nodes:
        held = _inside(blocks, node)
        run = takewhile(lambda block: block.kind in _BESIDE, blocks[blocks.index(held[-1]) + 1 :])
        headings = [block.title for block in [*held, *run] if block.kind in _BESIDE]
        around = size(node.metadata.get("header_path", "")) + 20 + size("".join(headings)) + 6 * len(headings)
        if last < 0 or any(block.span.start > last for block in held) or around * 2 > limit:
            continue  # headings above nothing, or more headings than text
        if held[-1].kind is BlockKind.HEADING:
            yield f"a heading ends {node.text!r}"
        if all(block.kind in _BESIDE for block in held):
            yield f"no content: {node.text!r}"
            continue
        first = next(block.span.start for block in held if block.kind not in _BESIDE)  # headings above nothing go along
        above = [block for block in blocks if block.level and block.span.start <= max(first, node.start_char_idx)]
        if above and any(0 < block.level < above[-1].level for block in held if block.span.start > first):
            yield f"a higher heading inside {node.text!r}"


def _of_tables(
    text: str, blocks: Sequence[Block], nodes: Sequence[BaseNode], limit: int, size: Callable[[str], int]
) -> Iterator[str]:
    for block in blocks:
        if block.kind not in {BlockKind.TABLE, BlockKind.HTML_TABLE, BlockKind.LIST} or not block.lead:
            continue
        lead = "".join(span.of(text) for span in block.lead).strip()
        rows = re.findall(r"<tr>.*</tr>", lead) if block.kind is BlockKind.HTML_TABLE else [lead]
        for node in nodes:
            if block.span.start < node.start_char_idx < block.span.end and node.start_char_idx >= block.lead[-1].end:
                shown = [node.get_content(mode) for mode in (MetadataMode.EMBED, MetadataMode.LLM)]
                if size(f"lead: \n{lead}\n") * 2 <= limit and not all(row in each for each in shown for row in rows):
                    yield f"no lead {lead!r}: {node.text!r}"


def _of_fences(nodes: Sequence[BaseNode]) -> Iterator[str]:
    for node in nodes:
        for mode in (MetadataMode.EMBED, MetadataMode.LLM):
            if unclosed_fences(node.get_content(mode)):
                yield f"an open fence: {node.get_content(mode)!r}"


def _of_atoms(
    text: str, blocks: Sequence[Block], nodes: Sequence[BaseNode], limit: int, size: Callable[[str], int]
) -> Iterator[str]:
    """A block and the headings above it, if they and their path take no more than the limit, are in one chunk."""
    start = 0
    for before, block in zip([None, *blocks], blocks, strict=False):
        if before is None or before.kind not in _BESIDE | {BlockKind.FRONT_MATTER}:
            start = block.span.start
        if not block.is_atomic:
            continue
        content = text[start : block.span.end]
        titles = [each.title for each in blocks if each.level and each.span.start < block.span.start]
        if size(content) + 2 * size(f"header_path: /{'/'.join(titles[-6:])}/\n") + 12 <= limit:
            begin, end = block.span.start, block.span.start + len(block.span.of(text).rstrip())
            holding = [node for node in nodes if node.start_char_idx <= begin and end <= node.end_char_idx]
            touching = [node for node in nodes if node.start_char_idx < end and begin < node.end_char_idx]
            if not len(holding) == len(touching) == 1:
                yield f"torn: {block.span.of(text)!r}"


def _of_lines(text: str, nodes: Sequence[BaseNode]) -> Iterator[str]:
    uniform = text.replace("\r\n", "\n\0").replace("\r", "\n")
    for node in nodes:
        first = uniform.count("\n", 0, node.start_char_idx) + 1
        last = uniform.count("\n", 0, node.end_char_idx - 1) + 1
        if uniform[node.end_char_idx - 1] == "\0":  # the second half of a CRLF
            last -= 1
        if (node.metadata["line_start"], node.metadata["line_end"]) != (first, last):
            yield f"lines {node.metadata['line_start']}-{node.metadata['line_end']}, not {first}-{last}"


def _of_answers(text: str, nodes: Sequence[BaseNode]) -> Iterator[str]:
    """A chunk that begins inside of an answer holds no next question, unless a heading is between them."""
    marks = list(re.finditer(r"^(?:问：|答：|#{1,6} |---|\*\*\*)", text, re.MULTILINE))
    for node in nodes:
        before = [found for found in marks if found.start() <= node.start_char_idx]
        after = [found for found in marks if node.start_char_idx < found.start() < node.end_char_idx]
        goes_on = before and after and before[-1].group() == "答：" and after[0].group() == "问："
        if goes_on and not node.text.startswith("<!--"):
            yield f"an answer and the next question: {node.text!r}"


def _of_ties(
    text: str, blocks: Sequence[Block], nodes: Sequence[BaseNode], limit: int, size: Callable[[str], int]
) -> Iterator[str]:
    """What belongs together is in one chunk if it fits with twice the headings above it."""
    headings = [block for block in blocks if block.level]
    beside = [block for block in blocks if block.level or block.kind.value in ("comment", "break", "front_matter")]
    for tie in ties(text, [block.span for block in blocks]):
        if any(tie.start <= block.span.start < tie.end for block in headings):
            continue
        above = [block for block in beside if block.span.start < tie.start][-6:]
        glued = sum(size(block.span.of(text)) for block in above) + size(
            f"header_path: /{[block.title for block in above]}/\n"
        )
        end = tie.start + len(re.sub(r"(?:\s|<!--[^>]*-->|---|\*\*\*)*$", "", tie.of(text)))  # but for what follows it
        if glued + size(tie.of(text)) <= limit and not any(
            node.start_char_idx <= tie.start and end <= node.end_char_idx for node in nodes
        ):
            yield f"not together: {tie.of(text)!r}"


def _of_parts(
    text: str, blocks: Sequence[Block], nodes: Sequence[BaseNode], limit: int, size: Callable[[str], int]
) -> Iterator[str]:
    """What is nothing without the other is in one chunk, if it fits with all that may be shown ahead of it."""
    for number, block in enumerate(blocks):
        above = [each for each in blocks[:number] if each.level or each.kind in _BESIDE][-6:]
        path = size(f"header_path: /{'/'.join(each.title for each in above if each.level)}/\n")
        for part, glued in _parts(text, block):
            around = path + sum(size(each.span.of(text)) for each in above) if glued else path
            lead = size("lead: \n\n" + "".join(span.of(text) for span in block.lead)) if not glued else 0
            if size(part.of(text)) + around + min(lead, limit // 2) + 12 <= limit and not any(
                node.start_char_idx <= part.start and part.end <= node.end_char_idx for node in nodes
            ):
                yield f"parted: {part.of(text)!r}"


def _parts(text: str, block: Block) -> Iterator[tuple[Span, bool]]:
    """Ranges, and whether headings may have to stand ahead of them."""
    content = len(block.span.of(text).rstrip())
    if block.introduction and block.is_atomic:
        yield Span(block.introduction[0].start, block.span.start + content), True
    if block.kind is BlockKind.TABLE:
        first_row = next((cut for group in block.cuts for cut in group), block.span.start + content)
        yield Span(block.span.start, first_row), False
    if block.kind is BlockKind.HTML_TABLE:
        yield from ((Span(rows.start, rows.start + len(rows.of(text).rstrip())), False) for rows in block.inner)
