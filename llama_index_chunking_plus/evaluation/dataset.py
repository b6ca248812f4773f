"""What an evaluation set is made of: questions, and the ranges of documents that answer them.

A question has gold ranges, or quotes of which `EvaluationSet.resolve` finds the ranges once the documents are known.
All that is wrong with a set is told at once, with the line that it stands in.
"""

from __future__ import annotations

import re
import warnings
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import islice
from typing import Literal

import numpy as np

from llama_index_chunking_plus.core.options import is_collection, is_filled_text, is_whole
from llama_index_chunking_plus.core.spans import Span
from llama_index_chunking_plus.errors import ChunkingPlusWarning, InputFileError, OptionError

_BLANK = re.compile(r"[\s\u200b\ufeff]+")
_LONGEST_SHOWN = 60  # characters of a quote in a message
_MOST_SHOWN = 20  # problems in a message; the error carries all
_MOST_PLACES = 5  # places and names in a message


class EvaluationSetError(InputFileError):
    """An evaluation set has flaws; ``problems`` names each with its line.

    Args:
        source: the file, or what else the set was read from.
        problems: one sentence for each flaw.
    """

    def __init__(self, source: str, problems: Sequence[str]) -> None:
        self.source = source
        self.problems = tuple(problems)
        shown = [f"  {problem}" for problem in self.problems[:_MOST_SHOWN]]
        if len(self.problems) > _MOST_SHOWN:
            shown.append(f"  and {len(self.problems) - _MOST_SHOWN} more")
        count = f"{len(self.problems)} problem{'s' if len(self.problems) > 1 else ''}"
        super().__init__("\n".join([f"{source}: {count}", *shown]))

    def __reduce__(self) -> tuple[type[EvaluationSetError], tuple[str, tuple[str, ...]]]:
        return type(self), (self.source, self.problems)


@dataclass(frozen=True)
class Quote:
    """Words of a document, which stand for the range where they are found.

    Args:
        text: the words; white space counts only if they stand there with it.
        occurrence: which one is meant, from 1, where they stand several times; None: they stand once.
        span: the range, once it is known.

    Example:
        >>> Quote("保修期为两年").text
        '保修期为两年'
    """

    text: str
    occurrence: int | None = None
    span: Span | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.text, str) or not _BLANK.sub("", self.text):
            raise OptionError(f"a quote is {self.text!r}; it must hold words of the document")
        if self.occurrence is not None and not is_whole(self.occurrence, least=1):
            raise OptionError(
                f"occurrence={self.occurrence!r} of {_short(self.text)}; it must be a whole number from 1"
            )
        problems = [] if self.span is None else list(span_problems("span", [self.span]))
        if problems:
            raise OptionError("; ".join(problems))


@dataclass(frozen=True)
class EvaluationQuestion:
    """A question about one document.

    Args:
        question_id: a name that no other question of the set has.
        text: the question as a user would ask it.
        document_id: the document that answers it.
        gold: the ranges that answer it, all of them needed; sorted, each once.
        quotes: gold as words of the document; `EvaluationSet.resolve` adds their ranges to ``gold``.
        context: the wider ranges that are no waste when they are retrieved, a passage say; empty: the gold alone.
        section: the kind of section that the answer stands in.
        tags: any labels.
        expected_steps: what a complete answer must say.
        place: where the question was read, for messages.

    Raises:
        OptionError: a text is empty, a range is none, or there is no gold at all.

    Example:
        >>> question = EvaluationQuestion("q1", "多久交货？", "contract.md", gold=((12, 20), (3, 7)))
        >>> question.gold, question.relevant == question.gold, question.is_resolved
        ((Span(start=3, end=7), Span(start=12, end=20)), True, True)
    """

    question_id: str
    text: str
    document_id: str
    gold: tuple[Span, ...] = ()
    quotes: tuple[Quote, ...] = ()
    context: tuple[Span, ...] = ()
    section: str | None = None
    tags: tuple[str, ...] = ()
    expected_steps: tuple[str, ...] = ()
    place: str = field(default="", compare=False)

    def __post_init__(self) -> None:
        problems = list(self._problems())
        if not self.gold and not self.quotes:
            problems.append("there is no gold; give spans or quotes of the document that answer the question")
        if problems:
            raise OptionError("; ".join(problems))
        for name in ("gold", "context"):
            object.__setattr__(self, name, tuple(sorted({Span(*span) for span in getattr(self, name)})))
        for name in ("quotes", "tags", "expected_steps"):
            object.__setattr__(self, name, tuple(getattr(self, name)))

    def _problems(self) -> Iterator[str]:
        for name in ("question_id", "text", "document_id"):
            value = getattr(self, name)
            if not is_filled_text(value):
                yield f"{name} is {value!r}; it must be a text that is not empty"
        if self.section is not None and not is_filled_text(self.section):
            yield f"section is {self.section!r}; it must be a text that is not empty, or None"
        if not isinstance(self.place, str):
            yield f"place is {self.place!r}; it must be a text"
        for name in ("tags", "expected_steps"):
            value = getattr(self, name)
            if not is_collection(value) or not all(map(is_filled_text, value)):
                yield f"{name} is {value!r}; it must be a list of texts that are not empty"
        if not is_collection(self.quotes) or not all(isinstance(quote, Quote) for quote in self.quotes):
            yield f"quotes is {self.quotes!r}; it must be a list of Quote(...)"
        yield from span_problems("gold", self.gold)
        yield from span_problems("context", self.context)

    @property
    def relevant(self) -> tuple[Span, ...]:
        """What is no waste when it is retrieved: the context where there is one, else the gold."""
        return self.context or self.gold

    @property
    def is_resolved(self) -> bool:
        """Whether the ranges of all quotes are known."""
        return all(quote.span is not None for quote in self.quotes)


@dataclass(frozen=True)
class EvaluationSet:
    """Questions, no two with one id.

    Args:
        questions: in any order.
        source: where they come from, for messages.

    Raises:
        EvaluationSetError: two questions have one id.
        OptionError: what is given is no list of questions.

    Example:
        >>> question = EvaluationQuestion("q1", "多久交货？", "contract.md", quotes=(Quote("三十日内"),))
        >>> resolved = EvaluationSet((question,)).resolve({"contract.md": "乙方应在签约后三十日内交货。"})
        >>> resolved.questions[0].gold
        (Span(start=7, end=11),)
    """

    questions: tuple[EvaluationQuestion, ...]
    source: str = "questions"

    def __post_init__(self) -> None:
        if not is_collection(self.questions):
            raise OptionError(f"questions={self.questions!r} is no list; give a list of EvaluationQuestion(...)")
        object.__setattr__(self, "questions", tuple(self.questions))
        for question in self.questions:
            if not isinstance(question, EvaluationQuestion):
                raise OptionError(f"{question!r} is no question; give EvaluationQuestion(...)")
        if not isinstance(self.source, str):
            raise OptionError(f"source={self.source!r} is no text; say where the questions come from")
        by_id: defaultdict[str, list[tuple[int, str]]] = defaultdict(list)
        for number, question in enumerate(self.questions, 1):
            by_id[question.question_id].append((number, question.place))
        problems = [_repeated(name, places) for name, places in by_id.items() if len(places) > 1]
        if problems:
            raise EvaluationSetError(self.source, problems)

    def __len__(self) -> int:
        return len(self.questions)

    def __iter__(self) -> Iterator[EvaluationQuestion]:
        return iter(self.questions)

    def resolve(self, texts: Mapping[str, str], *, missing: Literal["error", "skip"] = "error") -> EvaluationSet:
        """The questions with the ranges of their quotes, checked against the documents.

        A quote is looked for as it is, then without regard to white space; one warning names the quotes for which that
        was needed. A quote that equals the text of one of the question's own gold ranges is that range.

        Args:
            texts: the text of each document by its id.
            missing: what becomes of questions whose document is not there: "error", or "skip", which leaves them out
                (`without_document` names them).

        Raises:
            EvaluationSetError: a document is missing, a range lies outside of its document or holds nothing but white
                space, or a quote is missing or stands in several places.
        """
        resolver = _Resolver(texts)
        if missing not in {"error", "skip"}:
            raise OptionError(f'missing={missing!r}; it must be "error" or "skip"')
        if missing == "error":
            resolver.problems += [_absence(question, texts) for question in self.without_document(texts)]
        found = [resolver.resolve(question) for question in self.questions if question.document_id in texts]
        if resolver.problems:
            raise EvaluationSetError(self.source, resolver.problems)
        resolver.warn(self.source)
        return replace(self, questions=tuple(found))

    def without_document(self, texts: Mapping[str, str]) -> tuple[EvaluationQuestion, ...]:
        """The questions whose document is not among these."""
        return tuple(question for question in self.questions if question.document_id not in texts)


def _repeated(name: str, places: Sequence[tuple[int, str]]) -> str:
    """That questions have one id; two files have the same lines, so there the number of the question says which."""
    are_known = all(place for _, place in places) and len({place for _, place in places}) == len(places)
    first, *others = [place if are_known else f"question {number}" for number, place in places]
    return f"{', '.join(others)}: the id {name!r} is that of {first} as well; give each question its own"


class _Resolver:
    """Finds quotes in documents, and notes what is wrong and what is not exact."""

    def __init__(self, texts: Mapping[str, str]) -> None:
        self._texts = texts
        self._places: dict[str, Places] = {}
        self.problems: list[str] = []
        self._loose: list[str] = []

    def resolve(self, question: EvaluationQuestion) -> EvaluationQuestion:
        """The question with all ranges; flaws are noted."""
        text = self._texts[question.document_id]
        old = {quote.span for quote in question.quotes}
        given = tuple(span for span in question.gold if span not in old)
        flaws = [*_range_flaws("gold", given, text), *_range_flaws("context", question.context, text)]
        self.problems += [f"{_label(question)}: {flaw} in {question.document_id!r}" for flaw in flaws]
        quotes = tuple(replace(quote, span=self._span(question, quote)) for quote in question.quotes)
        found = tuple(quote.span for quote in quotes if quote.span is not None)
        return replace(question, gold=(*given, *found), quotes=quotes)

    def warn(self, source: str) -> None:
        """One warning about the quotes that stand in their documents with other white space."""
        if self._loose:
            shown = "; ".join(self._loose[:_MOST_PLACES]) + ("; …" if len(self._loose) > _MOST_PLACES else "")
            warnings.warn(
                f"{source}: {'1 quote was' if len(self._loose) == 1 else f'{len(self._loose)} quotes were'} found only "
                f"without regard to white space ({shown}). Copy them from the documents, to be sure of what "
                "is meant.",
                ChunkingPlusWarning,
                stacklevel=4,
            )

    def _span(self, question: EvaluationQuestion, quote: Quote) -> Span | None:
        name = question.document_id
        if name not in self._places:
            self._places[name] = Places(self._texts[name])
        places = self._places[name]
        found = places.exact(quote.text)
        named = [span for span in found if span == quote.span or (quote.span is None and span in question.gold)]
        if len(named) == 1 and quote.occurrence is None:
            return named[0]
        is_exact = bool(found)
        found = found or places.loose(quote.text)
        flaw = _flaw(quote, found, name)
        if flaw:
            self.problems.append(f"{_label(question)}: {flaw}")
            return None
        if not is_exact:
            self._loose.append(f"{_label(question)}: {_short(quote.text)}")
        return found[(quote.occurrence or 1) - 1]


class Places:
    """Where quotes stand in a text.

    Args:
        text: any text.

    Example:
        >>> places = Places("甲乙 甲\\n乙")
        >>> places.exact("甲乙"), places.loose("甲 乙")
        ([Span(start=0, end=2)], [Span(start=0, end=2), Span(start=3, end=6)])
    """

    def __init__(self, text: str) -> None:
        self._text = text

    def exact(self, quote: str) -> list[Span]:
        """Every place where the quote stands as it is; they may overlap."""
        return list(_occurrences(self._text, quote))

    def loose(self, quote: str) -> list[Span]:
        """Every place where the quote stands if white space is taken out of both."""
        squeezed, positions = self._squeezed
        found = _occurrences(squeezed, _BLANK.sub("", quote))
        return [Span(int(positions[start]), int(positions[end - 1]) + 1) for start, end in found]

    @cached_property
    def _squeezed(self) -> tuple[str, np.ndarray[tuple[int], np.dtype[np.int64]]]:
        kept = np.ones(len(self._text), dtype=bool)
        for blank in _BLANK.finditer(self._text):
            kept[blank.start() : blank.end()] = False
        return _BLANK.sub("", self._text), np.flatnonzero(kept)


def _occurrences(text: str, part: str) -> Iterator[Span]:
    start = text.find(part) if part else -1
    while start >= 0:
        yield Span(start, start + len(part))
        start = text.find(part, start + 1)


def _flaw(quote: Quote, found: Sequence[Span], document_id: str) -> str:
    """Why a quote that stands in these places names none of them; empty if it does."""
    if not found:
        return f"quote {_short(quote.text)} does not stand in {document_id!r}; copy it from the document"
    times = f"{len(found)} time{'s' if len(found) > 1 else ''}"
    places = ", ".join(str(span.start) for span in found[:_MOST_PLACES]) + (", …" if len(found) > _MOST_PLACES else "")
    where = f"quote {_short(quote.text)} stands {times} in {document_id!r}, at character {places}"
    if quote.occurrence is None and len(found) > 1:
        return f'{where}; quote more of it, or say which one with "occurrence": 1 to {len(found)}'
    if quote.occurrence is not None and quote.occurrence > len(found):
        return f"{where}; occurrence {quote.occurrence} does not exist"
    return ""


def _range_flaws(name: str, spans: Sequence[Span], text: str) -> Iterator[str]:
    for span in spans:
        shown = f"{name} [{span.start}, {span.end}]"
        if span.end > len(text):
            yield f"{shown} ends after the last of {len(text)} characters"
        elif not _BLANK.sub("", span.of(text)):
            yield f"{shown} holds nothing but white space"


def _absence(question: EvaluationQuestion, texts: Mapping[str, str]) -> str:
    known = ", ".join(repr(name) for name in islice(texts, _MOST_PLACES)) + (", …" if len(texts) > _MOST_PLACES else "")
    return f"{_label(question)}: document {question.document_id!r} is not there; " + (
        f"known are {known}" if texts else "there are no documents at all"
    )


def _label(question: EvaluationQuestion) -> str:
    name = f"question {question.question_id!r}"
    return f"{question.place} ({name})" if question.place else name


def span_problems(name: str, spans: Sequence[Sequence[int]]) -> Iterator[str]:
    """What is wrong with ranges that may be anything."""
    if not is_collection(spans):
        yield f"{name} is {spans!r}; it must be a list of [start, end]"
        return
    for span in spans:
        if isinstance(span, str) or not isinstance(span, Sequence) or len(span) != 2:  # noqa: PLR2004  start and end
            yield f"{name} {span!r} is no [start, end]"
        elif not all(is_whole(edge, least=0) for edge in span):
            yield f"{name} {list(span)!r} must be two whole numbers from 0"
        elif span[0] >= span[1]:
            yield f"{name} {list(span)!r} is empty; its end must be after its start"


def _short(text: str) -> str:
    return repr(text if len(text) <= _LONGEST_SHOWN else text[: _LONGEST_SHOWN - 1] + "…")
