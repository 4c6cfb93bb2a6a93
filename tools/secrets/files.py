"""Files and folders whose names suggest passwords or keys."""

_SECRET_NAMES = {".netrc", ".pgpass", ".npmrc", ".pypirc", ".git-credentials", ".htpasswd", ".dockercfg"}
_SECRET_FOLDERS = {".ssh", ".gnupg", ".aws", ".kube", ".docker"}
_SECRET_SUFFIXES = (".pem", ".key", ".p12", ".pfx", ".kdbx", ".jks", ".keystore", ".ppk", ".env")
_SECRET_PREFIXES = (".env", "id_rsa", "id_dsa", "id_ecdsa", "id_ed25519")
_PUBLIC_SUFFIXES = (".example", ".sample", ".template", ".dist", ".pub")
SECRET_GLOBS = (
    "**/.git/config",
    *(f"**/{name}" for name in sorted(_SECRET_NAMES)),
    *(f"**/{name}/**" for name in sorted(_SECRET_FOLDERS)),
    *(f"**/*{suffix}" for suffix in _SECRET_SUFFIXES),
    *(f"**/{prefix}*" for prefix in _SECRET_PREFIXES),
)
"""Patterns that match the files for which `may_contain_secrets` is true, and few others."""
SECRET_FILE_PATTERNS = (
    *sorted(_SECRET_NAMES),
    *(f"*{suffix}" for suffix in _SECRET_SUFFIXES),
    *(f"{prefix}*" for prefix in _SECRET_PREFIXES),
)
"""Patterns for the base names of files with secrets, for programs that take patterns for folders separately."""
SECRET_NAME_PARTS = (*_SECRET_NAMES, *_SECRET_FOLDERS, *_SECRET_SUFFIXES, *_SECRET_PREFIXES, ".git/config")
"""Parts of the names of files with secrets. A line that names such a file contains at least one of these parts, in
lower case."""
SECRET_NAMES = frozenset((*_SECRET_NAMES, *_SECRET_FOLDERS))
SECRET_PREFIXES = _SECRET_PREFIXES
SECRET_SUFFIXES = _SECRET_SUFFIXES
SECRET_FOLDERS = tuple(sorted(_SECRET_FOLDERS))

HOME_SECRET_PATHS = (
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
    ".mysql_history", ".sqlite_history", ".rediscli_history", ".local/share/fish", ".npmrc", ".yarnrc.yml",
    ".config/pypoetry/auth.toml", ".local/share/uv/credentials", ".config/hcloud", ".config/scw", ".config/stripe",
    ".config/ngrok", ".ngrok2", ".cloudflared", ".config/.wrangler", ".railway", ".local/share/com.vercel.cli",
    ".config/argocd", ".argocd", ".talos", ".minikube", ".snowsql", ".snowflake", ".config/snowflake",
    ".dbt/profiles.yml", ".kaggle", ".config/kaggle", ".modal.toml", ".mc", ".passwd-s3fs", ".config/borg", ".vnc",
    ".msmtprc", ".config/msmtp", ".mbsyncrc", ".fetchmailrc", ".authinfo", ".authinfo.gpg", ".curlrc", ".wgetrc",
    ".config/tea", ".sentryclirc", ".config/solana", ".foundry/keystores", ".pki", ".config/microsoft-edge",
    ".config/vivaldi", ".config/opera", ".librewolf", ".zen", ".var/app", "snap/firefox", "snap/chromium",
    ".config/Slack", ".config/discord", ".config/Element", ".local/share/TelegramDesktop", ".config/keepassxc",
    ".putty", ".config/filezilla", ".config/remmina", ".local/share/remmina", ".subversion/auth", ".config/goose",
    ".local/share/opencode", ".qwen", ".vibe", ".config/io.datasette.llm", ".continue", ".cursor", ".config/Cursor",
    ".config/Code/User/globalStorage", ".local/share/jupyter/runtime", ".ipython/profile_default/history.sqlite",
    ".lesshst", ".irb_history", ".Rhistory",
    "Library/Keychains", "Library/Application Support/Google/Chrome", "Library/Application Support/Firefox",
)  # fmt: skip
"""Paths below the home folder with keys, passwords and histories. They are hidden from commands."""

SECRET_PATH_VARIABLES = tuple(
    """
    GNUPGHOME AWS_SHARED_CREDENTIALS_FILE AWS_CONFIG_FILE AZURE_CONFIG_DIR CLOUDSDK_CONFIG
    GOOGLE_APPLICATION_CREDENTIALS KUBECONFIG DOCKER_CONFIG DOCKER_CERT_PATH NPM_CONFIG_USERCONFIG npm_config_userconfig
    NETRC GH_CONFIG_DIR PGPASSFILE PASSWORD_STORE_DIR SOPS_AGE_KEY_FILE ANSIBLE_VAULT_PASSWORD_FILE
    RESTIC_PASSWORD_FILE RCLONE_CONFIG BOTO_CONFIG TF_CLI_CONFIG_FILE HF_TOKEN_PATH CODEX_HOME CLAUDE_CONFIG_DIR
    HISTFILE
    """.split()  # noqa: SIM905  # easier to read as one string
)
"""Variables that contain paths of files with keys, separated by colons."""
SECRET_FOLDER_VARIABLES = {
    "XDG_CONFIG_HOME": ".config/",
    "XDG_DATA_HOME": ".local/share/",
    "CARGO_HOME": ".cargo/",
    "GRADLE_USER_HOME": ".gradle/",
    "HF_HOME": ".cache/huggingface/",
}
"""Variables that replace a folder below the home folder, each with the folder it replaces."""

SYSTEM_SECRET_PATHS = (
    "/etc/shadow", "/etc/shadow-", "/etc/gshadow", "/etc/gshadow-", "/etc/sudoers", "/etc/sudoers.d",
    "/etc/krb5.keytab", "/etc/ssl/private", "/etc/letsencrypt/live", "/etc/letsencrypt/archive", "/etc/wireguard",
    "/etc/NetworkManager/system-connections", "/etc/security/opasswd", "/etc/ssh/ssh_host_rsa_key",
    "/etc/ssh/ssh_host_ecdsa_key", "/etc/ssh/ssh_host_ed25519_key",
)  # fmt: skip


def case_insensitive_pattern(pattern: str) -> str:
    """Make a file name pattern case-insensitive."""
    return "".join(f"[{character}{character.upper()}]" if character.islower() else character for character in pattern)


def may_contain_secrets(path: str) -> bool:
    """Whether the names in a path suggest passwords or keys, such as `.env` or a private key."""
    *folders, name = path.casefold().split("/")
    if not _SECRET_FOLDERS.isdisjoint((*folders, name)) or [*folders[-1:], name] == [".git", "config"]:
        return True
    if name.endswith(_PUBLIC_SUFFIXES):
        return False
    return name in _SECRET_NAMES or name.startswith(_SECRET_PREFIXES) or name.endswith(_SECRET_SUFFIXES)
