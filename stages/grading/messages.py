"""The wire format between the pool and its workers: four bytes of length (big-endian), then that much JSON."""

import json
from collections.abc import Callable

_HEADER_BYTES = 4


def encode(message: dict) -> bytes:
    body = json.dumps(message).encode("ascii")
    return len(body).to_bytes(_HEADER_BYTES, "big") + body


def decode(read: Callable[[int], bytes]) -> dict | None:
    """The next message from a source that gives up to n bytes a call; None at its end or in a message cut short."""
    header = _exactly(read, _HEADER_BYTES)
    if header is None:
        return None
    body = _exactly(read, int.from_bytes(header, "big"))
    return None if body is None else json.loads(body)


def _exactly(read: Callable[[int], bytes], size: int) -> bytes | None:
    data = b""
    while len(data) < size:
        piece = read(size - len(data))
        if not piece:
            return None
        data += piece
    return data
