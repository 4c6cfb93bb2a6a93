"""Names that take long to look up, or that there are none of: with the system's lookup replaced."""

import asyncio
import socket
from collections.abc import Callable
from threading import Event
from typing import Any

import pytest

from ebbtide.tools.network.name_lookup import install_lookup_threads

ADDRESS = (socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", 80))


def looked_up(monkeypatch: pytest.MonkeyPatch, lookup: Callable[..., list[Any]], host: str = "a.test") -> list[Any]:
    async def work() -> list[Any]:
        install_lookup_threads(asyncio.get_running_loop())
        return await asyncio.get_running_loop().getaddrinfo(host, 80, type=socket.SOCK_STREAM)

    monkeypatch.setattr(socket, "getaddrinfo", lookup)
    return asyncio.run(work())


def test_what_is_found_is_what_the_system_says(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[object] = []

    def lookup(*given: object, **wanted: object) -> list[Any]:
        asked.append((given, wanted))
        return [ADDRESS]

    assert looked_up(monkeypatch, lookup) == [ADDRESS]
    assert asked == [(("a.test", 80), {"type": socket.SOCK_STREAM})]


def test_a_name_that_is_not_found_is_the_systems_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def lookup(*_: object, **__: object) -> list[Any]:
        raise socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")

    with pytest.raises(socket.gaierror, match="Temporary failure"):
        looked_up(monkeypatch, lookup)


def test_what_is_no_name_is_not_found(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(socket.gaierror, match="is not the name of a host"):
        looked_up(monkeypatch, socket.getaddrinfo, "a" * 70 + ".test")


def test_a_program_that_ends_waits_for_no_name_server(monkeypatch: pytest.MonkeyPatch) -> None:
    begun, released, ended = Event(), Event(), list[str]()

    def lookup(*_: object, **__: object) -> list[Any]:
        begun.set()
        ended.append("answered" if released.wait(20) else "not in 20 seconds")
        return [ADDRESS]

    async def work() -> None:
        install_lookup_threads(asyncio.get_running_loop())
        task = asyncio.create_task(asyncio.open_connection("a.test", 80))
        await asyncio.to_thread(begun.wait)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    monkeypatch.setattr(socket, "getaddrinfo", lookup)
    asyncio.run(work())
    assert ended == []
    released.set()


def test_lookups_that_hang_leave_threads_for_the_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    released = Event()

    def lookup(*_: object, **__: object) -> list[Any]:
        released.wait(20)
        return [ADDRESS]

    async def work() -> list[list[Any]]:
        loop = asyncio.get_running_loop()
        install_lookup_threads(loop)
        lookups = [asyncio.create_task(loop.getaddrinfo("a.test", 80)) for _ in range(100)]
        await asyncio.to_thread(released.set)
        return await asyncio.gather(*lookups)

    monkeypatch.setattr(socket, "getaddrinfo", lookup)
    assert asyncio.run(work()) == [[ADDRESS]] * 100
