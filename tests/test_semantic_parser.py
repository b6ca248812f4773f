"""SemanticNodeParser: topics, bounds, one embedding per sentence, and embedders that misbehave."""

from __future__ import annotations

import asyncio
import pickle
from collections import Counter

import pytest
from embedders import FaultyEmbedding, LetterEmbedding
from llama_index.core import Document
from texts import PROSE

from llama_index_chunking_plus import ChunkingPlusWarning, EmbeddingError, OfflineEmbedding, SemanticNodeParser
from llama_index_chunking_plus.node_parser.tokenizers import resolve_sizer

count_tokens = resolve_sizer("tokens", None).size

CATS = "猫喜欢在窗台上睡觉。小猫一天要睡十六个小时。猫醒来以后会舔自己的毛。"
FINANCE = "央行昨天下调了存款准备金率。股市随后大幅上涨。分析师预计债券收益率会继续下行。"


def parse(parser: SemanticNodeParser, *texts: str) -> list[str]:
    documents = [Document(id_=str(i), text=text) for i, text in enumerate(texts)]
    return [node.text for node in parser.get_nodes_from_documents(documents)]


@pytest.mark.parametrize("rule", [{"rule": "percentile", "percentile": 80.0}, {"target_size": 60}], ids=str)
def test_two_topics_are_cut_between_them(rule: dict) -> None:
    parser = SemanticNodeParser(embed_model=OfflineEmbedding(), min_size=0, **rule)
    assert parse(parser, CATS + FINANCE) == [CATS, FINANCE]


@pytest.mark.parametrize("rule", ["optimal", "percentile"])
def test_every_distinct_sentence_is_embedded_once_over_all_documents(rule: str) -> None:
    model = LetterEmbedding(embed_batch_size=16)
    parser = SemanticNodeParser(embed_model=model, rule=rule, max_size=200)
    texts = [PROSE, PROSE.replace("林", "李"), CATS, CATS]
    parse(parser, *texts)
    expected = {s.strip() for text in texts for s in parser.sentence_tokenizer(text)} - {""}
    assert Counter(model.asked) == Counter(expected)


@pytest.mark.parametrize("num_workers, at_once", [(None, 16), (3, 3)])
async def test_async_batches_run_side_by_side_and_embed_no_more(num_workers: int | None, at_once: int) -> None:
    class Slow(LetterEmbedding):
        async def _aget_text_embeddings(self, texts: list[str]) -> list[list[float]]:
            running.append(1)
            most.append(sum(running))
            await asyncio.sleep(0.01)
            running.append(-1)
            return self._get_text_embeddings(texts)

    running: list[int] = []
    most: list[int] = []
    text = "".join(f"第{number}句。" for number in range(40))
    parser = SemanticNodeParser(embed_model=Slow(embed_batch_size=2, num_workers=num_workers), max_size=200)
    nodes = await parser.aget_nodes_from_documents([Document(text=text)])
    assert [node.text for node in nodes] == parse(SemanticNodeParser(embed_model=LetterEmbedding(), max_size=200), text)
    assert max(most) == at_once
    assert max(Counter(parser.embed_model.asked).values()) == 1


def test_a_document_below_the_minimum_stays_whole() -> None:
    for rule in ({"rule": "percentile", "percentile": 50.0}, {"target_size": 200}, {}):
        parser = SemanticNodeParser(embed_model=LetterEmbedding(), min_size=150, max_size=400, **rule)
        assert parse(parser, CATS + FINANCE) == [CATS + FINANCE]


@pytest.mark.parametrize("rule", [{"rule": "percentile", "percentile": 60.0}, {"target_size": 90}, {}], ids=str)
def test_minimum_and_maximum_hold(rule: dict, sample_documents: list[Document]) -> None:
    parser = SemanticNodeParser(embed_model=LetterEmbedding(), min_size=40, max_size=160, **rule)
    sizes = [count_tokens(node.text) for node in parser.get_nodes_from_documents(sample_documents)]
    assert min(sizes) >= 40
    assert max(sizes) <= 160


@pytest.mark.parametrize("rule", ["optimal", "percentile"])
def test_identical_sentences_are_cut_by_size(rule: str) -> None:
    parser = SemanticNodeParser(embed_model=LetterEmbedding(), rule=rule, max_size=100)
    pieces = parse(parser, "这句话一模一样。" * 300)
    assert "".join(pieces) == "这句话一模一样。" * 300
    assert max(map(count_tokens, pieces)) <= 100


@pytest.mark.parametrize("fault", ["raise", "nan", "infinite", "huge", "dimension"])
@pytest.mark.parametrize("rule", ["optimal", "percentile"])
async def test_a_batch_without_usable_vectors_gives_one_warning_and_loses_nothing(rule: str, fault: str) -> None:
    text = CATS * 3 + "这里坏了。" + FINANCE * 3
    model = FaultyEmbedding(fault=fault, embed_batch_size=1)
    parser = SemanticNodeParser(embed_model=model, rule=rule, max_size=90)
    with pytest.warns(ChunkingPlusWarning, match="1 of 7 sentences") as caught:
        pieces = parse(parser, text)
    assert len(caught) == 1
    assert "".join(pieces) == text
    assert max(map(count_tokens, pieces)) <= 90
    with pytest.warns(ChunkingPlusWarning, match="1 of 7 sentences"):
        nodes = await parser.aget_nodes_from_documents([Document(id_="0", text=text)])
    assert [node.text for node in nodes] == pieces


@pytest.mark.parametrize("fault", ["nan", "huge", "dimension"])
def test_of_a_batch_only_the_sentences_without_usable_vectors_are_counted(fault: str) -> None:
    parser = SemanticNodeParser(embed_model=FaultyEmbedding(fault=fault, embed_batch_size=10), max_size=90)
    with pytest.warns(ChunkingPlusWarning, match="1 of 7 sentences"):
        parse(parser, CATS * 3 + "这里坏了。" + FINANCE * 3)


def test_zero_vectors_are_unknown_sentences_and_no_reason_to_warn() -> None:
    parser = SemanticNodeParser(embed_model=FaultyEmbedding(fault="zero", word="猫"), max_size=60)
    assert "".join(parse(parser, CATS + FINANCE)) == CATS + FINANCE


@pytest.mark.parametrize("fault", ["zero", "nan"])
def test_vectors_that_all_say_nothing_give_one_warning_and_cuts_by_size(fault: str) -> None:
    parser = SemanticNodeParser(embed_model=FaultyEmbedding(fault=fault, word="。"), max_size=60)
    with pytest.warns(ChunkingPlusWarning, match="6 of 6 sentences") as caught:
        assert "".join(parse(parser, CATS + FINANCE)) == CATS + FINANCE
    assert len(caught) == 1


async def test_an_embedder_that_never_answers_is_an_error() -> None:
    parser = SemanticNodeParser(embed_model=FaultyEmbedding(word="。"))
    with pytest.raises(EmbeddingError, match=r"every batch.*did not answer"):
        parse(parser, CATS)
    with pytest.raises(EmbeddingError, match=r"every batch.*did not answer"):
        await parser.aget_nodes_from_documents([Document(text=CATS)])


def test_an_embedder_that_answers_too_little_is_an_error() -> None:
    class Short(LetterEmbedding):
        def _get_text_embeddings(self, texts: list[str]) -> list[list[float]]:
            return super()._get_text_embeddings(texts)[1:]

    with pytest.raises(EmbeddingError, match="answered 3 texts with vectors of shape"):
        parse(SemanticNodeParser(embed_model=Short()), CATS)


def test_pickling_leaves_the_model_of_the_original_whole() -> None:
    model = OfflineEmbedding()
    parser = SemanticNodeParser(embed_model=model, max_size=100)
    expected = parse(parser, CATS + FINANCE)
    copy = pickle.loads(pickle.dumps(parser))
    assert parser.embed_model is model
    assert parse(copy, CATS + FINANCE) == parse(parser, CATS + FINANCE) == expected


@pytest.mark.parametrize(
    "options, message",
    [
        ({"max_size": 2}, r"max_size=2 is below 4"),
        ({"target_size": 2000}, r"target_size=2000 is outside \[1, max_size=1024\]"),
        ({"target_size": 100, "min_size": 101}, r"min_size=101 is outside \[0, 100\]"),
        ({"min_size": -1}, r"min_size=-1"),
        ({"rule": "percentile", "percentile": 0.0}, r"percentile=0.0 is outside \(0, 100\)"),
        ({"rule": "percentile", "percentile": 100}, r"percentile=100.0 is outside"),
        ({"rule": "percentile", "percentile": 150}, r"percentile=150.0 is outside"),
        ({"rule": "percentile", "percentile": float("nan")}, r"percentile=nan is outside"),
        ({"rule": "percentile", "target_size": 100}, r"target_size has no meaning"),
        ({"rule": "best"}, r"'optimal' or 'percentile'"),
        ({"embed_model": {"class_name": "X"}}, r"pass the model"),
        ({"embed_model": "offline"}, r"embed_model"),
    ],
)
def test_wrong_options_fail_at_construction(options: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        SemanticNodeParser(**{"embed_model": LetterEmbedding(), **options})


def test_float_percentiles_are_taken() -> None:
    assert SemanticNodeParser(embed_model=LetterEmbedding(), rule="percentile", percentile=97.5).percentile == 97.5
