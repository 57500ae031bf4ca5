"""How appends end, counted where they are made, and told by the commands that keep running."""

import asyncio

import pytest
from redis.asyncio import Redis

from command import Command
from eventually import eventually
from proxy import Proxy
from scraped import Scraped, scrape
from servers import Server
from todo_projection.embedded import free_port
from todo_write.log import Client, LogRewound, NotSaved, OutcomeUnknown, SessionLog, connect


def endings(client: Client) -> dict[str, int]:
    return {ending: count for ending, count in client.tally.appends.items() if count}


async def test_an_append_is_counted_by_how_it_ended(client: Client, redis: Redis) -> None:
    log = SessionLog(client, "s")
    await log.append("note", {})
    await redis.delete((await client.keys()).log("s"))
    with pytest.raises(LogRewound):
        await log.append("note", {})
    assert endings(client) == {"appended": 1, "rewound": 1}


async def test_one_that_was_refused_and_one_without_an_answer_are_told_apart(
    own_server: Server, namespace: str, proxy: Proxy
) -> None:
    async with connect(proxy.url, namespace=namespace, append_budget_ms=300, append_attempt_ms=100) as client:
        log = SessionLog(client, "s")
        await log.append("note", {})
        proxy.silence()
        with pytest.raises(OutcomeUnknown):
            await log.append("note", {})
        proxy.resume()
        own_server.kill()
        with pytest.raises((NotSaved, OutcomeUnknown)):
            await SessionLog(client, "t").append("note", {})
        assert client.tally.appends["unknown"] >= 1
        assert client.tally.appends["not_saved"] == 1


@pytest.mark.parametrize("command", ["serve", "mcp"])
async def test_a_command_that_keeps_running_is_scraped_where_it_is_asked_to_be(
    redis_url: str, namespace: str, command: str
) -> None:
    port = free_port()
    run = Command("todo-write", TODO_REDIS_URL=redis_url, TODO_NAMESPACE=namespace)
    async with run.started(command, "--parallel", "--metrics", str(port)) as process:

        async def told() -> Scraped | None:
            try:
                return await asyncio.to_thread(scrape, port)
            except OSError:
                return None

        found = await eventually(told, within=30)
        assert found is not None
        assert found.value("todo_write_appends_total", outcome="rewound") == 0
        if command == "serve":
            assert process.stdin is not None
            process.stdin.write(b'{"id": 1, "session": "s", "type": "note", "data": {}}\n')

            async def counted() -> bool:
                answer = await told()
                return answer is not None and answer.value("todo_write_appends_total", outcome="appended") == 1

            await eventually(counted)
        process.terminate()
        await process.communicate()


async def test_an_address_that_is_taken_is_wrong_usage(redis_url: str, namespace: str) -> None:
    run = Command("todo-write", TODO_REDIS_URL=redis_url, TODO_NAMESPACE=namespace)
    for wrong, said in (("nowhere", "allowed: HOST:PORT"), (redis_url.partition("//")[2].partition("/")[0], "choose")):
        ended = await run("serve", "--parallel", "--metrics", wrong)
        assert (ended.code, "--metrics" in ended.err, said in ended.err) == (2, True, True)
