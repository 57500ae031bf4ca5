"""Server-sent events as bytes: one block an event, as browsers read them. Pure."""


def block(name: str, data: bytes, id: str | None = None) -> bytes:
    """One event; ``data`` is JSON, in which a line end can only be white space between two tokens.

    ``id`` is what a client sends as Last-Event-ID when it connects again; "" makes it forget it, None leaves it.
    """
    if b"\n" in data or b"\r" in data:
        data = data.replace(b"\r", b" ").replace(b"\n", b" ")
    head = f"event: {name}\n" if id is None else f"event: {name}\nid: {id}\n"
    return b"%bdata: %b\n\n" % (head.encode(), data)


def retry(ms: int) -> bytes:
    """How long a client waits (ms) before it connects again after a stream that broke off."""
    return b"retry: %d\n\n" % ms
