"""Each question to the level of granularity that answers it."""

from __future__ import annotations

import logging
import reprlib
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.callbacks import CallbackManager
from llama_index.core.schema import NodeWithScore, QueryBundle

from llama_index_chunking_plus.core.granularity import (
    LEVELS,
    MEDIUM,
    QUERY_RULES,
    GranularityDecision,
    QueryRule,
    checked_levels,
    decide,
    in_order,
    level_among,
)
from llama_index_chunking_plus.core.options import is_collection
from llama_index_chunking_plus.core.plan import Call, Plan, arun, run
from llama_index_chunking_plus.errors import ChunkingPlusWarning, OptionError
from llama_index_chunking_plus.retrievers.levels import checked_base, checked_query

logger = logging.getLogger(__name__)

Classifier = Callable[[str], str]


@dataclass(frozen=True)
class GranularityRouter:
    """Says which level of granularity answers a question, and why: by rules, in Chinese and English.

    Numbers, dates, names, meanings, a yes or no are "fine"; procedures, reasons and conditions "medium"; comparisons,
    lists and summaries "coarse". The rules look at words, not at the corpus: of 70 questions of many kinds that were
    written after the rules, they chose a level that fits for 89 %, the best one for 79 %.

    Args:
        levels: the names, coarse to fine. For other names than the default ones, "coarse" of the rules is the first,
            "fine" the last, "medium" the middle one, of two the first.
        rules: what words say; put your own before or behind `QUERY_RULES`.
        default: the level of a question that no rule knows: "medium", since a paragraph holds most answers that a
            sentence holds, and still says what it is about.
        classifier: answers with the name of a level instead of the rules; a model, say. Of an answer that names none,
            ``default`` comes out, with a warning.

    Raises:
        OptionError: the levels are no names, repeated, or in a wrong order; ``rules`` are no rules; one of them or
            ``default`` names no level; ``classifier`` is not callable.

    Example:
        >>> router = GranularityRouter()
        >>> [router.route(query).level for query in ("年假有几天？", "怎么申请年假？", "年假和调休有什么区别？")]
        ['fine', 'medium', 'coarse']
        >>> router.explain("How many days of leave do I get?")
        "The level is 'fine'. It asks for a number (how many)."
    """

    levels: Sequence[str] = LEVELS
    rules: Sequence[QueryRule] = field(default=QUERY_RULES, repr=False)
    default: str = MEDIUM
    classifier: Classifier | None = None

    def __post_init__(self) -> None:
        if self.classifier is not None and not callable(self.classifier):
            raise OptionError(f"classifier={self.classifier!r} is not callable; pass a function from query to level.")
        levels = checked_levels(self.levels)
        rules = tuple(replace(rule, level=level_among(rule.level, levels)) for rule in _checked_rules(self.rules))
        values = {"levels": levels, "rules": rules, "default": level_among(self.default, levels, option="default")}
        for name, value in values.items():
            object.__setattr__(self, name, value)

    def route(self, query: str) -> GranularityDecision:
        """The level that answers the query, with the reason, the words that decided, and the scores of all levels.

        A blank query goes to ``default``.

        Raises:
            OptionError: the query is no text.

        Warns:
            ChunkingPlusWarning: the classifier's answer is no level.
        """
        if not isinstance(query, str):
            raise OptionError(f"query={query!r} is no text; pass the question, query_bundle.query_str, say.")
        if self.classifier is None:
            return decide(query, self.rules, self.levels, self.default)
        answer = self.classifier(query)
        none = dict.fromkeys(self.levels, 0.0)
        if answer in self.levels:
            return GranularityDecision(answer, "The classifier says so.", (), {**none, answer: 1.0})
        warnings.warn(
            f"The classifier answered {answer!r}, which is none of the levels {self.levels}, so the query goes to "
            f"{self.default!r}. Let it answer with one of them.",
            ChunkingPlusWarning,
            stacklevel=2,
        )
        return GranularityDecision(self.default, "The classifier named no level.", (), none)

    def explain(self, query: str) -> str:
        """In words, which level answers the query, and why; see `route`."""
        decision = self.route(query)
        return f"The level is {decision.level!r}. {decision.reason}"


def _checked_rules(rules: Sequence[QueryRule]) -> tuple[QueryRule, ...]:
    given = tuple(rules) if is_collection(rules) else ()
    if not is_collection(rules) or not all(isinstance(rule, QueryRule) for rule in given):
        raise OptionError(f"rules={reprlib.repr(rules)} are no QueryRules; pass (QueryRule(...), *QUERY_RULES), say.")
    return given


class GranularityRouterRetriever(BaseRetriever):
    """Sends each query to the retriever of the level that answers it.

    Documents that are too short for the coarse level have no coarse chunks (see `MultiGranularityNodeParser`): to find
    them for every query, let the coarse retriever search all chunks with ``granularity_depth`` 0.

    Args:
        retrievers: for each level its retriever. Without ``router`` their order is coarse to fine; the default names
            may stand in any order.
        router: chooses the level; None is a `GranularityRouter` for the levels of ``retrievers``.
        callback_manager, verbose: see LlamaIndex's ``BaseRetriever``.

    Raises:
        OptionError: there are no retrievers, one is none, a level of the router has none, or ``router`` is none; at a
            query: it is blank, see `checked_query`.

    Example:
        >>> from llama_index.core import MockEmbedding, VectorStoreIndex
        >>> from llama_index.core.schema import TextNode
        >>> def finds(text):
        ...     index = VectorStoreIndex([TextNode(text=text)], embed_model=MockEmbedding(embed_dim=8))
        ...     return index.as_retriever()
        >>> retriever = GranularityRouterRetriever({"coarse": finds("第一章 休假"), "fine": finds("年假有五天。")})
        >>> [each.text for each in retriever.retrieve("年假有几天？")]
        ['年假有五天。']
    """

    def __init__(
        self,
        retrievers: Mapping[str, BaseRetriever],
        router: GranularityRouter | None = None,
        callback_manager: CallbackManager | None = None,
        verbose: bool = False,
    ) -> None:
        if not isinstance(retrievers, Mapping):
            raise OptionError(f"retrievers={retrievers!r} is no mapping; pass {{'coarse': ..., 'fine': ...}}.")
        if router is not None and not isinstance(router, GranularityRouter):
            raise OptionError(f"router={router!r} is no GranularityRouter; pass GranularityRouter(levels=...).")
        for level, retriever in retrievers.items():
            if not isinstance(retriever, BaseRetriever):
                raise OptionError(f"retrievers[{level!r}]={retriever!r} is no retriever; pass index.as_retriever().")
        self._router = router or GranularityRouter(levels=in_order(retrievers))
        missing = [level for level in self._router.levels if level not in retrievers]
        if missing:
            raise OptionError(f"retrievers={[*retrievers]} lacks levels of the router: {missing}; add them.")
        self._retrievers = dict(retrievers)
        super().__init__(**checked_base(callback_manager, verbose))

    @property
    def router(self) -> GranularityRouter:
        """What chooses the level."""
        return self._router

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return run(self._plan(query_bundle))

    async def _aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return await arun(self._plan(query_bundle))

    def _plan(self, query: QueryBundle) -> Plan[list[NodeWithScore]]:
        """What the retriever of the query's level finds."""
        checked_query(query)
        decision: GranularityDecision = yield Call(partial(self._router.route, query.query_str))
        logger.debug("Level %r. %s", decision.level, decision.reason)
        retriever = self._retrievers[decision.level]
        hits: list[NodeWithScore] = yield Call(partial(retriever.retrieve, query), partial(retriever.aretrieve, query))
        return hits
