"""Files that by their names hold passwords or keys."""

_SECRET_NAMES = {".netrc", ".pgpass", ".npmrc", ".pypirc", ".git-credentials", ".htpasswd", ".dockercfg"}
_SECRET_FOLDERS = {".ssh", ".gnupg", ".aws", ".kube", ".docker"}
_SECRET_ENDS = (".pem", ".key", ".p12", ".pfx", ".kdbx", ".jks", ".keystore")
_SECRET_STARTS = (".env", "id_rsa", "id_dsa", "id_ecdsa", "id_ed25519")
_PUBLIC_ENDS = (".example", ".sample", ".template", ".dist", ".pub")
SECRET_GLOBS = (
    "**/.git/config",
    *(f"**/{name}" for name in sorted(_SECRET_NAMES)),
    *(f"**/{name}/**" for name in sorted(_SECRET_FOLDERS)),
    *(f"**/*{end}" for end in _SECRET_ENDS),
    *(f"**/{start}*" for start in _SECRET_STARTS),
)
"""The files that `holds_secrets` means, and few others."""
SECRET_FILES = (
    *sorted(_SECRET_NAMES),
    *(f"*{end}" for end in _SECRET_ENDS),
    *(f"{start}*" for start in _SECRET_STARTS),
)
"""Patterns for their names alone, where folders are named on their own."""
SECRET_FOLDERS = tuple(sorted(_SECRET_FOLDERS))


def holds_secrets(path: str) -> bool:
    """Whether a file is one that by its name holds passwords or keys: a `.env`, a private key."""
    *folders, name = path.casefold().split("/")
    if not _SECRET_FOLDERS.isdisjoint((*folders, name)) or [*folders[-1:], name] == [".git", "config"]:
        return True
    if name.endswith(_PUBLIC_ENDS):
        return False
    return name in _SECRET_NAMES or name.startswith(_SECRET_STARTS) or name.endswith(_SECRET_ENDS)
