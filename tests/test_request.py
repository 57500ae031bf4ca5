"""A line of todo-write serve, read."""

import pytest

from todo_write.request import Append, BadLine, Call, read_request


def test_a_request_is_read_as_it_stands() -> None:
    line = b'{"id": 1, "session": "s1", "type": "x", "data": {"a": 1.10, "b" :  [1e2]}}'
    request = read_request(line)
    assert isinstance(request, Append)
    assert bytes(request.data) == b'{"a": 1.10, "b" :  [1e2]}'
    assert read_request(b'{"id": 1, "call": 0}', "s1") == Call(1, "s1", 0)
    with pytest.raises(BadLine):
        read_request(b"")
