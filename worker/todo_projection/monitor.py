"""The monitor: a small HTTP server beside a worker that says how it is, also when the worker itself hangs.

In a thread of its own, so that a loop which never comes round is told as such, instead of by silence.
"""

import asyncio
import json
import time
from collections.abc import AsyncGenerator, Callable, Generator, Mapping
from concurrent.futures import TimeoutError as NoResult
from contextlib import asynccontextmanager, contextmanager
from http.server import BaseHTTPRequestHandler
from socket import AF_INET, AF_INET6
from socketserver import TCPServer, ThreadingMixIn
from threading import Thread

from todo_projection.beats import BEATS_MISSED_MAX
from todo_projection.cluster import open_wire
from todo_projection.metrics import CONTENT_TYPE, WHOLE, WORKER, families, text
from todo_projection.settings import Settings
from todo_projection.tally import Tally
from todo_projection.vitals import ANSWER_S, Pulse, Vitals
from todo_write.log import connect

STEP_S_MAX = 30.0  # a step that takes long says so page by page; the longest wait within one is 13 s
CLIENT_S = 5.0

Answer = tuple[int, str, bytes]


class Health:
    """Whether a worker lives, and whether it is ready, by its tally; an empty list says yes.

    How much waits is no part of either: a worker behind its work must not be killed for it.
    """

    def __init__(self, tally: Tally, *, beat_ms: int, step_s_max: float = STEP_S_MAX) -> None:
        self._tally = tally
        self._beat_s_max = beat_ms * BEATS_MISSED_MAX / 1000
        self._step_s_max = step_s_max

    def live(self) -> list[str]:
        """What is wrong if its loop does not come round."""
        age_s = time.monotonic() - self._tally.stepped_at
        return [f"no step for {age_s:.0f} s: it hangs"] if age_s > self._step_s_max else []

    def ready(self) -> list[str]:
        """What is wrong if redis does not take its beat, which is a script."""
        at = self._tally.beaten_at
        if at is None:
            return ["redis has not taken a beat yet"]
        age_s = time.monotonic() - at
        return [f"redis has taken no beat for {age_s:.0f} s"] if age_s > self._beat_s_max else []


class Monitor:
    """Answers ``/livez``, ``/readyz`` and ``/metrics``."""

    def __init__(self, tally: Tally, health: Health, pulse: Pulse, loop: asyncio.AbstractEventLoop) -> None:
        self._tally = tally
        self._pulse = pulse
        self._loop = loop
        self.paths: Mapping[str, Callable[[], Answer]] = {
            "/livez": lambda: _told(health.live()),
            "/readyz": lambda: _told(health.live() + health.ready()),
            "/metrics": self._metrics,
        }

    @contextmanager
    def listening(self, host: str, port: int) -> Generator[int]:
        """Answer while the block runs, at the port given; raises OSError naming the address."""
        try:
            server = _server(host, port, self.paths)
        except OSError as error:
            raise OSError(error.errno, f"can't listen on {host}:{port}: {error.strerror}") from error
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.1}, name="monitor", daemon=True)
        thread.start()
        try:
            yield server.server_address[1]
        finally:
            server.shutdown()
            server.server_close()
            thread.join()

    def _metrics(self) -> Answer:
        return 200, CONTENT_TYPE, text(families(WORKER, self._tally), families(WHOLE, self._take()))

    def _take(self) -> Vitals:
        asked = asyncio.run_coroutine_threadsafe(self._pulse.take(), self._loop)
        try:
            return asked.result(ANSWER_S + 1)
        except (NoResult, RuntimeError):  # the loop hangs, or is about to end
            asked.cancel()
            return Vitals()


@asynccontextmanager
async def monitoring(tally: Tally, settings: Settings) -> AsyncGenerator[None]:
    """Answer for a worker of this loop while the block runs, over connections of its own; raises OSError."""
    client, wire = connect(settings), open_wire(settings.redis_url, timeout_s=ANSWER_S)
    health = Health(tally, beat_ms=settings.beat_ms)
    monitor = Monitor(tally, health, Pulse(client, wire, beat_ms=settings.beat_ms), asyncio.get_running_loop())
    try:
        with monitor.listening(settings.metrics_host, settings.metrics_port):
            yield
    finally:
        await wire.aclose()
        await client.aclose()


def _told(problems: list[str], status: int = 503) -> Answer:
    body = json.dumps({"ok": not problems, "problems": problems}).encode()
    return status if problems else 200, "application/json", body


def _server(host: str, port: int, paths: Mapping[str, Callable[[], Answer]]) -> TCPServer:
    class Handler(BaseHTTPRequestHandler):
        timeout = CLIENT_S  # a client that asks for nothing keeps no thread

        def do_GET(self) -> None:
            answer = paths.get(self.path.partition("?")[0])
            status, kind, body = _told([f"there is {', '.join(paths)}"], 404) if answer is None else answer()
            self.send_response_only(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """Nothing: a scrape is no news."""

    class Server(ThreadingMixIn, TCPServer):  # http.server's own looks its host up in DNS
        address_family = AF_INET6 if ":" in host else AF_INET
        allow_reuse_address = True
        daemon_threads = True
        block_on_close = False
        request_queue_size = 64

        def handle_error(self, request: object, client_address: object) -> None:
            """Nothing: a client that went away is no news either."""

    return Server((host, port), Handler)
