"""Where the store is, as its URL says: one server, sentinels and a service, or the nodes of a cluster."""

import pytest

from todo_write.location import Address, locate


def test_a_url_of_one_server_is_left_as_it_is() -> None:
    for url in ("redis://me:p%40@example.org:7000/3?client_name=a", "rediss://example.org", "unix:///run/redis.sock"):
        location = locate(url)
        assert (location.kind, location.url, location.addresses) == ("server", url, ())


def test_sentinels_a_service_and_a_database() -> None:
    location = locate("redis+sentinel://me:p%40ss@a:1,b,[::1]:3/plans/2?client_name=x&sentinel_password=q%26")
    assert location.kind == "sentinel"
    assert location.addresses == (Address("a", 1), Address("b", 26379), Address("::1", 3))
    assert location.service == "plans"
    assert location.at(Address("c", 7)) == "redis://me:p%40ss@c:7/2?client_name=x"
    assert location.sentinel(Address("::1", 3)) == "redis://[::1]:3/0?password=q%26"
    assert str(location) == "sentinel a:1,b:26379,[::1]:3/plans/2"


def test_the_nodes_of_a_cluster() -> None:
    location = locate("redis+cluster://me:p@a,b:2")
    assert (location.kind, location.addresses) == ("cluster", (Address("a", 6379), Address("b", 2)))
    assert location.at(Address("c", 7)) == "redis://me:p@c:7/0"
    assert str(location) == "cluster a:6379,b:2"


@pytest.mark.parametrize("topology", ["sentinel", "cluster"])
def test_over_tls(topology: str) -> None:
    location = locate(f"rediss+{topology}://a/{'plans' if topology == 'sentinel' else ''}?ssl_ca_certs=%2Fca.pem")
    assert location.at(Address("c", 7)) == "rediss://c:7/0?ssl_ca_certs=%2Fca.pem"
    assert location.sentinel(Address("s", 8)) == "rediss://s:8/0?ssl_ca_certs=%2Fca.pem"


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("redis+sentinel://a:1", "service is missing"),
        ("redis+sentinel:///plans", "a host is missing"),
        ("redis+sentinel://a:1/plans/x", "database 'x'"),
        ("redis+cluster://a:1/2", "no database but 0"),
        ("redis+cluster://a:1?db=2", "no database but 0"),
        ("redis+cluster://a:1:2", "can't be read"),
        ("redis+cluster://a:99999", "can't be read"),
        ("redis+cluster://me:p/w@a:1", "%2F"),
        ("redis+cluster://me:p?w@a:1", "%3F"),
    ],
)
def test_what_can_not_be_read_is_said_without_the_password(url: str, why: str) -> None:
    with pytest.raises(ValueError, match=why) as refused:
        locate(url)
    assert "p/w" not in str(refused.value)
    assert "p?w" not in str(refused.value)
