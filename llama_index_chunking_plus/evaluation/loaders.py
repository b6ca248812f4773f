"""Evaluation sets from files: one question a line, SQuAD and CMRC 2018, LlamaIndex's pairs of questions and nodes.

Every loader reads the whole file before it complains, and then names all flaws with their places.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeVar

from llama_index_chunking_plus.core.options import is_path
from llama_index_chunking_plus.core.spans import Span
from llama_index_chunking_plus.errors import ChunkingPlusWarning, InputFileError, OptionError
from llama_index_chunking_plus.evaluation.dataset import (
    EvaluationQuestion,
    EvaluationSet,
    EvaluationSetError,
    Places,
    Quote,
    span_problems,
)

T = TypeVar("T")

_KEYS = (
    *("id", "question", "document_id", "spans", "quotes", "substrings", "occurrence", "context"),
    *("section", "tags", "expected_steps"),
)
_FORMAT = '{"question": "…", "document_id": "…", "quotes": ["…"]}'
_MOST_SHOWN = 5  # names in a message
_LONGEST_SHOWN = 60  # characters of a value in a message


class LabelledDocuments(NamedTuple):
    """Documents and questions about them.

    Args:
        texts: the text of each document by its id.
        questions: the questions, with the ranges of their answers.
    """

    texts: dict[str, str]
    questions: EvaluationSet


class QuestionNodePairs(Protocol):
    """What LlamaIndex's ``EmbeddingQAFinetuneDataset`` has."""

    @property
    def queries(self) -> Mapping[str, str]:
        """The questions by id."""
        ...

    @property
    def corpus(self) -> Mapping[str, str]:
        """The texts of nodes by id."""
        ...

    @property
    def relevant_docs(self) -> Mapping[str, Sequence[str]]:
        """The ids of the nodes that answer a question, by its id."""
        ...


class PlacedNode(Protocol):
    """A node that knows where it stands in its document."""

    @property
    def node_id(self) -> str:
        """Its id."""
        ...

    @property
    def ref_doc_id(self) -> str | None:
        """The id of its document."""
        ...

    start_char_idx: int | None
    end_char_idx: int | None


# ------------------------------------------------------------------------------------------------ one question a line


def load_questions(path: Path | str) -> EvaluationSet:
    """Questions from a JSONL file, one object a line; the documents are not needed until `EvaluationSet.resolve`.

    A line has a "question", its "document_id", and the gold: "spans", a list of [start, end] in characters, or
    "quotes", words of the document, or both. A quote is a text or {"text": …, "occurrence": n}; one quote may stand
    without a list, and an "occurrence" beside it. "substrings" is another name for quotes. Optional are "id" (else q1,
    q2, … in order), "context" (spans that are no waste when they are retrieved), "section", "tags" and
    "expected_steps". Blank lines are passed over.

    Args:
        path: a file in UTF-8, with or without BOM, with any newlines.

    Raises:
        EvaluationSetError: the file has flaws; each is named with its line.
        InputFileError: the file cannot be read, or is not UTF-8.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "questions.jsonl"
        >>> _ = path.write_text('{"question": "保修多久？", "document_id": "手册", "quotes": "两年"}', encoding="utf-8")
        >>> [question.text for question in load_questions(path)]
        ['保修多久？']
    """
    questions, problems = read_lines(path)
    return _checked(str(path), questions, problems)


def read_lines(path: Path | str) -> tuple[list[EvaluationQuestion], list[str]]:
    """The questions of a JSONL file that have no flaws, and a sentence for each flaw of the other lines.

    Args:
        path: see `load_questions`.

    Raises:
        EvaluationSetError: it is no JSONL file, or there is nothing in it.
        InputFileError: the file cannot be read, or is not UTF-8.
    """
    source, text = str(path), _read(_path(path))
    if _is_array(text):
        raise EvaluationSetError(source, [f"this is a JSON array; write one object a line, like {_FORMAT}"])
    questions: list[EvaluationQuestion] = []
    problems: list[str] = []
    for ordinal, (line, content) in enumerate(_lines(text), 1):
        fields = _Fields(content, f"line {line}")
        question = fields.question(f"q{ordinal}")
        problems += fields.problems
        questions += [question] if question else []
    if not questions and not problems:
        raise EvaluationSetError(source, [f"there is no question in it; write one a line, like {_FORMAT}"])
    return questions, problems


def save_questions(questions: EvaluationSet, path: Path | str) -> None:
    """Write the questions as `load_questions` reads them; quotes with known ranges are written with both."""
    lines = [json.dumps(_record(question), ensure_ascii=False) + "\n" for question in questions]
    _path(path).write_text("".join(lines), encoding="utf-8")


def _record(question: EvaluationQuestion) -> dict[str, Any]:
    quotes = [
        quote.text if quote.occurrence is None else {"text": quote.text, "occurrence": quote.occurrence}
        for quote in question.quotes
    ]
    record = {
        "id": question.question_id,
        "question": question.text,
        "document_id": question.document_id,
        "spans": [list(span) for span in question.gold],
        "quotes": quotes,
        "context": [list(span) for span in question.context],
        "section": question.section,
        "tags": list(question.tags),
        "expected_steps": list(question.expected_steps),
    }
    return {key: value for key, value in record.items() if value}


def _is_array(text: str) -> bool:
    """Whether the whole file is one list, over as many lines as it likes."""
    try:
        return text.lstrip().startswith("[") and isinstance(_parsed(text), list)
    except OptionError:
        return False


def _lines(text: str) -> Iterator[tuple[int, str]]:
    """The lines that are not blank, with their numbers; a newline inside of a text is escaped in JSON."""
    for number, line in enumerate(text.replace("\r\n", "\n").replace("\r", "\n").split("\n"), 1):
        if line.strip():
            yield number, line


class _Fields:
    """One line, its fields, and all that is wrong with them."""

    def __init__(self, line: str, place: str) -> None:
        self._place = place
        self._record: Mapping[str, Any] = {}
        self.problems: list[str] = []
        record = _noted(self.problems, place, _parsed, line)
        if isinstance(record, dict):
            self._record = record
        elif not self.problems:
            self._wrong(f"it is {_kind(record)}, not an object like {_FORMAT}")

    def question(self, default_id: str) -> EvaluationQuestion | None:
        """The question; None if the line has flaws."""
        if self.problems:
            return None
        for key in self._record:
            if key not in _KEYS:
                self._wrong(f"unknown key {key!r}{_suggestion(key)}")
        name, text, document_id = self._text("id", default_id), self._text("question"), self._text("document_id")
        gold, quotes, context = self._spans("spans"), self._quotes(), self._spans("context")
        section, tags, steps = self._text("section", ""), self._texts("tags"), self._texts("expected_steps")
        if self.problems:
            return None
        return _noted(
            self.problems,
            self._place,
            lambda: EvaluationQuestion(
                name, text, document_id, gold, quotes, context, section or None, tags, steps, place=self._place
            ),
        )

    def _text(self, key: str, default: str | None = None) -> str:
        """A text; of ids, a number as well."""
        value = self._record.get(key)
        if value is None and default is not None:
            return default
        if key not in self._record:
            self._wrong(f"{key!r} is missing; a line is like {_FORMAT}")
        elif key.endswith("id") and isinstance(value, int) and not isinstance(value, bool):
            return str(value)
        elif not isinstance(value, str) or not value.strip():
            self._wrong(f"{key!r} is {_shown(value)}; it must be a text that is not empty")
        return value if isinstance(value, str) else ""

    def _texts(self, key: str) -> tuple[str, ...]:
        """A list of texts; one may stand by itself."""
        texts = _listed(self._record.get(key))
        if not all(isinstance(text, str) and text.strip() for text in texts):
            self._wrong(f"{key!r} is {_shown(self._record[key])}; it must be a list of texts that are not empty")
            return ()
        return tuple(texts)

    def _spans(self, key: str) -> tuple[Any, ...]:
        """A list of ranges, which the question checks."""
        value = self._record.get(key)
        if value is not None and not isinstance(value, list):
            self._wrong(f"{key!r} is {_shown(value)}; it must be a list of [start, end]")
            return ()
        for problem in span_problems(key, value or ()):
            self._wrong(problem)
        return tuple(value or ())

    def _quotes(self) -> tuple[Quote, ...]:
        items = [item for key in ("quotes", "substrings") for item in _listed(self._record.get(key))]
        occurrence = self._record.get("occurrence")
        if occurrence is not None and (len(items) != 1 or not isinstance(items[0], str)):
            self._wrong('"occurrence" beside several quotes, or none; write {"text": …, "occurrence": n} as a quote')
            return ()
        quotes = [_noted(self.problems, self._place, _quote, item, occurrence) for item in items]
        return tuple(quote for quote in quotes if quote)

    def _wrong(self, problem: str) -> None:
        self.problems.append(f"{self._place}: {problem}")


def _quote(item: Any, occurrence: int | None) -> Quote:
    if isinstance(item, dict):
        if not {"text"} <= item.keys() <= {"text", "occurrence"}:
            raise OptionError(f'quote {_shown(item)} must have a "text", may have an "occurrence", and nothing else')
        return Quote(item["text"], item.get("occurrence"))
    return Quote(item, occurrence)


def _listed(value: Any) -> list[Any]:
    return [] if value is None else value if isinstance(value, list) else [value]


def _suggestion(key: str) -> str:
    near = get_close_matches(key, _KEYS, n=1)
    return f"; did you mean {near[0]!r}?" if near else f"; known are {', '.join(_KEYS)}"


# ------------------------------------------------------------------------------------------------ SQuAD and CMRC


def load_squad(path: Path | str) -> LabelledDocuments:
    """Documents and questions from a JSON file in the form of SQuAD (1.1 and 2.0) or CMRC 2018, either of its two.

    Each context becomes a document with its own id, or the title of its article and its number. Of several answers,
    which are variants of each other, the first is the gold. Where it does not stand at its "answer_start", or has none,
    the place is found if the context holds the answer once; one warning counts them. Questions without an answer are
    left out.

    Args:
        path: a file in UTF-8.

    Raises:
        EvaluationSetError: the file has flaws; each is named with its place.
        InputFileError: the file cannot be read.

    Source:
        Rajpurkar et al. (2016), SQuAD: 100,000+ Questions for Machine Comprehension of Text; Cui et al. (2019), A
        Span-Extraction Dataset for Chinese Machine Reading Comprehension.
    """
    source = str(path)
    reader = _SquadReader()
    for place, paragraph in _paragraphs(_json_file(path), source):
        reader.read(place, paragraph)
    if reader.n_moved:
        warnings.warn(
            f"{source}: {'1 answer does' if reader.n_moved == 1 else f'{reader.n_moved} answers do'} not stand at the "
            "given answer_start; the place is the only one of the context that has the answer",
            ChunkingPlusWarning,
            stacklevel=2,
        )
    return LabelledDocuments(reader.texts, _checked(source, reader.questions, reader.problems))


def _paragraphs(data: Any, source: str) -> Iterator[tuple[str, Any]]:
    """Every context with its questions, and a name for it."""
    articles = data.get("data") if isinstance(data, dict) else data
    if not isinstance(articles, list) or not articles:
        raise EvaluationSetError(source, ['there is no list of articles, neither at the top nor under "data"'])
    for number, article in enumerate(articles, 1):
        if not isinstance(article, dict):
            raise EvaluationSetError(source, [f"article {number} is {_kind(article)}, not an object"])
        title = str(article.get("title") or "article")
        paragraphs = article.get("paragraphs", [article])
        if not isinstance(paragraphs, list):
            raise EvaluationSetError(source, [f'article {number}: "paragraphs" is {_kind(paragraphs)}, not a list'])
        yield from ((f"{title} {number}.{part}", each) for part, each in enumerate(paragraphs, 1))


class _SquadReader:
    """Takes in one context after the other."""

    def __init__(self) -> None:
        self.texts: dict[str, str] = {}
        self.questions: list[EvaluationQuestion] = []
        self.problems: list[str] = []
        self.n_moved = 0

    def read(self, place: str, paragraph: Any) -> None:
        """The context as a document, and its questions."""
        context = _first_of(paragraph, "context", "context_text")
        asked = _first_of(paragraph, "qas")
        if not isinstance(context, str) or not isinstance(asked, list):
            self.problems.append(f'{place}: it must have a text "context" and a list "qas"')
            return
        name = str(_first_of(paragraph, "id", "context_id") or place)
        if name in self.texts:
            self.problems.append(f"{place}: the id {name!r} is that of another context as well")
            return
        self.texts[name] = context
        for number, item in enumerate(asked, 1):
            asked_at = f"{place}, question {number}"
            question = _noted(self.problems, asked_at, self._question, name, asked_at, item)
            self.questions += [question] if question else []

    def _question(self, name: str, place: str, item: Any) -> EvaluationQuestion | None:
        text, key = _first_of(item, "question", "query_text"), _first_of(item, "id", "query_id")
        answers = _first_of(item, "answers") or []
        if not isinstance(answers, list):
            raise OptionError(f'"answers" is {_kind(answers)}, not a list')
        if not answers:
            return None
        span = self._span(self.texts[name], answers[0])
        return EvaluationQuestion(str(key or place), text, name, (span,), place=place)

    def _span(self, context: str, answer: Any) -> Span:
        text = answer if isinstance(answer, str) else _first_of(answer, "text")
        start = _first_of(answer, "answer_start")
        if not isinstance(text, str) or not text.strip():
            raise OptionError(f"the answer is {_shown(answer)}; it must have a text that is not empty")
        if isinstance(start, int) and start >= 0 and context.startswith(text, start):
            return Span(start, start + len(text))
        places = Places(context)
        found = places.exact(text) or places.loose(text)
        if len(found) != 1:
            shown = f"answer {_shown(text)} stands {len(found)} times in its context"
            raise OptionError(f"{shown}, and not at answer_start={start!r}; correct answer_start")
        self.n_moved += start is not None
        return found[0]


def _first_of(record: Any, *keys: str) -> Any:
    """The value of the first key that an object has."""
    if not isinstance(record, dict):
        return None
    return next((record[key] for key in keys if key in record), None)


# ------------------------------------------------------------------------------------------------ questions and nodes


def load_question_node_pairs(
    pairs: QuestionNodePairs | Path | str, nodes: Iterable[PlacedNode] = ()
) -> LabelledDocuments:
    """Documents and questions from LlamaIndex's ``EmbeddingQAFinetuneDataset``, or the file that it saves.

    Each node of the corpus becomes a document, all of it gold for its questions. With ``nodes``, gold is the range
    where a node stands in its own document; the texts of those documents are then yours to give.

    Args:
        pairs: the dataset, or the path of its JSON file.
        nodes: the nodes of the corpus as their parser made them, with document and range.

    Returns:
        The texts, of nodes without a document only, and the questions.

    Raises:
        EvaluationSetError: a question has no node, an unknown one, or nodes of several documents.
        InputFileError: the file cannot be read.
    """
    source = str(pairs) if isinstance(pairs, (str, Path)) else type(pairs).__name__
    data = _json_file(pairs) if isinstance(pairs, (str, Path)) else pairs
    queries, corpus, relevant = (_mapping(data, name, source) for name in ("queries", "corpus", "relevant_docs"))
    placed = {node.node_id: node for node in nodes}
    problems = [
        f"node {name!r} is {_shown(text)}; it must be a text that is not empty"
        for name, text in corpus.items()
        if not isinstance(text, str) or not text.strip()
    ]
    if problems:
        raise EvaluationSetError(source, problems)

    def question(name: str, text: str) -> EvaluationQuestion:
        document_id, gold = _gold(relevant.get(name), corpus, placed)
        return EvaluationQuestion(name, text, document_id, gold, place=f"query {name!r}")

    made = [_noted(problems, f"query {name!r}", question, name, text) for name, text in queries.items()]
    texts = {name: text for name, text in corpus.items() if _place(name, text, placed)[0] == name}
    return LabelledDocuments(texts, _checked(source, [each for each in made if each], problems))


def _mapping(data: Any, name: str, source: str) -> dict[str, Any]:
    value = data.get(name) if isinstance(data, dict) else getattr(data, name, None)
    if not isinstance(value, Mapping) or not value:
        raise EvaluationSetError(source, [f"{name!r} is {_kind(value)}; it must be a mapping that is not empty"])
    return dict(value)


def _gold(names: Any, corpus: Mapping[str, str], placed: Mapping[str, PlacedNode]) -> tuple[str, tuple[Span, ...]]:
    """The document of the nodes that answer a question, and their ranges in it."""
    if not isinstance(names, Sequence) or isinstance(names, str) or not names:
        raise OptionError(f"its relevant_docs are {_shown(names)}; it must be a list of nodes that is not empty")
    unknown = [name for name in names if not isinstance(name, str) or name not in corpus]
    if unknown:
        raise OptionError(f"its relevant_docs name {_shown(unknown[0])}, which is not in the corpus")
    places = [_place(name, corpus[name], placed) for name in names]
    documents = sorted({document_id for document_id, _ in places})
    if len(documents) > 1:
        shown = ", ".join(map(repr, documents[:_MOST_SHOWN]))
        raise OptionError(
            f"its nodes stand in {len(documents)} documents ({shown}); a question has gold in one document"
        )
    return documents[0], tuple(span for _, span in places)


def _place(name: str, text: str, placed: Mapping[str, PlacedNode]) -> tuple[str, Span]:
    """The document of a node and its range there; the node itself if that is unknown."""
    node = placed.get(name)
    if node is None or node.ref_doc_id is None or node.start_char_idx is None or node.end_char_idx is None:
        return name, Span(0, len(text))
    return node.ref_doc_id, Span(node.start_char_idx, node.end_char_idx)


# ------------------------------------------------------------------------------------------------ files


def _checked(source: str, questions: Sequence[EvaluationQuestion], problems: Sequence[str]) -> EvaluationSet:
    """The questions as a set; all problems of all of them are one error."""
    try:
        found = EvaluationSet(tuple(questions), source)
    except EvaluationSetError as error:
        raise EvaluationSetError(source, [*problems, *error.problems]) from None
    if problems:
        raise EvaluationSetError(source, problems)
    return found


def _noted(problems: list[str], place: str, make: Callable[..., T], *args: Any) -> T | None:
    """What is made; None if it cannot be, and why is noted."""
    try:
        return make(*args)
    except OptionError as error:
        problems.append(f"{place}: {error}")
    return None


def _path(path: Path | str) -> Path:
    if not is_path(path):
        raise InputFileError(f"path={path!r} is no path of a file; pass one, such as 'questions.jsonl'")
    return Path(path)


def _read(path: Path) -> str:
    try:
        return path.read_bytes().decode("utf-8-sig")
    except OSError as error:
        raise InputFileError(f"{path}: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise InputFileError(f"{path}: no UTF-8 at byte {error.start}; save it as UTF-8") from error


def _json_file(path: Path | str) -> Any:
    try:
        return _parsed(_read(_path(path)))
    except OptionError as error:
        raise EvaluationSetError(str(path), [str(error)]) from error


def _parsed(text: str) -> Any:
    """The value of a JSON text.

    Raises:
        OptionError: it is none, has NaN or an infinity in it, or an object with one key twice.
    """
    try:
        return json.loads(text, parse_constant=_refuse, object_pairs_hook=_object)
    except OptionError:
        raise
    except json.JSONDecodeError as error:
        raise OptionError(f"it is no JSON at character {error.colno}: {error.msg}") from error
    except (ValueError, RecursionError) as error:
        raise OptionError(f"it is no JSON that can be read: {error}") from error


def _refuse(constant: str) -> None:
    raise OptionError(f"{constant} is no number of JSON")


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    record = dict(pairs)
    if len(record) < len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        raise OptionError(f"the key {twice!r} stands twice in one object")
    return record


def _kind(value: Any) -> str:
    """What a value is, in words of JSON."""
    return _KINDS.get(type(value), type(value).__name__)


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= _LONGEST_SHOWN else text[: _LONGEST_SHOWN - 1] + "…"


_KINDS = {dict: "an object", list: "a list", str: "a text", int: "a number", float: "a number", bool: "a truth value"}
_KINDS[type(None)] = "null"
