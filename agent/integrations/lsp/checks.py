"""Checks language servers for `ebb doctor`, without starting any."""

import os
from collections.abc import Iterator, Mapping

from ebbtide.agent.config.values import Config
from ebbtide.agent.integrations.doctor.check_result import CheckResult
from ebbtide.agent.integrations.lsp.find import found_servers
from ebbtide.tools.files.endings import count_suffixes


def check_language_servers(config: Config, environment: Mapping[str, str]) -> Iterator[CheckResult]:
    """Report which language servers are available for the project's files; yield nothing if there are none."""
    if not config.lsp_enabled:
        return
    subject = "language servers"
    servers, endings = found_servers(config, config.project, environment), count_suffixes(config.project)
    missing = [one for one in servers if not os.access(one.spec.command[0], os.X_OK)]
    on = [one for one in servers if one.standing == "on" and one not in missing]
    if on:
        names = ", ".join(f"{one.spec.name} ({one.spec.command[0]})" for one in on)
        yield CheckResult(subject, "well", f"{names}; not started for this check")
    for one in servers:
        if one.standing == "not approved" and any(ending in endings for ending in one.spec.extensions):
            yield CheckResult(
                subject, "note", f"{one.spec.name} ({one.source}) is not started: this folder is not trusted"
            )
        elif one in missing:
            yield CheckResult(subject, "broken", f"{one.spec.name}: program `{one.spec.command[0]}` not found")
