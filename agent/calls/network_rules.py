"""Rules about network places, for commands and `web_fetch`. Pure: nothing is resolved.

A place is a host, with its port unless that is the default port of the web, in the format of
`ebbtide.tools.web.addresses`. A rule names one place, `example.org`, `example.org:8080`, `ssh://example.org`, or all
subdomains of one, `*.example.org`."""

from collections.abc import Iterable

from ebbtide.agent.errors import ConfigError
from ebbtide.tools.lazy import regex

NETWORK = "network"
"""The tool name in rules about what commands and `web_fetch` may reach."""

_PORT = regex(r":[0-9]{1,5}\Z")
_USUAL = regex(r":(?:80|443)\Z")
_PLACE = regex(r"(?:\*\.)?(?:[a-z0-9_](?:[a-z0-9_.-]*[a-z0-9_])?|\[[0-9a-f:.]+\])(?::[0-9]{1,5})?")
_BELOW_NUMBERS = regex(r"\*\.[0-9.]+(?::[0-9]{1,5})?")
"""IP addresses have no subdomains."""


def place_in(written: str) -> str:
    """The place that a rule names, normalised; empty if it means all. It may be invalid: then it matches nothing."""
    text = written.strip().casefold()
    if text.startswith("ssh://"):
        text = text.removeprefix("ssh://").rpartition("@")[2]
        text = text if _PORT.search(text) else f"{text}:22"
    port = found[0] if (found := _PORT.search(text)) else ""
    below, host = ("*.", text[2:]) if text.startswith("*.") else ("", text)
    host = host.removesuffix(port).rstrip(".")
    if not host.isascii():
        try:
            host = host.encode("idna").decode()
        except UnicodeError:
            return text
    return "" if text == "*" else below + host + _USUAL.sub("", port) or text


def check_place(written: str) -> None:
    """Raises `ConfigError` if a network rule names no valid place."""
    place = place_in(written)
    if place and (not _PLACE.fullmatch(place) or _BELOW_NUMBERS.fullmatch(place)):
        raise ConfigError(
            f"`{NETWORK}({written})` names no valid host: write a host, `{NETWORK}(example.org)`, all subdomains, "
            f"`{NETWORK}(*.example.org)`, or a host and port, `{NETWORK}(example.org:8080)`"
        )


def means_place(written: str, places: Iterable[str], *, any_port: bool = False) -> bool:
    """Whether a rule matches one of the places. Unless `any_port`, a rule without a port means the default ports."""
    wanted, meant = place_in(written), set(places)
    if any_port:
        meant |= {_PORT.sub("", place) for place in meant}
    is_below = wanted.startswith("*.") and not _BELOW_NUMBERS.fullmatch(wanted)
    return not wanted or any(place.endswith(wanted[1:]) if is_below else place == wanted for place in meant)
