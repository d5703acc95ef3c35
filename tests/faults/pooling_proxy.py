"""A proxy that pools PostgreSQL's connections by transaction, as PgBouncer can."""

from __future__ import annotations

import socket
import socketserver
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager

ENCRYPTION = (80877103, 80877104)
"""Codes by which a client asks for TLS and for GSSAPI; the proxy answers with no."""


def _read(connection: socket.socket, size: int) -> bytes:
    content = b""
    while len(content) < size:
        part = connection.recv(size - len(content))
        if not part:
            raise EOFError
        content += part
    return content


def _message(connection: socket.socket) -> bytes:
    """One message: its type, its length, its content."""
    head = _read(connection, 5)
    return head + _read(connection, struct.unpack(">I", head[1:])[0] - 4)


class _Client(socketserver.BaseRequestHandler):
    """A client: it logs in over a server's connection of its own, which then joins the pool."""

    server: _Proxy

    def handle(self) -> None:
        try:
            self._log_in()
            while True:
                self._transaction()
        except (EOFError, OSError):
            return

    def _log_in(self) -> None:
        while True:
            head = _read(self.request, 8)
            size, code = struct.unpack(">II", head)
            if code not in ENCRYPTION:
                break
            self.request.sendall(b"N")
        upstream = socket.create_connection(("127.0.0.1", self.server.upstream))
        upstream.sendall(head + _read(self.request, size - 8))
        while True:
            said = _message(upstream)
            if said[:1] == b"Z":
                break
            self.request.sendall(said)
            if said[:1] == b"R" and said[5:9] in (b"\0\0\0\x0a", b"\0\0\0\x0b"):  # SASL asks
                upstream.sendall(_message(self.request))
        # idle before the client is told: its next transaction, on any connection, may take this one
        self.server.idle.append(upstream)
        self.request.sendall(said)

    def _transaction(self) -> None:
        """Pass a transaction to the connection that was used last of those that are idle."""
        asked = _message(self.request)
        if asked[:1] == b"X":
            raise EOFError
        upstream = self.server.idle.pop()
        while True:
            upstream.sendall(asked)
            while (said := _message(upstream))[:1] != b"Z":
                self.request.sendall(said)
            if said[5:] == b"I":  # no transaction is open
                break
            self.request.sendall(said)
            asked = _message(self.request)
        self.server.idle.append(upstream)
        self.request.sendall(said)


class _Proxy(socketserver.ThreadingTCPServer):
    daemon_threads = True

    def __init__(self, upstream: int) -> None:
        self.upstream, self.idle = upstream, list[socket.socket]()
        super().__init__(("127.0.0.1", 0), _Client)


@contextmanager
def transaction_pooling(upstream: int) -> Iterator[int]:
    """The port of a proxy to a port of this machine, up while the block runs."""
    with _Proxy(upstream) as proxy:
        thread = threading.Thread(target=proxy.serve_forever, daemon=True)
        thread.start()
        try:
            yield int(proxy.server_address[1])
        finally:
            proxy.shutdown()
            thread.join()
            for connection in proxy.idle:
                connection.close()
