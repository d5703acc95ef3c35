"""The address on which a command may listen."""

from __future__ import annotations

import socket

import pytest

from sentune.cli.options import check_port
from sentune.errors import InvalidValue
from tests.servers import free_port


@pytest.mark.parametrize("host", ["no such host", "a" * 64])
def test_an_unknown_host_is_named(host: str) -> None:
    with pytest.raises(InvalidValue, match=r"--host: .* its address is unknown"):
        check_port(host, free_port())


def test_a_port_in_use_is_named() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(InvalidValue, match=f"--port: '127.0.0.1:{port}'"):
            check_port("127.0.0.1", port)
    check_port("127.0.0.1", free_port())


def test_an_address_of_ipv6_is_taken() -> None:
    try:
        with socket.socket(socket.AF_INET6) as probe:
            probe.bind(("::1", 0))
    except OSError:
        pytest.skip("this machine has no IPv6")
    check_port("::1", free_port())
