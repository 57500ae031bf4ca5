"""A Redis for tests: in a container where Docker answers, else the embedded one."""

import asyncio
import gc
import logging
import threading
import warnings
from collections.abc import Generator
from concurrent.futures import Future
from contextlib import ExitStack, closing, contextmanager

from redis import Redis
from redis.backoff import NoBackoff
from redis.exceptions import RedisError
from redis.retry import Retry
from tenacity import retry, retry_if_exception_type, stop_after_delay, wait_fixed

from todo_projection.embedded import NoServer, embedded_server

IMAGE = "redis:8.0"
PORT = 6379
START_S = 20.0

logger = logging.getLogger(__name__)


@contextmanager
def redis_server(image: str = IMAGE) -> Generator[str]:
    """URL of an empty server that ends with this block; raises NoServer when there is neither kind."""
    with ExitStack() as stack:
        url = _container(image, stack)
        try:
            url = url or stack.enter_context(_embedded())
        except NoServer as error:
            raise NoServer(
                "no Redis for this run: neither a container nor an embedded server can be had. Install "
                "'todo-projection[testing]', or write a fixture todo_redis_url that gives the URL of one"
            ) from error
        yield url


def _container(image: str, stack: ExitStack) -> str | None:
    """URL of a server in a container, None where that can't be had; the log says why."""
    try:
        from docker.errors import DockerException
        from testcontainers.core.container import DockerContainer
        from testcontainers.core.docker_client import DockerClient
    except ImportError as error:
        _tell(error)
        return None
    with warnings.catch_warnings(action="ignore", category=ResourceWarning):
        try:
            with closing(DockerClient().client) as engine:
                engine.ping()
            container = stack.enter_context(DockerContainer(image).with_exposed_ports(PORT))
        except DockerException as error:
            gc.collect()  # the socket that docker leaves open when nobody answers, before a test is blamed for it
            _tell(error)
            return None
    host, port = container.get_container_host_ip(), int(container.get_exposed_port(PORT))
    _wait_until_it_answers(host, port)
    return f"redis://{host}:{port}/0"


def _tell(why: Exception) -> None:
    logger.info("no container for Redis: %s; taking the embedded server", why)


@retry(retry=retry_if_exception_type(RedisError), stop=stop_after_delay(START_S), wait=wait_fixed(0.05), reraise=True)
def _wait_until_it_answers(host: str, port: int) -> None:
    with Redis(host, port, socket_timeout=1, retry=Retry(NoBackoff(), 0)) as client:
        client.ping()


@contextmanager
def _embedded() -> Generator[str]:
    """The embedded server, kept by a thread with a loop of its own: it outlives the loop of any one test."""
    url: Future[str] = Future()
    over = threading.Event()

    async def keep() -> None:
        async with embedded_server() as started:
            url.set_result(started)
            await asyncio.to_thread(over.wait)

    def run() -> None:
        try:
            asyncio.run(keep())
        except BaseException as error:
            if url.done():
                raise
            url.set_exception(error)

    keeper = threading.Thread(target=run, name="todo-embedded-redis")
    keeper.start()
    try:
        yield url.result()
    finally:
        over.set()
        keeper.join()
