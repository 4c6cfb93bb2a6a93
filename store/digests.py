"""Digests that detect changes in the text of stored messages."""

from hashlib import blake2b


def message_digest(role: str, body: str) -> str:
    """Return the digest of a message's role and body."""
    return blake2b(f"{role}\0{body}".encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()


def is_as_written(role: object, body: object, digest: object) -> bool:
    """Whether role and body match the digest. Messages of earlier versions have none."""
    if not isinstance(role, str) or not isinstance(body, str):
        return False
    return digest is None or message_digest(role, body) == digest
