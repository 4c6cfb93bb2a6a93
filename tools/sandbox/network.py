"""What commands of a session reach of the network: each has an address of the proxy for itself, so that it is known
whose wish a request is."""

import asyncio
import os
import shlex
import sys
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from ebbtide.tools.process.shell import Launch

if TYPE_CHECKING:  # types only: sessions that run no command load nothing of it
    from ebbtide.tools.network.places import NetworkPlace
    from ebbtide.tools.network.proxy import Connect, ProxyServer
    from ebbtide.tools.sandbox.network_namespace import NetworkNamespace

HERE = "localhost,.localhost,127.0.0.1,127.0.0.0/8,0.0.0.0,::1"
_MAX_NOTED_PLACES = 8
"""Places that are told of one command."""
_MAX_COUNT_DIGITS = 4
_PYTHON = os.path.realpath(sys.executable)
TUNNEL = Path(__file__).parents[1] / "network" / "tunnel.py"
_SSH = shlex.join(("ssh", "-o", f"ProxyCommand={shlex.join((_PYTHON, '-I', '-S', str(TUNNEL)))} %h %p"))
"""Git's way to hosts by SSH, which knows no proxies of the environment."""


class Reach(Protocol):
    """Says what one call's command may reach, and asks the user where rules do not."""

    @property
    def is_open(self) -> bool:
        """Whether rules open every place."""

    @property
    def seconds_asked(self) -> float:
        """For how long the user was, or is, asked."""

    async def refusal(self, place: "NetworkPlace") -> str:
        """Why the command may not reach it; nothing where it may."""

    async def close(self) -> None:
        """Withdraws what is still asked."""


class NetworkAccess:
    """That of one command, for as long as anything of it runs."""

    def __init__(self, reach: Reach, namespace: "NetworkNamespace", address: str) -> None:
        self.reach = reach
        self.address = address
        self.noted = dict[str, str]()
        """What was refused or not reached, and why."""
        self._namespace = namespace

    async def refusal(self, place: "NetworkPlace") -> str:
        return await self.reach.refusal(place)

    def note(self, place: "NetworkPlace", why: str) -> None:
        if len(self.noted) < _MAX_NOTED_PLACES:
            self.noted[str(place)] = why

    def launch(self, launch: Launch) -> Launch:
        """Bubblewrap's own launch, in the network of the session."""
        argv, held = self._namespace.nsenter_command(launch.argv)
        return Launch(argv, launch.environment, (*launch.descriptors, *held), launch.is_wrapped, launch.is_confined)

    def environment(self, before: Mapping[str, str]) -> dict[str, str]:
        """Variables that lead to the proxy, for the programs that know such."""
        proxy = f"http://{self.address}:{self._namespace.port}"
        names = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")
        found = {name: value for name, value in before.items() if not name.lower().endswith("_proxy")}
        found |= {each: proxy for name in names for each in (name, name.lower())} | {"NO_PROXY": HERE, "no_proxy": HERE}
        # npm takes these from its files otherwise, before the usual variables.
        found |= {"npm_config_proxy": proxy, "npm_config_https_proxy": proxy, "npm_config_noproxy": HERE}
        written = found.get("GIT_CONFIG_COUNT", "")  # a hook of the project may have set it
        count = int(written) if written.isdecimal() and len(written) < _MAX_COUNT_DIGITS else 0
        found |= {
            "NODE_USE_ENV_PROXY": "1",
            "GIT_CONFIG_COUNT": str(count + 1),
            f"GIT_CONFIG_KEY_{count}": "http.proxy",
            f"GIT_CONFIG_VALUE_{count}": proxy,
        }
        return found if "GIT_SSH" in found else {"GIT_SSH_COMMAND": _SSH} | found


class SessionNetwork:
    """The network that a session's commands share: servers that one of them starts are reached by the others."""

    def __init__(self, private: Sequence[str] = (), connect_to: "Connect | None" = None) -> None:
        """`private`: hosts on private networks that the user has named; `connect_to`: in place of the usual way."""
        self._private = private
        self._connect_to = connect_to
        self._accesses = dict[str, NetworkAccess]()
        self._count = 0
        self._opening: asyncio.Task[NetworkNamespace | None] | None = None
        self._proxy: ProxyServer | None = None

    async def access(self, reach: Reach) -> NetworkAccess | None:
        """For one command; None where this system cannot hold commands to places. The first waits some 60 ms."""
        if self._opening is None:
            self._opening = asyncio.create_task(self._open_namespace())
        namespace = await asyncio.shield(self._opening)
        if namespace is None:
            return None
        self._count += 1
        address = f"127.77.{self._count // 250 % 250 + 1}.{self._count % 250 + 1}"
        made = self._accesses[address] = NetworkAccess(reach, namespace, address)
        return made

    @property
    def namespace(self) -> "NetworkNamespace | None":
        """Once a command has run in it."""
        opening = self._opening
        return opening.result() if opening is not None and opening.done() else None

    async def leave(self, access: NetworkAccess) -> None:
        """Nothing of the command runs any more."""
        self._accesses.pop(access.address, None)
        await access.reach.close()

    async def close(self) -> None:
        if self._opening is None:
            return
        namespace = await self._opening
        if self._proxy is not None:
            await self._proxy.close()
        for access in [*self._accesses.values()]:
            await self.leave(access)
        if namespace is not None:
            namespace.close()

    async def _open_namespace(self) -> "NetworkNamespace | None":
        from ebbtide.tools.network.connection import connect  # noqa: PLC0415  # deferred: some sessions run no command
        from ebbtide.tools.network.proxy import ProxyServer  # noqa: PLC0415  # deferred: as above
        from ebbtide.tools.sandbox.network_namespace import NoNamespace, new_namespace  # noqa: PLC0415  # deferred: as above

        try:
            namespace = await asyncio.to_thread(new_namespace)
        except NoNamespace:
            return None
        self._proxy = ProxyServer(self._connect_to or partial(connect, private=self._private), self._accesses.get)
        await self._proxy.start(namespace.listener)
        return namespace
