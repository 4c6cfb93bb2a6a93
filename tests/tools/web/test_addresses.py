"""Which addresses of the web are public, and how they are written."""

from ipaddress import ip_address

import pytest

from ebbtide.tools.base import ToolError
from ebbtide.tools.network.addresses import is_local_name, is_public
from ebbtide.tools.web.addresses import is_allowed, parse_web_address, redirect_target

PRIVATE = (
    "10.0.0.1 127.0.0.1 127.255.1.2 172.16.0.1 172.31.255.255 192.168.1.1 0.0.0.0 0.1.2.3 100.64.0.1 192.0.0.1 "
    "192.0.2.1 192.88.99.1 198.18.0.0 198.19.255.255 198.51.100.1 203.0.113.1 224.0.0.1 240.0.0.1 255.255.255.255 "
    "169.254.169.254 168.63.129.16 3fff::1 "
    ":: ::1 ::127.0.0.1 ::8.8.8.8 fc00:: fd00::1 fd00:ec2::254 fe80:: febf:: fec0::1 ff02::1 2001:db8::1 2001::1 "
    "100::1 ::ffff:127.0.0.1 ::ffff:10.0.0.1 ::ffff:169.254.169.254 ::ffff:a9fe:101 ::ffff:100.64.0.1 ::ffff:0.0.0.0 "
    "64:ff9b::169.254.169.254 64:ff9b::10.0.0.1 64:ff9b:1::1 2002:7f00:1:: 2002:a9fe:a9fe::1"
)
PUBLIC = (
    "8.8.8.8 93.184.216.34 1.1.1.1 172.32.0.1 100.128.0.1 192.0.1.1 ::ffff:8.8.8.8 2001:4860:4860::8888 "
    "2606:4700::1111 64:ff9b::8.8.8.8 2002:808:808::1"
)


@pytest.mark.parametrize("written", PRIVATE.split())
def test_an_address_on_a_private_network_is_known(written: str) -> None:
    assert not is_public(ip_address(written))


@pytest.mark.parametrize("written", PUBLIC.split())
def test_an_address_on_the_public_network_is_known(written: str) -> None:
    assert is_public(ip_address(written))


def test_names_of_this_machine_are_known() -> None:
    local = "localhost a.localhost x.localdomain mylocalhost metadata metadata.google.internal metadata.goog a.b.svc"
    public = "localhost.org a.local.net internal.org metadata.goog.org 8.8.8.8 2606:4700::1111 ::1"
    assert [name for name in f"{local} {public}".split() if is_local_name(name)] == local.split()


@pytest.mark.parametrize(
    ("written", "meant", "place"),
    [
        ("example.org", "https://example.org/", "example.org"),
        (" HTTP://Example.ORG.:80/a b".replace("a b", "a%20b"), "http://example.org/a%20b", "example.org"),
        ("https://example.org:8443/x?q=ü#part", "https://example.org:8443/x?q=%C3%BC", "example.org:8443"),
        ("https://bücher.example/ä", "https://xn--bcher-kva.example/%C3%A4", "xn--bcher-kva.example"),
        ("http://[2606:4700::1111]/", "http://[2606:4700::1111]/", "[2606:4700::1111]"),
    ],
)
def test_an_address_is_taken_apart_once(written: str, meant: str, place: str) -> None:
    address = parse_web_address(written)
    assert (str(address), address.host_and_port) == (meant, place)


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ("file:///etc/passwd", "is not an HTTP or HTTPS address: use read for files, and bash for other schemes"),
        ("http://user:pass@example.org/", "the address contains a name or password: remove it"),
        ("http://example.org\\@evil.example/", "contains a space, a backslash or a control character"),
        ("http://a b.example/", "contains a space, a backslash or a control character"),
        ("http://example.org:99999/", "is not an address: Port out of range 0-65535"),
        ("http:///x", "has no valid host"),
        ("http://[::1", "is not an address"),
        ("x" * 5000, "the address has more than 4,000 characters: check it"),
    ],
)
def test_what_is_no_address_is_explained(written: str, message: str) -> None:
    with pytest.raises(ToolError) as caught:
        parse_web_address(written)
    assert message in str(caught.value)


def test_a_redirect_is_understood_from_where_it_stands() -> None:
    here = parse_web_address("https://example.org/a/b?c")
    assert [str(redirect_target(here, to)) for to in ("../d", "/e", "//other.example", "http://169.254.169.254/")] == [
        "https://example.org/d",
        "https://example.org/e",
        "https://other.example/",
        "http://169.254.169.254/",
    ]


def test_a_redirect_to_what_is_no_address_is_explained() -> None:
    with pytest.raises(
        ToolError, match=r"^it redirects to `http://\[::1/`, which is not an address: Invalid IPv6 URL$"
    ):
        redirect_target(parse_web_address("https://example.org/"), "http://[::1/")


def test_a_private_host_is_allowed_by_name_or_with_its_port() -> None:
    address = parse_web_address("http://localhost:3000/")
    allowed = [["localhost"], ["localhost:3000"], ["localhost:4000"], [], ["local"]]
    assert [is_allowed(address, private) for private in allowed] == [True, True, False, False, False]
    assert is_allowed(parse_web_address("http://[::1]/"), ["[::1]:80"])
