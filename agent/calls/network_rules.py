"""Rules about network destinations, for commands and `web_fetch`. Host names are not resolved to addresses.

A destination is a host, with its port unless that is 80 or 443, in the format of `ebbtide.tools.web.addresses`. A rule
names one destination, `example.org`, `example.org:8080`, `ssh://example.org`, or all subdomains of a host,
`*.example.org`.
"""

from collections.abc import Iterable

from ebbtide.agent.errors import ConfigError
from ebbtide.tools.lazy import regex

NETWORK_TOOL = "network"
"""The tool name in rules about the destinations that commands and `web_fetch` may connect to."""

_PORT = regex(r":[0-9]{1,5}\Z")
_DEFAULT_PORT = regex(r":(?:80|443)\Z")
_DESTINATION_PATTERN = regex(r"(?:\*\.)?(?:[a-z0-9_](?:[a-z0-9_.-]*[a-z0-9_])?|\[[0-9a-f:.]+\])(?::[0-9]{1,5})?")
_IP_WILDCARD = regex(r"\*\.[0-9.]+(?::[0-9]{1,5})?")
"""Matches a wildcard before an IP address, which has no subdomains."""


def normalise_destination(pattern: str) -> str:
    """Normalise the destination that a rule names; empty if the rule means all destinations. An invalid destination is
    returned as it is and matches nothing."""
    text = pattern.strip().casefold()
    if text.startswith("ssh://"):
        text = text.removeprefix("ssh://").rpartition("@")[2]
        text = text if _PORT.search(text) else f"{text}:22"
    port = match[0] if (match := _PORT.search(text)) else ""
    wildcard, host = ("*.", text[2:]) if text.startswith("*.") else ("", text)
    host = host.removesuffix(port).rstrip(".")
    if not host.isascii():
        try:
            host = host.encode("idna").decode()
        except UnicodeError:
            return text
    return "" if text == "*" else wildcard + host + _DEFAULT_PORT.sub("", port) or text


def check_destination(pattern: str) -> None:
    """Check the destination that a network rule names. Raises `ConfigError` if it is invalid."""
    destination = normalise_destination(pattern)
    if destination and (not _DESTINATION_PATTERN.fullmatch(destination) or _IP_WILDCARD.fullmatch(destination)):
        raise ConfigError(
            f"`{NETWORK_TOOL}({pattern})` names no valid host: write a host, "
            f"`{NETWORK_TOOL}(example.org)`, all subdomains, "
            f"`{NETWORK_TOOL}(*.example.org)`, or a host and port, `{NETWORK_TOOL}(example.org:8080)`"
        )


def matches_destination(pattern: str, destinations: Iterable[str], *, matches_any_port: bool = False) -> bool:
    """Whether a rule matches one of the destinations. With `matches_any_port`, a rule without a port matches every
    port; otherwise only the default ports."""
    rule_destination, candidates = normalise_destination(pattern), set(destinations)
    if matches_any_port:
        candidates |= {_PORT.sub("", destination) for destination in candidates}
    is_wildcard = rule_destination.startswith("*.") and not _IP_WILDCARD.fullmatch(rule_destination)
    return not rule_destination or any(
        destination.endswith(rule_destination[1:]) if is_wildcard else destination == rule_destination
        for destination in candidates
    )
