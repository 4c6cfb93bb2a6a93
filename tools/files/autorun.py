"""Files that other programs execute or obey by themselves: git, shells, editors, CI, package managers, agents. Pure:
maps paths to reasons.

A file belongs here if it runs, or controls what runs, without being named: when a folder is entered or opened, on a
commit, push or install, or when an interpreter starts. What is run on request (`make`, a test, a build) is not listed.
"""

import unicodedata
from collections.abc import Iterable
from fnmatch import fnmatchcase
from itertools import pairwise

from ebbtide.tools.lazy import regex

_STREAM = regex(r"(?<=.):[^/]*\Z")
"""An alternate data stream of NTFS: `.git::$INDEX_ALLOCATION`."""


def _names(reason: str, names: str) -> dict[str, str]:
    return dict.fromkeys(names.split(), reason)


_GIT = "git runs what it says"
_SHELL = "a shell runs it when it starts"
_EDITOR = "an editor can run what it says"
_CI = "CI runs what it says"
_AGENT = "coding agents take it as instructions or settings"
_PACKAGES = "a package manager runs what it says"
_TOOL = "a program reads it when it starts"
_PROGRAMS = "editors and shells run programs in it by name"

_ANYWHERE = {
    **_names(_GIT, ".git .gitmodules .gitattributes .gitconfig .githooks githooks .husky git~1 gitmod~1"),
    **_names(_GIT, ".pre-commit-config.yaml .pre-commit-config.yml .overcommit.yml simple-git-hooks.json"),
    **_names(_GIT, ".lfsconfig .pre-commit-hooks.yaml"),
    **_names("Mercurial, Jujutsu or Subversion runs what it says", ".hg .hgrc .jj .svn"),
    **_names(_SHELL, ".bashrc .bash_profile .bash_login .bash_logout .bash_aliases .profile .zshrc .zprofile"),
    **_names(_SHELL, ".zshenv .zlogin .zlogout .kshrc .cshrc .tcshrc .login .logout .inputrc .envrc .direnv"),
    **_names(_SHELL, ".xprofile .xinitrc .xsession .xsessionrc .pam_environment .bash_completion .autoenv.zsh"),
    **_names("programs started here take their environment from it", ".env .env.local"),
    **_names(_EDITOR, ".vscode .idea .zed .fleet .devcontainer .devcontainer.json .vimrc .gvimrc .exrc .nvimrc"),
    **_names(
        _EDITOR, ".nvim.lua .vim .emacs .emacs.d .dir-locals.el .dir-locals-2.el .lvimrc .helix .kateconfig .theia"
    ),
    **_names(_EDITOR, ".gitpod.yml devfile.yaml .devfile.yaml .idx .replit .codesandbox .stackblitzrc .vs"),
    **_names(_CI, ".gitlab-ci.yml .travis.yml .circleci .buildkite .woodpecker .drone.yml .woodpecker.yml"),
    **_names(_CI, "jenkinsfile azure-pipelines.yml azure-pipelines.yaml bitbucket-pipelines.yml appveyor.yml"),
    **_names(_CI, "netlify.toml vercel.json render.yaml .readthedocs.yml .readthedocs.yaml codemagic.yaml"),
    **_names(_CI, "bitrise.yml .tekton .zuul.yaml zuul.yaml .zuul.d zuul.d .build.yml .builds"),
    **_names(_CI, ".appveyor.yml .cirrus.yml cloudbuild.yaml cloudbuild.yml buildspec.yml .teamcity .semaphore"),
    **_names(_AGENT, ".ebb .mcp.json mcp.json agent.md agents.md agents.override.md claude.md claude.local.md"),
    **_names(_AGENT, "gemini.md copilot-instructions.md skill.md .claude .claude.json .cursor .cursorrules .gemini"),
    **_names(_AGENT, ".codex .agent .agents .opencode opencode.json opencode.jsonc .windsurf .windsurfrules"),
    **_names(_AGENT, ".clinerules .cline .roo .roomodes .kilocode .kiro .continue .aider.conf.yml .amp .junie"),
    **_names(_AGENT, ".goosehints .goose .crush.json .trae .augment .augment-guidelines .rules .qwen qwen.md warp.md"),
    **_names(_AGENT, ".openhands .factory .amazonq .aiassistant .serena .rovodev .qoder .codebuddy .iflow .kimi"),
    **_names(_AGENT, ".crush crush.json crush.md .vibe .roorules .aider.model.settings.yml .aider.model.metadata.json"),
    **_names(_PACKAGES, "package.json composer.json .npmrc .yarnrc .yarnrc.yml .pnpmfile.cjs .pnpmfile.mjs .pypirc"),
    **_names(_PACKAGES, "pip.conf .bazelrc .gemrc rust-toolchain rust-toolchain.toml .mise.toml mise.toml"),
    **_names(_PACKAGES, ".tool-versions .mvn .mise.local.toml mise.local.toml .mise .rtx.toml .sdkmanrc uv.toml"),
    **_names(_PACKAGES, ".pnp.cjs .pnp.loader.mjs .yarn bunfig.toml binding.gyp .condarc pip.ini nuget.config"),
    **_names(_PACKAGES, "gradle-wrapper.properties maven-wrapper.properties init.gradle init.gradle.kts"),
    **_names(_TOOL, "sitecustomize.py usercustomize.py .pythonrc.py .irbrc .pryrc .rprofile .renviron .gdbinit"),
    **_names(_TOOL, ".pdbrc .ipython .jupyter ipython_config.py .forward .procmailrc .rspec"),
    **_names(_TOOL, ".lldbinit .ripgreprc .curlrc .wgetrc .tmux.conf .screenrc .sqliterc .psqlrc .ssh autostart"),
    **_names(_TOOL, "launchagents launchdaemons crontab cron.d"),
}
"""Names of files and folders anywhere. Everything in such a folder counts."""

_BY_PATTERN = (
    ("*.git", _GIT),
    ("lefthook*.*", _GIT),
    (".clinerules-*", _AGENT),
    (".roorules-*", _AGENT),
    (".lefthook*.*", _GIT),
    ("*.code-workspace", _EDITOR),
    ("*.sublime-project", _EDITOR),
    ("*.pth", "Python runs its lines when it starts"),
)
_IN_FOLDER = {
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
AUTORUN_NAMES = frozenset((*_ANYWHERE, *(folder for folder, _ in _IN_FOLDER), "conftest.py"))
AUTORUN_SUFFIXES, AUTORUN_PREFIXES = (
    (".git", ".code-workspace", ".sublime-project", ".pth"),
    ("lefthook", ".lefthook", ".clinerules-", ".roorules-"),
)
"""Every path in question has a component with one of these names, suffixes or prefixes, in lower case."""
_TESTS = ("test", "tests", "testing")
"""Folders in which pytest's `conftest.py` is part of the tests. Elsewhere, every run reads it."""


def runs_later(path: str, root: str) -> str:
    """Return why a change of the file needs approval: what will obey it, in words. Empty if nothing does. `path` is
    absolute and resolved. `root` is the working folder, whose own path does not count."""
    inside = path.removeprefix(root.rstrip("/")) if f"{path}/".startswith(root.rstrip("/") + "/") else path
    parts = [_plain(part) for part in inside.split("/") if part not in ("", ".")]
    return _of_parts(parts)


def first_that_runs_later(paths: Iterable[str], root: str) -> tuple[str, str] | None:
    """Return the first such file with its reason. Also used for redirection targets, once absolute."""
    return next(((path, reason) for path in paths if (reason := runs_later(path, root))), None)


def normalised_path(path: str) -> str:
    """Normalise a path so that names which some file system treats as equal are equal: case, invisible characters,
    decomposed letters."""
    if path.isascii():
        return path.lower()
    if not path.isprintable():
        for sign in set(path):
            path = path.replace(sign, "") if unicodedata.category(sign) == "Cf" else path
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", path).casefold())


def _plain(part: str) -> str:
    """Normalise a name like the most lenient file system, which drops trailing blanks and dots."""
    return _STREAM.sub("", normalised_path(part)).rstrip(" .") or part


def _of_parts(parts: list[str]) -> str:
    for part in parts:
        if reason := _ANYWHERE.get(part, ""):
            return reason
        is_likely = part.endswith(AUTORUN_SUFFIXES) or part.startswith(AUTORUN_PREFIXES)
        for pattern, reason in _BY_PATTERN if is_likely else ():
            if fnmatchcase(part, pattern):
                return reason
    for pair in pairwise(parts):
        if reason := _IN_FOLDER.get(pair, ""):
            return reason
    if parts and parts[-1] == "conftest.py" and not any(part in _TESTS for part in parts[:-1]):
        return "every run of pytest loads it"
    return ""
