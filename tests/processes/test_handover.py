import asyncio
import socket

import pytest

from segue.processes.handover import Acceptor, receive
from segue.server.transport.listen import bind
from tests.support.waiting import PATIENCE_S

pytestmark = pytest.mark.skipif(
    not hasattr(socket, "send_fds"), reason="connections cannot be passed on here"
)


class Taker:
    """A process's end of the handover; here in the same program."""

    def __init__(self) -> None:
        self.ours, theirs = socket.socketpair()
        self._theirs = theirs
        self.taken: list[socket.socket] = []
        self.changed = asyncio.Event()
        receive(theirs, self._take)

    def _take(self, sock: socket.socket) -> None:
        self.taken.append(sock)
        self.changed.set()

    async def has(self, count: int) -> None:
        async with asyncio.timeout(PATIENCE_S):
            while len(self.taken) < count:
                self.changed.clear()
                await self.changed.wait()
        assert len(self.taken) == count

    def die(self) -> None:
        asyncio.get_running_loop().remove_reader(self._theirs)
        self._theirs.close()

    def close(self) -> None:
        self.die()
        for sock in (self.ours, *self.taken):
            sock.close()


def close(dealer: Acceptor, clients: list[socket.socket], takers: list[Taker]) -> None:
    dealer.close()
    for client in clients:
        client.close()
    for taker in takers:
        taker.close()


def connect(listener: socket.socket) -> socket.socket:
    return socket.create_connection(listener.getsockname(), timeout=PATIENCE_S)


def test_connections_are_handed_out_in_turn() -> None:
    async def main() -> None:
        listener = bind("127.0.0.1", 0)
        dealer, takers = Acceptor(listener), [Taker(), Taker(), Taker()]
        for taker in takers:
            dealer.add(taker.ours)
        clients = [connect(listener) for _ in range(9)]
        for taker in takers:
            await taker.has(3)
        sent = {client.getsockname() for client in clients}
        assert {sock.getpeername() for taker in takers for sock in taker.taken} == sent
        takers[0].taken[0].sendall(b"hello")
        greeted = [
            client for client in clients if client.getsockname() == takers[0].taken[0].getpeername()
        ]
        assert greeted[0].recv(5) == b"hello"
        close(dealer, clients, takers)

    asyncio.run(main())


def test_nobody_is_refused_while_no_process_is_up() -> None:
    """The connection waits until one is; and one that left gets no more."""

    async def main() -> None:
        listener = bind("127.0.0.1", 0)
        dealer = Acceptor(listener)
        clients = [connect(listener)]
        first = Taker()
        dealer.add(first.ours)
        await first.has(1)
        dealer.remove(first.ours)
        clients.append(connect(listener))
        second = Taker()
        dealer.add(second.ours)
        await second.has(1)
        assert len(first.taken) == 1
        close(dealer, clients, [first, second])

    asyncio.run(main())


def test_a_process_that_died_is_passed_over() -> None:
    async def main() -> None:
        listener = bind("127.0.0.1", 0)
        dealer, dead, alive = Acceptor(listener), Taker(), Taker()
        dealer.add(dead.ours)
        dealer.add(alive.ours)
        dead.die()
        clients = [connect(listener) for _ in range(4)]
        await alive.has(4)
        close(dealer, clients, [alive])
        dead.ours.close()

    asyncio.run(main())


def test_none_is_lost_while_every_process_is_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    """The system holds some hundred for a process that is busy; those beyond were closed without a word."""
    send_fds = socket.send_fds

    async def main() -> None:
        listener = bind("127.0.0.1", 0)
        dealer, takers = Acceptor(listener), [Taker(), Taker()]
        is_refused = asyncio.Event()

        def refuse(*_: object) -> None:
            is_refused.set()
            raise BlockingIOError

        monkeypatch.setattr(socket, "send_fds", refuse)
        for taker in takers:
            dealer.add(taker.ours)
        clients = [connect(listener) for _ in range(4)]
        async with asyncio.timeout(PATIENCE_S):
            await is_refused.wait()
        monkeypatch.setattr(socket, "send_fds", send_fds)
        for taker in takers:
            await taker.has(2)
        close(dealer, clients, takers)

    asyncio.run(main())


def test_a_connection_that_nobody_took_ends_with_the_server(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def main() -> None:
        listener = bind("127.0.0.1", 0)
        dealer, taker = Acceptor(listener), Taker()
        is_refused = asyncio.Event()

        def refuse(*_: object) -> None:
            is_refused.set()
            raise BlockingIOError

        monkeypatch.setattr(socket, "send_fds", refuse)
        dealer.add(taker.ours)
        client = connect(listener)
        async with asyncio.timeout(PATIENCE_S):
            await is_refused.wait()
        dealer.close()
        assert client.recv(1) == b""
        close(dealer, [client], [taker])

    asyncio.run(main())
