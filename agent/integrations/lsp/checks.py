"""Checks language servers for `ebb doctor`, without starting any."""

import os
from collections.abc import Iterator, Mapping

from ebbtide.agent.config.values import Config
from ebbtide.agent.integrations.doctor.check_result import CheckResult
from ebbtide.agent.integrations.lsp.server_detection import find_servers
from ebbtide.tools.files.file_suffixes import count_suffixes


def check_language_servers(config: Config, environment: Mapping[str, str]) -> Iterator[CheckResult]:
    """Report which language servers are available for the project's files; yield nothing if there are none."""
    if not config.lsp_enabled:
        return
    subject = "language servers"
    servers = find_servers(config, config.project_folder, environment)
    extensions = count_suffixes(config.project_folder)
    missing_servers = [server for server in servers if not os.access(server.spec.command[0], os.X_OK)]
    usable_servers = [server for server in servers if server.state == "on" and server not in missing_servers]
    if usable_servers:
        names = ", ".join(f"{server.spec.name} ({server.spec.command[0]})" for server in usable_servers)
        yield CheckResult(subject, "well", f"{names}; not started for this check")
    for server in servers:
        if server.state == "not approved" and any(ending in extensions for ending in server.spec.extensions):
            yield CheckResult(
                subject, "note", f"{server.spec.name} ({server.source}) is not started: this folder is not trusted"
            )
        elif server in missing_servers:
            yield CheckResult(subject, "broken", f"{server.spec.name}: program `{server.spec.command[0]}` not found")
