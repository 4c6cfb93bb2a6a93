"""Parses HTTP headers for the proxy. Parsing is strict: anything that two programs could interpret differently is
rejected. No I/O."""

from collections.abc import Sequence

from ebbtide.tools.lazy import dataclass, regex
from ebbtide.tools.network.destinations import NetworkDestination, parse_destination

HEAD_END = b"\r\n\r\n"
MAX_HEAD_BYTES = 32_768
"""Maximum size of a header section, in bytes."""

_REQUEST = regex(r"([A-Z][A-Z-]{0,30}) ([\x21-\x7e]+) (HTTP/1\.[01])")
_STATUS = regex(r"HTTP/1\.[01] ([1-9][0-9]{2})(?: [^\r\n]*)?")
_FIELD_NAME = regex(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_CONTROL_CHARS = regex(r"[\x00-\x08\x0a-\x1f\x7f]")
_LENGTH_NUMBER = regex(r"[0-9]{1,18}")
_HOP_BY_HOP_FIELDS = frozenset({"connection", "keep-alive", "te", "trailer", "upgrade", "http2-settings"})
"""Header fields that apply to one connection only. They are not forwarded."""


class InvalidHeadError(Exception):
    """Raised if the header is invalid or ambiguous. The message says why."""


@dataclass(frozen=True, slots=True)
class ProxyRequest:
    method: str
    destination: NetworkDestination
    head: bytes = b""
    """The header for the origin server; empty for a tunnel."""
    absolute_head: bytes = b""
    """The header to send if there is another proxy between this one and the origin server."""
    body_length: int | None = 0
    """Length of the body in bytes; None if it is chunked."""


@dataclass(frozen=True, slots=True)
class ResponseHead:
    status: int
    head: bytes
    """The header for the client."""


def parse_request(head: bytes) -> ProxyRequest:
    """Parse a client's request. The destination comes only from the request line; a `Host` field that differs is
    replaced. Raises `InvalidHeadError`."""
    line, fields = _parse_head(head)
    match = _REQUEST.fullmatch(line)
    if match is None:
        raise InvalidHeadError("the first line is not a request")
    method, target, version = match.groups()
    try:
        if method == "CONNECT":
            return ProxyRequest(method, parse_destination(target))
        if target[:7].lower() != "http://":
            raise InvalidHeadError("this is a proxy for `http://` and for tunnels")
        authority, path = _split_target(target[7:])
        destination = parse_destination(authority, 80)
    except ValueError as error:
        raise InvalidHeadError(f"the address is invalid: {error}") from error
    length = _body_length(fields)
    forwarded = _end_to_end_fields(fields)
    if length is None and version == "HTTP/1.0":
        raise InvalidHeadError("HTTP/1.0 does not support chunks")  # HTTP/1.0 servers would read chunks as requests
    host = destination.authority.removesuffix(":80")
    lines = [f"Host: {host}", *(f"{name}: {value}" for name, value in forwarded), "Connection: close", "", ""]
    remaining_lines = "\r\n".join(lines)
    direct_head, proxied_head = (
        f"{method} {prefix}{path} {version}\r\n{remaining_lines}".encode("latin-1") for prefix in ("", f"http://{host}")
    )
    return ProxyRequest(method, destination, direct_head, proxied_head, length)


def parse_response(head: bytes) -> ResponseHead:
    """Parse a server's response. The returned header makes the client close the connection afterwards. Raises
    `InvalidHeadError`."""
    line, fields = _parse_head(head)
    match = _STATUS.fullmatch(line)
    if match is None:
        raise InvalidHeadError("the first line is not a status line")
    forwarded = (f"{name}: {value}" for name, value in _end_to_end_fields(fields, keeps_host=True))
    return ResponseHead(int(match[1]), "\r\n".join([line, *forwarded, "Connection: close", "", ""]).encode("latin-1"))


def _parse_head(head: bytes) -> tuple[str, Sequence[tuple[str, str]]]:
    line, *lines = head.decode("latin-1").removesuffix("\r\n\r\n").split("\r\n")
    fields = []
    for header_line in (line, *lines):
        if _CONTROL_CHARS.search(header_line):
            raise InvalidHeadError("it contains a control character")
    for field_line in lines:
        name, separator, value = field_line.partition(":")
        if not separator or not _FIELD_NAME.fullmatch(name):
            raise InvalidHeadError("one of its lines is not a field")
        fields.append((name, value.strip(" \t")))
    return line, fields


def _split_target(target: str) -> tuple[str, str]:
    """Split a request target into its authority and its path with the query."""
    path_start = next((index for index, character in enumerate(target) if character in "/?#"), len(target))
    authority, path = target[:path_start], target[path_start:].partition("#")[0]
    if "@" in authority:
        raise InvalidHeadError("its address contains a name or password")
    return authority, path if path.startswith("/") else f"/{path}"


def _body_length(fields: Sequence[tuple[str, str]]) -> int | None:
    lengths = [value for name, value in fields if name.lower() == "content-length"]
    codings = [value.lower() for name, value in fields if name.lower() == "transfer-encoding"]
    if codings:
        if codings != ["chunked"] or lengths:
            raise InvalidHeadError("the length of its body is ambiguous")
        return None
    if len(lengths) > 1 or not all(map(_LENGTH_NUMBER.fullmatch, lengths)):
        raise InvalidHeadError("the length of its body is ambiguous")
    return int(lengths[0]) if lengths else 0


def _end_to_end_fields(fields: Sequence[tuple[str, str]], *, keeps_host: bool = False) -> list[tuple[str, str]]:
    connection_fields = {
        word.strip().lower() for name, value in fields if name.lower() == "connection" for word in value.split(",")
    }
    dropped_names = (
        _HOP_BY_HOP_FIELDS
        | (connection_fields - {"content-length", "transfer-encoding"})
        | (set() if keeps_host else {"host"})
    )
    return [
        (name, value)
        for name, value in fields
        if name.lower() not in dropped_names and not name.lower().startswith("proxy-")
    ]
