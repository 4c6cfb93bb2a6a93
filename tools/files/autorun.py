"""Files that other programs run or read automatically: git, shells, editors, CI, package managers, agents.

A file belongs here if it runs, or decides what runs, although no command line names it: when a folder is entered or
opened, on a commit, push or install, or when an interpreter starts. Files that run only on request (`make`, a test, a
build) are not listed.
"""

import unicodedata
from collections.abc import Iterable
from fnmatch import fnmatchcase
from itertools import pairwise

from ebbtide.tools.lazy import regex

_ALTERNATE_STREAM = regex(r"(?<=.):[^/]*\Z")
"""An NTFS alternate data stream, as in `.git::$INDEX_ALLOCATION`."""


def _with_reason(reason: str, names: str) -> dict[str, str]:
    return dict.fromkeys(names.split(), reason)


_GIT = "git runs what it says"
_SHELL = "a shell runs it when it starts"
_EDITOR = "an editor can run what it says"
_CI = "CI runs what it says"
_AGENT = "coding agents take it as instructions or settings"
_PACKAGES = "a package manager runs what it says"
_TOOL = "a program reads it when it starts"
_PROGRAMS = "editors and shells run programs in it by name"

_REASON_BY_NAME = {
    **_with_reason(_GIT, ".git .gitmodules .gitattributes .gitconfig .githooks githooks .husky git~1 gitmod~1"),
    **_with_reason(_GIT, ".pre-commit-config.yaml .pre-commit-config.yml .overcommit.yml simple-git-hooks.json"),
    **_with_reason(_GIT, ".lfsconfig .pre-commit-hooks.yaml"),
    **_with_reason("Mercurial, Jujutsu or Subversion runs what it says", ".hg .hgrc .jj .svn"),
    **_with_reason(_SHELL, ".bashrc .bash_profile .bash_login .bash_logout .bash_aliases .profile .zshrc .zprofile"),
    **_with_reason(_SHELL, ".zshenv .zlogin .zlogout .kshrc .cshrc .tcshrc .login .logout .inputrc .envrc .direnv"),
    **_with_reason(_SHELL, ".xprofile .xinitrc .xsession .xsessionrc .pam_environment .bash_completion .autoenv.zsh"),
    **_with_reason("programs started here take their environment from it", ".env .env.local"),
    **_with_reason(_EDITOR, ".vscode .idea .zed .fleet .devcontainer .devcontainer.json .vimrc .gvimrc .exrc .nvimrc"),
    **_with_reason(
        _EDITOR, ".nvim.lua .vim .emacs .emacs.d .dir-locals.el .dir-locals-2.el .lvimrc .helix .kateconfig .theia"
    ),
    **_with_reason(_EDITOR, ".gitpod.yml devfile.yaml .devfile.yaml .idx .replit .codesandbox .stackblitzrc .vs"),
    **_with_reason(_CI, ".gitlab-ci.yml .travis.yml .circleci .buildkite .woodpecker .drone.yml .woodpecker.yml"),
    **_with_reason(_CI, "jenkinsfile azure-pipelines.yml azure-pipelines.yaml bitbucket-pipelines.yml appveyor.yml"),
    **_with_reason(_CI, "netlify.toml vercel.json render.yaml .readthedocs.yml .readthedocs.yaml codemagic.yaml"),
    **_with_reason(_CI, "bitrise.yml .tekton .zuul.yaml zuul.yaml .zuul.d zuul.d .build.yml .builds"),
    **_with_reason(_CI, ".appveyor.yml .cirrus.yml cloudbuild.yaml cloudbuild.yml buildspec.yml .teamcity .semaphore"),
    **_with_reason(_AGENT, ".ebb .mcp.json mcp.json agent.md agents.md agents.override.md claude.md claude.local.md"),
    **_with_reason(
        _AGENT, "gemini.md copilot-instructions.md skill.md .claude .claude.json .cursor .cursorrules .gemini"
    ),
    **_with_reason(_AGENT, ".codex .agent .agents .opencode opencode.json opencode.jsonc .windsurf .windsurfrules"),
    **_with_reason(_AGENT, ".clinerules .cline .roo .roomodes .kilocode .kiro .continue .aider.conf.yml .amp .junie"),
    **_with_reason(
        _AGENT, ".goosehints .goose .crush.json .trae .augment .augment-guidelines .rules .qwen qwen.md warp.md"
    ),
    **_with_reason(_AGENT, ".openhands .factory .amazonq .aiassistant .serena .rovodev .qoder .codebuddy .iflow .kimi"),
    **_with_reason(
        _AGENT, ".crush crush.json crush.md .vibe .roorules .aider.model.settings.yml .aider.model.metadata.json"
    ),
    **_with_reason(
        _PACKAGES, "package.json composer.json .npmrc .yarnrc .yarnrc.yml .pnpmfile.cjs .pnpmfile.mjs .pypirc"
    ),
    **_with_reason(_PACKAGES, "pip.conf .bazelrc .gemrc rust-toolchain rust-toolchain.toml .mise.toml mise.toml"),
    **_with_reason(_PACKAGES, ".tool-versions .mvn .mise.local.toml mise.local.toml .mise .rtx.toml .sdkmanrc uv.toml"),
    **_with_reason(_PACKAGES, ".pnp.cjs .pnp.loader.mjs .yarn bunfig.toml binding.gyp .condarc pip.ini nuget.config"),
    **_with_reason(_PACKAGES, "gradle-wrapper.properties maven-wrapper.properties init.gradle init.gradle.kts"),
    **_with_reason(_TOOL, "sitecustomize.py usercustomize.py .pythonrc.py .irbrc .pryrc .rprofile .renviron .gdbinit"),
    **_with_reason(_TOOL, ".pdbrc .ipython .jupyter ipython_config.py .forward .procmailrc .rspec"),
    **_with_reason(_TOOL, ".lldbinit .ripgreprc .curlrc .wgetrc .tmux.conf .screenrc .sqliterc .psqlrc .ssh autostart"),
    **_with_reason(_TOOL, "launchagents launchdaemons crontab cron.d"),
}
"""Files and folders that count as autorun wherever they are. Everything in such a folder counts too."""

_REASON_BY_PATTERN = (
    ("*.git", _GIT),
    ("lefthook*.*", _GIT),
    (".clinerules-*", _AGENT),
    (".roorules-*", _AGENT),
    (".lefthook*.*", _GIT),
    ("*.code-workspace", _EDITOR),
    ("*.sublime-project", _EDITOR),
    ("*.pth", "Python runs its lines when it starts"),
)
_REASON_IN_FOLDER = {
    **{(".github", name): _CI for name in ("workflows", "actions")},
    **{(".forgejo", name): _CI for name in ("workflows", "actions")},
    **{(".gitea", name): _CI for name in ("workflows", "actions")},
    (".gitlab", "ci"): _CI,
    (".github", "copilot-instructions.md"): _AGENT,
    (".github", "instructions"): _AGENT,
    **{(".github", name): _AGENT for name in ("agents", "prompts", "chatmodes", "skills", "hooks")},
    (".cargo", "config"): _PACKAGES,
    (".cargo", "config.toml"): _PACKAGES,
    (".bundle", "config"): _PACKAGES,
    **{(folder, "bin"): _PROGRAMS for folder in (".venv", "venv")},
    ("node_modules", ".bin"): _PROGRAMS,
    **{(".config", name): _TOOL for name in ("git", "ebbtide", "fish", "systemd", "nvim", "direnv", "mise", "pip")},
}
AUTORUN_NAMES = frozenset((*_REASON_BY_NAME, *(folder for folder, _ in _REASON_IN_FOLDER), "conftest.py"))
AUTORUN_SUFFIXES, AUTORUN_PREFIXES = (
    (".git", ".code-workspace", ".sublime-project", ".pth"),
    ("lefthook", ".lefthook", ".clinerules-", ".roorules-"),
)
"""Suffixes and prefixes of autorun names, in lower case. The path of every autorun file has a component with one of
them, or one in `AUTORUN_NAMES`."""
_TEST_FOLDERS = ("test", "tests", "testing")
"""Folders in which pytest's `conftest.py` belongs to the tests. Elsewhere, every run reads it."""


def autorun_reason(path: str, root: str) -> str:
    """Explain why a change to the file needs approval: which program runs or reads it automatically. Empty if none
    does. `path`: absolute and resolved. `root`: the working folder, whose parent folders are ignored."""
    relative_path = path.removeprefix(root.rstrip("/")) if f"{path}/".startswith(root.rstrip("/") + "/") else path
    names = [_normalise_for_lenient_file_systems(name) for name in relative_path.split("/") if name not in ("", ".")]
    return _reason_for_components(names)


def find_autorun_file(paths: Iterable[str], root: str) -> tuple[str, str] | None:
    """Find the first file that another program runs or reads automatically, and the reason. Paths must be absolute.
    Redirection targets are allowed."""
    return next(((path, reason) for path in paths if (reason := autorun_reason(path, root))), None)


def normalise_path(path: str) -> str:
    """Normalise a path so that names which some file systems treat as equal become equal. Handles case, invisible
    characters and decomposed letters."""
    if path.isascii():
        return path.lower()
    if not path.isprintable():
        for character in set(path):
            path = path.replace(character, "") if unicodedata.category(character) == "Cf" else path
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", path).casefold())


def _normalise_for_lenient_file_systems(name: str) -> str:
    """Normalise a name as the most lenient file systems do. They also drop trailing spaces and dots."""
    return _ALTERNATE_STREAM.sub("", normalise_path(name)).rstrip(" .") or name


def _reason_for_components(names: list[str]) -> str:
    for name in names:
        if reason := _REASON_BY_NAME.get(name, ""):
            return reason
        may_match_pattern = name.endswith(AUTORUN_SUFFIXES) or name.startswith(AUTORUN_PREFIXES)
        for pattern, reason in _REASON_BY_PATTERN if may_match_pattern else ():
            if fnmatchcase(name, pattern):
                return reason
    for pair in pairwise(names):
        if reason := _REASON_IN_FOLDER.get(pair, ""):
            return reason
    if names and names[-1] == "conftest.py" and not any(name in _TEST_FOLDERS for name in names[:-1]):
        return "every run of pytest loads it"
    return ""
