"""Checks MCP servers for `ebb doctor`, without starting any."""

from collections.abc import Iterator, Mapping

from ebbtide.agent.config.values import Config
from ebbtide.agent.integrations.doctor.check_result import CheckResult
from ebbtide.agent.integrations.mcp.manage import list_servers


def check_servers(config: Config, environment: Mapping[str, str]) -> Iterator[CheckResult]:
    if not config.may_have_servers:
        return
    rows = list_servers(config, environment)
    for row in rows:
        subject = f"`{row.name}` of `{row.source}`" if row.name else f"`{row.source}`"
        match row.standing:
            case "unusable":
                yield CheckResult("servers", "broken", f"{subject} cannot be used: {row.detail}")
            case "not approved" | "changed":
                yield CheckResult("servers", "note", f"{subject}: {row.detail}", f"`ebb mcp test {row.name}` shows it")
            case "on" | "off" | "refused":
                pass
    usable_names = [row.name for row in rows if row.standing == "on"]
    if usable_names:
        yield CheckResult("servers", "well", f"{', '.join(usable_names)}; not started for this check")
