"""Plans: one body, two drivers."""

from __future__ import annotations

import pytest

from llama_index_chunking_plus.core.plan import Plan, arun, run


class Ask:
    def __init__(self, question: int) -> None:
        self.question = question

    def run(self) -> int:
        if self.question < 0:
            raise ValueError("negative")
        return self.question * 2

    async def arun(self) -> int:
        return self.run()


def doubled(*questions: int) -> Plan[list[int]]:
    answers = []
    for question in questions:
        try:
            answers.append((yield Ask(question)))
        except ValueError:
            answers.append(-1)
    return answers


def careless() -> Plan[int]:
    return (yield Ask(-1))


async def test_both_drivers_give_the_answers_and_throw_failures_into_the_plan() -> None:
    assert run(doubled(1, -5, 3)) == await arun(doubled(1, -5, 3)) == [2, -1, 6]
    assert run(doubled()) == await arun(doubled()) == []


async def test_a_failure_that_the_plan_does_not_catch_reaches_the_caller() -> None:
    with pytest.raises(ValueError, match="negative"):
        run(careless())
    with pytest.raises(ValueError, match="negative"):
        await arun(careless())
