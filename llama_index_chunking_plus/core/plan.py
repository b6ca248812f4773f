"""Work that waits on others, written once for sync and async callers.

A plan is a generator that yields requests (embed these texts, parse these documents) and returns a result. `run`
answers each request on the spot, `arun` awaits it; the plan itself never knows which.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Generator
from dataclasses import dataclass
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


@dataclass(frozen=True)
class Call:
    """A request that is a call, and its own async form if it has one; without one it is awaited in a thread."""

    call: Callable[[], Any]
    async_call: Callable[[], Awaitable[Any]] | None = None

    def run(self) -> Any:
        """Answer at once."""
        return self.call()

    async def arun(self) -> Any:
        """Answer without blocking the event loop."""
        return await (_in_thread(self.call) if self.async_call is None else self.async_call())


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


def overrides(component: object, method: str, base: type) -> bool:
    """Whether the component's class defines the method itself; defaults often block the event loop, or do nothing."""
    return getattr(type(component), method) is not getattr(base, method)


async def _in_thread(call: Callable[[], Any]) -> Any:
    task = asyncio.ensure_future(asyncio.to_thread(call))
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        # a thread cannot be stopped: its writing must be over before anyone goes on
        await asyncio.gather(task, return_exceptions=True)
        raise
