"""The gateway's ``/metrics``: what its clients get, and how the whole is."""

from collections.abc import Sequence

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from todo_projection.metrics import CONTENT_TYPE, WHOLE, Figure, families, text
from todo_projection.routes import Parts
from todo_projection.vitals import Pulse

GATEWAY: Sequence[Figure[Parts]] = (
    Figure("todo_gateway_open_streams", "gauge", "Streams that are open now.", lambda parts: len(parts.streams)),
    Figure("todo_gateway_streams_total", "counter", "Streams opened.", lambda parts: parts.streams.opened),
    Figure(
        "todo_gateway_slow_disconnects_total",
        "counter",
        "Clients cut off because they did not read.",
        lambda parts: parts.streams.cut,
    ),
    Figure(
        "todo_gateway_frames_total",
        "counter",
        "Frames that came from redis, each counted once however many clients want it.",
        lambda parts: parts.subscriber.views.frames,
    ),
    Figure(
        "todo_gateway_blocks_total",
        "counter",
        "What was sent to clients: snapshots, projections, rows, heartbeats and all else.",
        lambda parts: parts.streams.blocks,
    ),
    Figure(
        "todo_gateway_skipped_total",
        "counter",
        "Updates that a slow client was spared, since a newer one was there.",
        lambda parts: parts.subscriber.views.skipped,
    ),
    Figure(
        "todo_gateway_resyncs_total",
        "counter",
        "Rows read again because something was lost or in doubt.",
        lambda parts: parts.subscriber.views.resyncs,
    ),
    Figure(
        "todo_gateway_delivery_seconds",
        "histogram",
        "From an event's time, by its writer's clock, to its value on the way to a client, by this machine's.",
        lambda parts: parts.streams.delivery_s,
    ),
    Figure(
        "todo_gateway_delivery_alive",
        "gauge",
        "1 if the canary's events come here as frames, 0 if not; left out while no canary sings or redis is away.",
        lambda parts: None if parts.canary.alive is None else int(parts.canary.alive),
    ),
    Figure(
        "todo_gateway_canary_age_seconds",
        "gauge",
        "For how long no canary has sung, by the server's clock; left out where none ever has, or redis is away.",
        lambda parts: parts.canary.age_s,
    ),
    Figure(
        "todo_gateway_canary_seconds",
        "histogram",
        "From the canary's append to its frame here, both by the server's clock.",
        lambda parts: parts.canary.delivery_s,
    ),
)


def metrics_routes(*, beat_ms: int) -> Sequence[BaseRoute]:
    """Further routes for ``application``."""
    pulses: list[Pulse] = []

    async def metrics(request: Request) -> Response:
        parts: Parts = request.app.state.parts
        if not pulses:
            pulses.append(Pulse(parts.client, parts.wire, beat_ms=beat_ms))
        vitals = await pulses[0].take()
        return Response(text(families(GATEWAY, parts), families(WHOLE, vitals)), media_type=CONTENT_TYPE)

    return [Route("/metrics", metrics)]
