"""The certificates that connections without a proxy trust: the same as httpx2 trusts."""

import os
import re
import ssl
from pathlib import Path

from ebbtide.agent.providers.wires import proxies

_CERTIFICATE_FILES = (
    "/etc/ssl/cert.pem",
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
    "/etc/pki/tls/cert.pem",
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/ssl/ca-bundle.pem",
)
"""Certificates of the system, for a Python whose OpenSSL expects them elsewhere."""


def create_tls_context() -> ssl.SSLContext:
    """Create the TLS settings of a client, with the certificates that `SSL_CERT_FILE` or `SSL_CERT_DIR` names, or those
    of the system. May take 20 ms. Raises `RouteFailed`."""
    try:
        context = _create_context()
    except OSError as error:
        raise proxies.client_error(error) from error
    context.set_alpn_protocols(["http/1.1"])
    return context


def _create_context() -> ssl.SSLContext:
    if path := os.environ.get("SSL_CERT_FILE"):
        return ssl.create_default_context(cafile=path)
    if path := os.environ.get("SSL_CERT_DIR"):
        return ssl.create_default_context(capath=path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    file, folder = find_certificates(ssl.get_default_verify_paths())
    if file or folder:
        context.load_verify_locations(file, folder)
    return context


def find_certificates(paths: ssl.DefaultVerifyPaths) -> tuple[str | None, str | None]:
    """Return the file and the folder of the system's certificates. A folder is used only if OpenSSL can find
    certificates in it: their names are hashes of what they certify."""
    file = paths.openssl_cafile if Path(paths.openssl_cafile).is_file() else None
    folder = paths.openssl_capath if Path(paths.openssl_capath).is_dir() else None
    if folder and not file and not any(re.fullmatch(r"[0-9a-fA-F]{8}\.\d", name) for name in os.listdir(folder)):
        folder = None
    if not file and not folder:
        file = next((name for name in _CERTIFICATE_FILES if Path(name).is_file()), None)
    return file, folder
