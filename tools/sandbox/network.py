"""Network access of a session's commands. Each command has its own proxy address, so that requests can be
attributed."""

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
"""Maximum number of places reported per command."""
_MAX_COUNT_DIGITS = 4
_PYTHON = os.path.realpath(sys.executable)
TUNNEL = Path(__file__).parents[1] / "network" / "tunnel.py"
_SSH = shlex.join(("ssh", "-o", f"ProxyCommand={shlex.join((_PYTHON, '-I', '-S', str(TUNNEL)))} %h %p"))
"""Git's way to SSH hosts, since SSH ignores proxies in the environment."""


class Reach(Protocol):
    """Decides what the command of a call may reach, and asks the user if no rule applies."""

    @property
    def is_open(self) -> bool:
        """Whether rules allow every place."""

    @property
    def seconds_asked(self) -> float:
        """Total number of seconds spent asking the user so far."""

    async def refusal(self, place: "NetworkPlace") -> str:
        """Return why the command may not reach the place, or an empty string."""

    async def close(self) -> None:
        """Withdraw open questions."""


class NetworkAccess:
    """The network access of one command, for as long as any part of it runs."""

    def __init__(self, reach: Reach, namespace: "NetworkNamespace", address: str) -> None:
        self.reach = reach
        self.address = address
        self.noted = dict[str, str]()
        """Places that were refused or not reached, and why."""
        self._namespace = namespace

    async def refusal(self, place: "NetworkPlace") -> str:
        return await self.reach.refusal(place)

    def note(self, place: "NetworkPlace", why: str) -> None:
        if len(self.noted) < _MAX_NOTED_PLACES:
            self.noted[str(place)] = why

    def launch(self, launch: Launch) -> Launch:
        """Return the launch of bubblewrap inside the session's network namespace."""
        argv, held = self._namespace.nsenter_command(launch.argv)
        return Launch(argv, launch.environment, (*launch.descriptors, *held), launch.is_wrapped, launch.is_confined)

    def environment(self, before: Mapping[str, str]) -> dict[str, str]:
        """Return the environment with the proxy variables set."""
        proxy = f"http://{self.address}:{self._namespace.port}"
        names = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")
        found = {name: value for name, value in before.items() if not name.lower().endswith("_proxy")}
        found |= {each: proxy for name in names for each in (name, name.lower())} | {"NO_PROXY": HERE, "no_proxy": HERE}
        # npm otherwise prefers values in its files to the usual variables.
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
    """The network namespace shared by a session's commands, which can reach each other's servers."""

    def __init__(self, private: Sequence[str] = (), connect_to: "Connect | None" = None) -> None:
        """`private`: hosts on private networks that the user has listed. `connect_to` replaces the default way to
        connect."""
        self._private = private
        self._connect_to = connect_to
        self._accesses = dict[str, NetworkAccess]()
        self._count = 0
        self._opening: asyncio.Task[NetworkNamespace | None] | None = None
        self._proxy: ProxyServer | None = None

    async def access(self, reach: Reach) -> NetworkAccess | None:
        """Return the access for one command, or None if this system cannot restrict commands to places. The first call
        takes about 60 ms."""
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
        """The namespace, once a command has run in it."""
        opening = self._opening
        return opening.result() if opening is not None and opening.done() else None

    async def leave(self, access: NetworkAccess) -> None:
        """Release the access after the command has ended."""
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
        from ebbtide.tools.network.connection import connect  # noqa: PLC0415  # deferred: only needed when commands run
        from ebbtide.tools.network.proxy import ProxyServer  # noqa: PLC0415  # deferred: as above
        from ebbtide.tools.sandbox.network_namespace import NoNamespace, new_namespace  # noqa: PLC0415  # deferred: as above

        try:
            namespace = await asyncio.to_thread(new_namespace)
        except NoNamespace:
            return None
        self._proxy = ProxyServer(self._connect_to or partial(connect, private=self._private), self._accesses.get)
        await self._proxy.start(namespace.listener)
        return namespace
