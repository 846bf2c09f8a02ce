"""Whether a Docker Engine answers at an address; one request, no SDK, so that it costs milliseconds."""

from __future__ import annotations

import http.client
import socket
from urllib.parse import urlsplit


def answers(host: str, timeout: float = 3.0) -> bool:
    """True when `GET /_ping` at this DOCKER_HOST is answered with 200."""
    connection = _connection(host, timeout)
    try:
        connection.request("GET", "/_ping")
        return connection.getresponse().status == 200
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def _connection(host: str, timeout: float) -> http.client.HTTPConnection:
    parts = urlsplit(host)
    if parts.scheme == "unix":
        return _UnixConnection(parts.path, timeout)
    return http.client.HTTPConnection(parts.hostname or "localhost", parts.port or 2375, timeout=timeout)


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: str, timeout: float) -> None:
        super().__init__("localhost", timeout=timeout)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)
