"""Servers on loopback that stand between a client and a server: a SOCKS5 proxy, an HTTP proxy, and servers that answer
each connection with the same bytes. They know sockets and no provider."""

import select
import socket
import socketserver
import ssl
import struct
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path


class _Threads(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True


@contextmanager
def _serving(handler: type[socketserver.BaseRequestHandler]) -> Iterator[int]:
    """The port of a server whose connections go to `handler`."""
    server = _Threads(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@contextmanager
def socks_proxy(seen: list[tuple[str, int]], user: tuple[str, str] | None = None) -> Iterator[int]:
    """A SOCKS5 proxy (RFC 1928, 1929) that notes where it was asked to connect to; its port."""

    class Handler(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            client: socket.socket = self.request
            count = _exactly(client, 2)[1]
            methods = _exactly(client, count)
            wanted = 2 if user else 0
            if wanted not in methods:
                return client.sendall(b"\x05\xff")
            client.sendall(bytes([5, wanted]))
            if user is not None:
                name = _exactly(client, _exactly(client, 2)[1]).decode()
                password = _exactly(client, _exactly(client, 1)[0]).decode()
                client.sendall(b"\x01\x00" if (name, password) == user else b"\x01\x01")
                if (name, password) != user:
                    return None
            host, port = _address(client)
            seen.append((host, port))
            try:
                server = socket.create_connection(("127.0.0.1" if host == "models.example" else host, port), 5)
            except OSError:
                return client.sendall(b"\x05\x05\x00\x01" + bytes(6))
            client.sendall(b"\x05\x00\x00\x01" + bytes(6))
            return _relay(client, server)

    with _serving(Handler) as port:
        yield port


def _address(client: socket.socket) -> tuple[str, int]:
    kind = _exactly(client, 4)[3]
    if kind == 1:
        host = socket.inet_ntoa(_exactly(client, 4))
    elif kind == 4:
        host = socket.inet_ntop(socket.AF_INET6, _exactly(client, 16))
    else:
        host = _exactly(client, _exactly(client, 1)[0]).decode()
    return host, struct.unpack("!H", _exactly(client, 2))[0]


@contextmanager
def http_proxy(seen: list[str]) -> Iterator[int]:
    """A proxy for plain HTTP: it notes each address and sends the request on to the server there; its port."""

    class Handler(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            client: socket.socket = self.request
            head = b""
            while b"\r\n\r\n" not in head:
                head += client.recv(65536)
            method, url, rest = head.split(b" ", 2)
            seen.append(url.decode())
            place, _, path = url.removeprefix(b"http://").partition(b"/")
            host, _, port = place.partition(b":")
            server = socket.create_connection((host.decode(), int(port)), 5)
            server.sendall(method + b" /" + path + b" " + rest)
            _relay(client, server)

    with _serving(Handler) as port:
        yield port


@contextmanager
def saying(content: bytes, context: ssl.SSLContext | None = None) -> Iterator[int]:
    """A server that answers whatever it is sent with these bytes, over TLS with a `context`; its port."""

    class Handler(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            try:
                client = context.wrap_socket(self.request, server_side=True) if context else self.request
                client.settimeout(5)
                client.recv(65536)
                client.sendall(content)
                # What was sent and not read would make the kernel take the answer back when this is closed.
                client.shutdown(socket.SHUT_WR)
                while client.recv(65536):
                    pass
                client.close()
            except OSError:  # a client that does not like the certificate goes away
                return

    with _serving(Handler) as port:
        yield port


@contextmanager
def dripping(head: bytes, piece: bytes) -> Iterator[int]:
    """A server that begins to answer, then says the same again and again until its client goes away; its port."""

    class Handler(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            client: socket.socket = self.request
            client.recv(65536)
            try:
                client.sendall(head)
                while True:
                    client.sendall(piece)
                    if select.select([client], [], [], 0.02)[0] and not client.recv(65536):
                        return
            except OSError:  # the client is gone
                return

    with _serving(Handler) as port:
        yield port


def answer(head: Sequence[str], body: bytes) -> bytes:
    """An HTTP answer with status 200 and these headers, as it is sent."""
    return "\r\n".join(["HTTP/1.1 200 OK", *head, "connection: close", "", ""]).encode("latin-1") + body


def tls_context(folder: Path) -> ssl.SSLContext:
    """A server's side of TLS for 127.0.0.1. Its certificate, which nobody has signed, is in `certificate.pem`."""
    import datetime  # noqa: PLC0415  # with what follows: few tests need a certificate
    import ipaddress  # noqa: PLC0415

    from cryptography import x509  # noqa: PLC0415
    from cryptography.hazmat.primitives import hashes, serialization  # noqa: PLC0415
    from cryptography.hazmat.primitives.asymmetric import ec  # noqa: PLC0415

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "models")])
    now = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    (folder / "certificate.pem").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    (folder / "key.pem").write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "certificate.pem", folder / "key.pem")
    return context


def _exactly(connection: socket.socket, count: int) -> bytes:
    got = b""
    while len(got) < count:
        piece = connection.recv(count - len(got))
        if not piece:
            raise ConnectionError("the client went away")
        got += piece
    return got


def _relay(one: socket.socket, other: socket.socket) -> None:
    """Passes bytes both ways until one side is done."""
    with one, other:
        while True:
            for ready in select.select([one, other], [], [])[0]:
                content = ready.recv(65536)
                if not content:
                    return
                (other if ready is one else one).sendall(content)
