"""Metadata filters for every store: combined, and said in each store's own words.

LlamaIndex's filters nest, and its adapters differ in what they make of that: some refuse groups in groups, some do not
know "not", and a row without the key passes "!=" in one store and not in the next. What counts here is what LlamaIndex
does in memory: without the key, a row passes "!=" and "not in" only; "not" means that none of its filters passes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from llama_index.core.vector_stores.types import FilterCondition, FilterOperator, MetadataFilter, MetadataFilters

T = TypeVar("T")

_POSITIVE = {FilterOperator.NE: FilterOperator.EQ, FilterOperator.NIN: FilterOperator.IN}


def all_of(*parts: MetadataFilter | MetadataFilters | None) -> MetadataFilters | None:
    """One filter that passes what all parts pass; None if they say nothing.

    Groups of "and" are taken apart and empty groups left out, so that simple filters stay flat: many adapters do not
    know groups in groups.

    Example:
        >>> user = MetadataFilters(filters=[MetadataFilter(key="lang", value="zh"), MetadataFilters(filters=[])])
        >>> [each.key for each in all_of(MetadataFilter(key="granularity", value="child"), user, None).filters]
        ['granularity', 'lang']
    """
    flat = [each for part in parts if part is not None for each in _conjuncts(part)]
    return MetadataFilters(filters=flat) if flat else None


def fold(
    filters: MetadataFilters,
    leaf: Callable[[MetadataFilter, bool], T],
    join: Callable[[bool, Sequence[T]], T],
    *,
    negated: bool = False,
) -> T:
    """The filter put together anew, with every "not" moved down to the single comparisons (De Morgan's laws).

    Args:
        filters: not empty, and none in it, as `all_of` returns them.
        leaf: makes something of one comparison, which is never "!=" or "not in": whether it is negated comes with it.
        join: makes one thing of several, of which all must pass, or (True) any.
        negated: whether the opposite is meant.
    """
    inside = negated != (filters.condition == FilterCondition.NOT)
    made = [
        fold(each, leaf, join, negated=inside) if isinstance(each, MetadataFilters) else _positive(each, inside, leaf)
        for each in filters.filters
    ]
    is_any = negated != (filters.condition == FilterCondition.OR)
    return made[0] if len(made) == 1 else join(is_any, made)


def _positive(one: MetadataFilter, negated: bool, leaf: Callable[[MetadataFilter, bool], T]) -> T:
    if one.operator not in _POSITIVE:
        return leaf(one, negated)
    return leaf(one.model_copy(update={"operator": _POSITIVE[one.operator]}), not negated)


def _conjuncts(part: MetadataFilter | MetadataFilters) -> list[MetadataFilter | MetadataFilters]:
    """What must all pass for the part to pass, empty groups left out."""
    if isinstance(part, MetadataFilter):
        return [part]
    inner = [each for one in part.filters for each in _grouped(one)]
    if not inner:
        return []
    if part.condition in {None, FilterCondition.AND} or (len(inner) == 1 and part.condition == FilterCondition.OR):
        return [one for each in inner for one in (_conjuncts(each) if isinstance(each, MetadataFilters) else [each])]
    return [MetadataFilters(filters=inner, condition=part.condition)]


def _grouped(one: MetadataFilter | MetadataFilters) -> list[MetadataFilter | MetadataFilters]:
    """The part as one filter or group, or nothing."""
    flat = _conjuncts(one)
    return flat if len(flat) <= 1 else [MetadataFilters(filters=flat)]
