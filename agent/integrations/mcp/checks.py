"""Checks MCP servers for `ebb doctor`, without starting any."""

from collections.abc import Iterator, Mapping

from ebbtide.agent.config.values import Config
from ebbtide.agent.integrations.doctor.check_result import CheckResult
from ebbtide.agent.integrations.mcp.manage import server_rows


def check_servers(config: Config, environment: Mapping[str, str]) -> Iterator[CheckResult]:
    if not config.may_have_servers:
        return
    found = server_rows(config, environment)
    for row in found:
        subject = f"`{row.name}` of `{row.source}`" if row.name else f"`{row.source}`"
        match row.standing:
            case "unusable":
                yield CheckResult("servers", "broken", f"{subject} cannot be used: {row.detail}")
            case "not approved" | "changed":
                yield CheckResult("servers", "note", f"{subject}: {row.detail}", f"`ebb mcp test {row.name}` shows it")
            case "on" | "off" | "refused":
                pass
    on = [row.name for row in found if row.standing == "on"]
    if on:
        yield CheckResult("servers", "well", f"{', '.join(on)}; not started for this check")
