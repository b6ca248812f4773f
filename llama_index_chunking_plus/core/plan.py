"""Work that waits on others, written once for sync and async callers.

A plan is a generator that yields requests (embed these texts, parse these documents) and returns a result. `run`
answers each request on the spot, `arun` awaits it; the plan itself never knows which.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, Protocol, TypeVar

T = TypeVar("T")


class Request(Protocol):
    """One thing that a plan waits for."""

    def run(self) -> Any:
        """The answer, blocking."""
        ...

    async def arun(self) -> Any:
        """The answer, awaited."""
        ...


Plan = Generator[Request, Any, T]


def run(plan: Plan[T]) -> T:
    """The result of the plan, its requests answered one after another; what fails is thrown into the plan."""
    reply: Any = None
    failure: Exception | None = None
    while True:
        try:
            request = _advance(plan, reply, failure)
        except StopIteration as finished:
            return finished.value  # type: ignore[no-any-return]
        reply, failure = None, None
        try:
            reply = request.run()
        except Exception as error:  # noqa: BLE001  the plan decides what a failure means
            failure = error


async def arun(plan: Plan[T]) -> T:
    """The result of the plan, its requests awaited one after another; what fails is thrown into the plan."""
    reply: Any = None
    failure: Exception | None = None
    while True:
        try:
            request = _advance(plan, reply, failure)
        except StopIteration as finished:
            return finished.value  # type: ignore[no-any-return]
        reply, failure = None, None
        try:
            reply = await request.arun()
        except Exception as error:  # noqa: BLE001  the plan decides what a failure means
            failure = error


def _advance(plan: Plan[T], reply: Any, failure: Exception | None) -> Request:
    return plan.send(reply) if failure is None else plan.throw(failure)
