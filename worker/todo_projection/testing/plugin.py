"""Fixtures for pytest, found by entry point: the run of anybody who asks for none of them pays nothing."""

from collections.abc import AsyncGenerator, Callable, Generator
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, TypeVar

import pytest

F = TypeVar("F", bound=Callable[..., Any])

if TYPE_CHECKING:
    from todo_projection.testing.kit import Kit
    from todo_projection.unit import Unit


def fixture(function: F) -> F:
    """As pytest-asyncio's, where it is installed; where not, another plugin may care for it, as that of anyio does."""
    asyncio: Any = import_module("pytest_asyncio") if find_spec("pytest_asyncio") else pytest
    made: F = asyncio.fixture(function)
    return made


@pytest.fixture(scope="session")
def todo_redis_url() -> "Generator[str]":
    """URL of a Redis for this run: a container, else the embedded server. Give your own by a fixture of this name."""
    from todo_projection.testing.server import redis_server

    with redis_server() as url:
        yield url


@pytest.fixture
def todo_units() -> "tuple[Unit, ...]":
    """The units the kit's worker mounts: the installed ones. Give your own by a fixture of this name."""
    from todo_projection.unit import mounted_units

    return mounted_units()


@fixture
async def todo_kit(todo_redis_url: str, todo_units: "tuple[Unit, ...]") -> "AsyncGenerator[Kit]":
    """A running projection under a namespace of its own; see ``Kit``."""
    from todo_projection.testing.kit import open_kit

    async with open_kit(todo_redis_url, todo_units) as kit:
        yield kit
