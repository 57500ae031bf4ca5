"""An examination: asks every server of a store what the doctor judges by, and has it judge. Nothing is written."""

from collections.abc import Callable
from typing import Any

import msgspec
from redis.exceptions import AuthenticationError, RedisError, ResponseError
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import TimeoutError as RedisTimeoutError

from todo_projection.diagnosis import Diagnosis
from todo_projection.doctor import diagnose
from todo_projection.facts import Facts, PrimaryFacts, Role
from todo_projection.probe import Probe
from todo_projection.settings import Settings
from todo_projection.standing import read_cluster, read_sentinels
from todo_projection.store import NoAnswer, reach
from todo_projection.wire import Wire
from todo_write.events import PARTITIONS_DEFAULT, Keys
from todo_write.log import Address, Client, LayoutMismatch, Location, locate

NODE_S = 3.0  # a server for one question; one of several may be frozen


async def examine(settings: Settings, *, user: str | None, role: Role | None) -> Diagnosis:
    """What ails the store of these settings; nothing is written. Raises NoAnswer when no server of it answers.

    Of a service whose primary is away sentinels tell.
    """
    location = locate(settings.redis_url)
    sentinels = await read_sentinels(location) if location.kind == "sentinel" else []

    async def read(client: Client, wire: Wire) -> tuple[Facts, list[Facts]]:
        keys, layout = await _keys(settings, client)
        number = client.address.rpartition("/")[2]
        database = int(number) if number.isdigit() else 0

        def probe(of: Wire) -> Probe:
            return Probe(of, keys, database=database, beat_ms=settings.beat_ms)

        given: dict[str, Any] = {"user": user, "role": role, "scheme": settings.redis_url.partition("://")[0]}
        more: dict[str, Any] = {"partitions_asked": settings.partitions, "layout": layout, "service": location.service}
        more["sentinels"] = sentinels
        if location.kind != "cluster":
            return await probe(wire).read(address=client.address, **given, **more), []
        more["cluster"] = found = await read_cluster(wire)
        nodes = [await _of_a_primary(location, probe, primary, given) for primary in found.primaries]
        answering = next((node for node in nodes if not node.silent), None)
        if answering is None:
            raise RedisError("no primary answers")
        whole = msgspec.structs.replace(answering, address=client.address, **more)
        return await probe(wire).read_namespace(whole), nodes

    try:
        return diagnose(*await reach(settings, read))
    except NoAnswer as failed:
        away = isinstance(failed.__cause__, OSError | RedisConnectionError | RedisTimeoutError)
        if not away or isinstance(failed.__cause__, AuthenticationError) or all(one.refused for one in sentinels):
            raise
        silent: dict[str, Any] = {"silent": str(failed.__cause__), "service": location.service, "sentinels": sentinels}
        return diagnose(Facts(address=str(location), namespace=settings.namespace, database=0, **silent))


async def _keys(settings: Settings, client: Client) -> tuple[Keys, str]:
    """Key names, and why these settings are none of the namespace, if so."""
    try:
        return await client.keys(create=False), ""
    except LayoutMismatch as mismatch:
        return Keys(settings.namespace), str(mismatch)
    except ResponseError:  # refused: rights or topology will say why
        pass
    except (RedisError, OSError):
        if client.nodes is None:
            raise
        # whichever primary is away, the others are asked
    return Keys(settings.namespace, settings.partitions or PARTITIONS_DEFAULT), ""


async def _of_a_primary(
    location: Location, probe: Callable[[Wire], Probe], primary: PrimaryFacts, given: dict[str, Any]
) -> Facts:
    host, _, port = primary.address.rpartition(":")
    node = Wire(location.at(Address(host.strip("[]"), int(port))), timeout_s=NODE_S)
    try:
        return await probe(node).read_server(address=primary.address, **given)
    except (RedisError, OSError) as error:
        silent = str(error) or type(error).__name__
        return Facts(address=primary.address, namespace="", database=0, silent=silent, replica=primary.replica)
    finally:
        await node.aclose()
