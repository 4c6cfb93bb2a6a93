"""Files and folders that by their names hold passwords or keys."""

_SECRET_NAMES = {".netrc", ".pgpass", ".npmrc", ".pypirc", ".git-credentials", ".htpasswd", ".dockercfg"}
_SECRET_FOLDERS = {".ssh", ".gnupg", ".aws", ".kube", ".docker"}
_SECRET_ENDS = (".pem", ".key", ".p12", ".pfx", ".kdbx", ".jks", ".keystore", ".ppk", ".env")
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
SIGNS_OF_SECRETS = (*_SECRET_NAMES, *_SECRET_FOLDERS, *_SECRET_ENDS, *_SECRET_STARTS, ".git/config")
"""One of these stands in small letters in every line that names such a file."""
SECRET_NAMES, SECRET_STARTS, SECRET_ENDS = frozenset((*_SECRET_NAMES, *_SECRET_FOLDERS)), _SECRET_STARTS, _SECRET_ENDS
SECRET_FOLDERS = tuple(sorted(_SECRET_FOLDERS))

SECRETS_BELOW_HOME = (
    ".ssh", ".aws", ".azure", ".gnupg", ".docker", ".kube", ".netrc", ".git-credentials", ".pypirc", ".pgpass",
    ".my.cnf", ".s3cfg", ".boto", ".vault-token", ".databrickscfg", ".oci", ".fly", ".terraform.d", ".password-store",
    ".config/gh", ".config/hub", ".config/glab-cli", ".config/git/credentials", ".config/gcloud", ".config/op",
    ".config/rclone", ".config/sops", ".config/age", ".config/doctl", ".config/heroku", ".config/netlify",
    ".config/containers/auth.json", ".config/configstore", ".config/google-chrome", ".config/chromium",
    ".config/BraveSoftware", ".config/Signal", ".config/Bitwarden", ".mozilla", ".thunderbird", ".electrum", ".bitcoin",
    ".ethereum", ".local/share/keyrings", ".local/share/kwalletd", ".cargo/credentials", ".cargo/credentials.toml",
    ".gem/credentials", ".m2/settings.xml", ".m2/settings-security.xml", ".gradle/gradle.properties",
    ".composer/auth.json", ".config/composer/auth.json", ".nuget/NuGet", ".huggingface/token",
    ".cache/huggingface/token", ".claude", ".claude.json", ".codex", ".gemini", ".config/anthropic", ".config/openai",
    ".config/github-copilot", ".bash_history", ".zsh_history", ".python_history", ".node_repl_history", ".psql_history",
    ".mysql_history", ".sqlite_history", ".rediscli_history", ".local/share/fish", ".npmrc",
    "Library/Keychains", "Library/Application Support/Google/Chrome", "Library/Application Support/Firefox",
)  # fmt: skip
"""Below the home folder: keys, passwords, histories. Commands do not see them."""

SECRETS_OF_THE_SYSTEM = ("/etc/shadow", "/etc/gshadow", "/etc/sudoers", "/etc/sudoers.d", "/etc/krb5.keytab")


def holds_secrets(path: str) -> bool:
    """Whether a file is one that by its name holds passwords or keys: a `.env`, a private key."""
    *folders, name = path.casefold().split("/")
    if not _SECRET_FOLDERS.isdisjoint((*folders, name)) or [*folders[-1:], name] == [".git", "config"]:
        return True
    if name.endswith(_PUBLIC_ENDS):
        return False
    return name in _SECRET_NAMES or name.startswith(_SECRET_STARTS) or name.endswith(_SECRET_ENDS)
