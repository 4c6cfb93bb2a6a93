"""Network access of a session's commands. Each command uses a different proxy address, so that the proxy knows which
command a request comes from."""

import asyncio
import os
import shlex
import sys
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from ebbtide.tools import network, sandbox
from ebbtide.tools.process.shell import Launch

if TYPE_CHECKING:  # imported for types only, so that sessions without commands load none of it
    from ebbtide.tools.network.destinations import NetworkDestination
    from ebbtide.tools.network.proxy import Connect, ProxyServer
    from ebbtide.tools.sandbox.network_namespace import NetworkNamespace

LOOPBACK_HOSTS = "localhost,.localhost,127.0.0.1,127.0.0.0/8,0.0.0.0,::1"
_MAX_NOTED_FAILURES = 8
"""Maximum number of failures reported for a command."""
_MAX_COUNT_DIGITS = 4
_PYTHON = os.path.realpath(sys.executable)
TUNNEL_PROGRAM = Path(__file__).parents[1] / "network" / "tunnel.py"
_SSH_COMMAND = shlex.join(("ssh", "-o", f"ProxyCommand={shlex.join((_PYTHON, '-I', '-S', str(TUNNEL_PROGRAM)))} %h %p"))
"""The command with which Git reaches SSH hosts. It is needed because SSH ignores proxies set in the environment."""


class NetworkPolicy(Protocol):
    """Decides which hosts a command may connect to; asks the user if no rule applies."""

    @property
    def allows_all_hosts(self) -> bool:
        """Whether the rules allow connecting to every host."""

    @property
    def answer_wait_seconds(self) -> float:
        """Total time spent waiting for the user's answers so far, in seconds."""

    async def refusal_reason(self, destination: "NetworkDestination") -> str:
        """Return why the command is not allowed to reach the destination; empty if it is allowed."""

    async def close(self) -> None:
        """Withdraw questions that the user has not answered."""


class NetworkAccess:
    """The network access of one command, until its last process ends."""

    def __init__(self, policy: NetworkPolicy, namespace: "NetworkNamespace", address: str) -> None:
        self.policy = policy
        self.address = address
        self.failures = dict[str, str]()
        """Destinations that were refused or could not be reached, each with the reason."""
        self._namespace = namespace

    async def refusal_reason(self, destination: "NetworkDestination") -> str:
        return await self.policy.refusal_reason(destination)

    def record_failure(self, destination: "NetworkDestination", reason: str) -> None:
        if len(self.failures) < _MAX_NOTED_FAILURES:
            self.failures[str(destination)] = reason

    def wrap_launch(self, launch: Launch) -> Launch:
        """Change the launch so that it runs bubblewrap inside the session's network namespace."""
        argv, descriptors = self._namespace.nsenter_command(launch.argv)
        return Launch(
            argv, launch.environment, (*launch.descriptors, *descriptors), launch.is_wrapped, launch.is_sandboxed
        )

    def add_proxy_variables(self, environment: Mapping[str, str]) -> dict[str, str]:
        """Return the environment with the proxy variables set."""
        proxy = f"http://{self.address}:{self._namespace.port}"
        names = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")
        variables = {name: value for name, value in environment.items() if not name.lower().endswith("_proxy")}
        variables |= {variant: proxy for name in names for variant in (name, name.lower())} | {
            "NO_PROXY": LOOPBACK_HOSTS,
            "no_proxy": LOOPBACK_HOSTS,
        }
        # npm prefers the proxies in its settings files to the usual variables, but not to these.
        variables |= {"npm_config_proxy": proxy, "npm_config_https_proxy": proxy, "npm_config_noproxy": LOOPBACK_HOSTS}
        count_text = variables.get("GIT_CONFIG_COUNT", "")  # may be set by a hook of the project
        setting_count = int(count_text) if count_text.isdecimal() and len(count_text) < _MAX_COUNT_DIGITS else 0
        variables |= {
            "NODE_USE_ENV_PROXY": "1",
            "GIT_CONFIG_COUNT": str(setting_count + 1),
            f"GIT_CONFIG_KEY_{setting_count}": "http.proxy",
            f"GIT_CONFIG_VALUE_{setting_count}": proxy,
        }
        return variables if "GIT_SSH" in variables else {"GIT_SSH_COMMAND": _SSH_COMMAND} | variables


class SessionNetwork:
    """The network namespace shared by a session's commands. Commands in it can reach each other's servers."""

    def __init__(self, private_hosts: Sequence[str] = (), connect_to: "Connect | None" = None) -> None:
        """`private_hosts`: hosts on private networks that the user has listed. `connect_to`: replaces the default way
        to connect."""
        self._private_hosts = private_hosts
        self._connect_to = connect_to
        self._accesses = dict[str, NetworkAccess]()
        self._access_count = 0
        self._namespace_task: asyncio.Task[NetworkNamespace | None] | None = None
        self._proxy: ProxyServer | None = None

    async def create_access(self, policy: NetworkPolicy) -> NetworkAccess | None:
        """Create the access for one command. None if this system cannot limit commands to permitted hosts. The first
        call takes about 60 ms."""
        if self._namespace_task is None:
            self._namespace_task = asyncio.create_task(self._open_namespace())
        namespace = await asyncio.shield(self._namespace_task)
        if namespace is None:
            return None
        self._access_count += 1
        address = f"127.77.{self._access_count // 250 % 250 + 1}.{self._access_count % 250 + 1}"
        access = self._accesses[address] = NetworkAccess(policy, namespace, address)
        return access

    @property
    def namespace(self) -> "NetworkNamespace | None":
        """The namespace; None until a command has run in it."""
        task = self._namespace_task
        return task.result() if task is not None and task.done() else None

    async def release(self, access: NetworkAccess) -> None:
        """Release the access after the command has ended."""
        self._accesses.pop(access.address, None)
        await access.policy.close()

    async def close(self) -> None:
        if self._namespace_task is None:
            return
        namespace = await self._namespace_task
        if self._proxy is not None:
            await self._proxy.close()
        for access in [*self._accesses.values()]:
            await self.release(access)
        if namespace is not None:
            namespace.close()

    async def _open_namespace(self) -> "NetworkNamespace | None":
        try:
            namespace = await asyncio.to_thread(sandbox.network_namespace.create_namespace)
        except sandbox.network_namespace.NamespaceUnavailableError:
            return None
        self._proxy = network.proxy.ProxyServer(
            self._connect_to or partial(network.connection.connect, private_hosts=self._private_hosts),
            self._accesses.get,
        )
        await self._proxy.start(namespace.listener)
        return namespace
