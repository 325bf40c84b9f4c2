"""The port of the served lessons, also where two commands begin at the same moment."""

import os
import socket

import pytest

from lessons import serve


def bound():
    other = socket.socket()
    other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    other.bind((serve.HOST, 0))
    return other


def test_a_port_that_is_taken_is_left_to_whom_it_belongs(monkeypatch):
    with bound() as other:
        other.listen()
        port = other.getsockname()[1]
        monkeypatch.setattr(serve, "PORT", port)
        with serve.listening(None) as listener:
            assert listener.getsockname()[1] not in (0, port)
        with pytest.raises(ValueError, match=f"--port {port} on 127.0.0.1: Address already in use; take another"), \
                serve.listening(port):  # fmt: skip
            pass


@pytest.mark.skipif(os.name != "posix", reason="two programs bind one port on POSIX alone")
def test_two_that_bound_the_same_port_before_either_listened(monkeypatch):
    with bound() as other:
        port = other.getsockname()[1]

        class Slow(socket.socket):
            def bind(self, address):
                super().bind(address)
                other.listen()  # between the two steps of this one

        monkeypatch.setattr(serve, "PORT", port)
        monkeypatch.setattr(serve.socket, "socket", Slow)
        with serve.listening(None) as listener:
            assert listener.getsockname()[1] not in (0, port)
