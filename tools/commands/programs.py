"""A table of read-only programs with their read-only options and their operands. Anything that is not listed is treated
as unsafe.

A row is `OPTIONS | OPERANDS`. Among the options, `-abc` are letters that can be combined and take no value. `-n:n`
takes a number, `:t` text, `:p` a file that is read, `:l` line numbers and a file, `:e` the search pattern (which is
then not an operand), and `:2` a name and a value in two words. `--color:o` takes an optional value after `=`. `-#` is a
number of lines. Long options must match exactly; abbreviations are not recognised.

Operands: `path*` is any number of files, `path+` at least one unless there is piped input, `path?` at most one, `rev*`
any number of git revisions and files, `pattern path*` a search pattern and files, `text*` arguments that are not files,
`none` no operands.
"""

from collections.abc import Mapping

_DIFF = (
    "--patch --no-patch --stat:o --shortstat --numstat --name-only --name-status --summary --compact-summary --raw "
    "--cached --staged --minimal --patience --histogram --word-diff:o --no-color --no-renames --find-renames:o "
    "--full-index --check --merge-base --function-context --ignore-all-space --ignore-space-change "
    "--ignore-space-at-eol --ignore-blank-lines --no-ext-diff --no-textconv --abbrev-commit --unified:n "
    "--diff-filter:t --color:o --abbrev:n -puswbWR -U:n -S:t -G:t -M:o -C:o --find-copies:o --find-copies-harder "
    "--relative --dirstat:o"
)
_LOG_OPTIONS = (
    "--oneline --graph --decorate:o --no-decorate --all --branches --tags --remotes --merges --no-merges "
    "--first-parent --reverse --follow --topo-order --date-order --author-date-order --simplify-by-decoration "
    "--full-history --cherry-pick --left-right --boundary --pickaxe-regex --pickaxe-all --regexp-ignore-case "
    "--extended-regexp --fixed-strings --perl-regexp --relative-date --no-walk:o -iEPgmc -L:l -n:n "
    "-# --max-count:n --skip:n --since:t "
    "--parents "
    "--children --until:t --after:t --before:t --author:t --committer:t --grep:t --format:o --pretty:o --date:t"
)
_GREP = (
    "-EFGPivwxcLlqsonHhaIrnTZzU -e:e -m:n -A:n -B:n -C:n -# --extended-regexp --fixed-strings --basic-regexp "
    "--perl-regexp --regexp:e --ignore-case --no-ignore-case --invert-match --word-regexp --line-regexp --count "
    "--color:o --colour:o --files-without-match --files-with-matches --max-count:n --only-matching --quiet --silent "
    "--no-messages --byte-offset --with-filename --no-filename --line-number --initial-tab --null --null-data --text "
    "--after-context:n --before-context:n --context:n --include:t --exclude:t --exclude-dir:t --recursive | "
    "pattern path*"
)
_CHECKSUM_ROW = "-bt --binary --text --zero --tag | path+"

READ_ONLY_ROWS: Mapping[str, str] = {
    "ls": "-1aACdFfGghiklnopqrRsStuUvXxZ -I:t --ignore:t "
    "--all --almost-all --human-readable --recursive --reverse --size --directory "
    "--full-time --inode --group-directories-first --color:o --sort:o --time:o --time-style:o --format:o | path*",
    "pwd": "-LP --logical --physical | none",
    "cat": "-AbeEnstTuv --number --number-nonblank --show-all --show-ends --show-tabs --show-nonprinting "
    "--squeeze-blank | path+",
    "tac": "-b --before | path+",
    "head": "-qvz -n:n -c:n --quiet --silent --verbose --zero-terminated --lines:n --bytes:n -# | path+",
    "tail": "-qvz -n:n -c:n --quiet --silent --verbose --zero-terminated --lines:n --bytes:n -# | path+",
    "wc": "-clmLw --bytes --chars --lines --words --max-line-length | path+",
    "nl": "-b:t -n:t -s:t -v:n -w:n -i:n | path+",
    "cut": "-sz -b:t -c:t -d:t -f:t --bytes:t --characters:t --delimiter:t --fields:t --complement "
    "--only-delimited --output-delimiter:t | path+",
    "paste": "-sz -d:t --delimiters:t --serial | path+",
    "tr": "-cCdst --complement --delete --squeeze-repeats --truncate-set1 | text*",
    "rev": " | path+",
    "fold": "-bs -w:n | path+",
    "expand": "-i -t:n | path+",
    "column": "-tx -s:t -o:t -c:n --table | path+",
    "sort": "-bdfgiMhnRrVcCmsuz --parallel:n -k:t -t:t --key:t --field-separator:t --reverse --numeric-sort --unique "
    "--human-numeric-sort --version-sort --ignore-case --ignore-leading-blanks --stable | path+",
    "uniq": "-cdDiuz -f:n -s:n -w:n --count --repeated --unique --ignore-case | path?",
    "comm": "-123z --nocheck-order --check-order --total | path+",
    "cmp": "-bls --silent --quiet --verbose --print-bytes | path+",
    "diff": "-qsuyacbBwiENtTp -U:n -C:n -W:n --brief --unified:n --context:n --side-by-side --color:o "
    "--ignore-all-space --ignore-space-change --ignore-blank-lines --ignore-case --report-identical-files "
    "--suppress-common-lines --minimal --strip-trailing-cr --width:n | path+",
    "grep": _GREP,
    "egrep": _GREP,
    "fgrep": _GREP,
    "rg": "-cFHIilnNopPqsSUvwxu0. -j:n -A:n -B:n -C:n -m:n -d:n -M:n -e:e -t:t -T:t -g:t -r:t --count --count-matches "
    "--fixed-strings --with-filename --no-filename --ignore-case --smart-case --case-sensitive --files-with-matches "
    "--files-without-match --line-number --no-line-number --only-matching --pcre2 --quiet --multiline "
    "--multiline-dotall --invert-match --word-regexp --line-regexp --heading --no-heading --column --stats "
    "--json --vimgrep --trim --no-config --hidden --unrestricted --no-ignore --no-ignore-vcs --no-messages --null "
    "--one-file-system --threads:n --max-filesize:t --context-separator:t --passthru "
    "--pretty --after-context:n --before-context:n "
    "--context:n --max-count:n --max-depth:n --type:t --type-not:t --glob:t --iglob:t --regexp:e --replace:t "
    "--max-columns:n --sort:t --sortr:t --color:t --files:e! --type-list:e! | pattern path*",
    "fd": "-HIsigFapl0 -t:t -e:t -d:n -E:t --hidden --no-ignore --case-sensitive --ignore-case --glob --regex "
    "--fixed-strings --absolute-path --full-path --type:t --extension:t --max-depth:n --min-depth:n --exclude:t "
    "--color:t --print0 | pattern path*",
    "tree": "-adfiJLhpsDuFrtcUCnAqNQgx -L:n -P:t -I:t --noreport --dirsfirst --filesfirst --gitignore --prune --du "
    "--charset:t | path*",
    "stat": "-Lt -c:t --format:t --printf:t --terse --dereference --file-system -f | path+",
    "file": "-bikhLNprs0v -F:t --brief --mime --mime-type --mime-encoding --dereference --no-dereference | path+",
    "du": "-0abchHklmsSxP -d:n -t:t --all --apparent-size --bytes --total --human-readable --max-depth:n "
    "--summarize --exclude:t --one-file-system --time:o | path*",
    "df": "-ahHiklPT --all --human-readable --inodes --local --portability --print-type --total | path*",
    "basename": "-az -s:t --multiple --suffix:t | text*",
    "dirname": "-z | text*",
    "realpath": "-emsqzLP --canonicalize-existing --canonicalize-missing --no-symlinks --relative-to:p | path+",
    "readlink": "-femnqsvz --canonicalize --canonicalize-existing --canonicalize-missing | path+",
    "echo": " | text*",
    "printf": " | text*",
    "test": " | text*",
    "yes": " | text*",
    "true": " | text*",
    "false": " | text*",
    ":": " | text*",
    "seq": "-w -s:t -f:t | text*",
    "expr": " | text*",
    "date": "-uR -I:o -d:t --utc --rfc-3339:o --iso-8601:o --date:t -r:p | text*",
    "whoami": " | none",
    "id": "-agGnruz --user --group --groups --name --real | text*",
    "groups": " | text*",
    "uname": "-asnrvmpio --all --kernel-name --kernel-release --machine --operating-system | none",
    "nproc": "--all | none",
    "arch": " | none",
    "uptime": "-ps | none",
    "free": "-bkmgthwl --human --total | none",
    "hostname": "-fisdIA | none",
    "ps": "-efAaxlujHTLwF -p:t -u:t -o:t -C:t --forest --pid:t --ppid:t --sort:t --no-headers | text*",
    "pgrep": "-acfilnoxvw -u:t -P:n | text*",
    "which": "-a --all | text*",
    "type": "-aftpP | text*",
    "command": "-vV | text*",
    "od": "-bcdosxvai -A:t -t:t -N:n -j:n -w:n | path+",
    "xxd": "-bceiups -l:n -s:n -c:n -g:n -o:n | path?",
    "hexdump": "-bcCdovx -n:n -s:n -e:t | path+",
    "strings": "-a -n:n -t:t -e:t --all --bytes:n | path+",
    "base64": "-di -w:n --decode --ignore-garbage --wrap:n | path?",
    "md5sum": _CHECKSUM_ROW,
    "sha1sum": _CHECKSUM_ROW,
    "sha256sum": _CHECKSUM_ROW,
    "sha512sum": _CHECKSUM_ROW,
    "b2sum": _CHECKSUM_ROW,
    "cksum": " | path+",
    "jq": "-cCMnrRSsaej --compact-output --raw-output --raw-input --slurp --sort-keys --null-input --exit-status "
    "--color-output --monochrome-output --join-output --tab --indent:n --arg:2 --argjson:2 | pattern path*",
    "nm": "-aACDgnprSu --dynamic --demangle --defined-only --undefined-only --extern-only | path+",
    "readelf": "-adhlnrsVW --all --file-header --segments --sections --symbols --dynamic --notes --wide | path+",
    "objdump": "-adDCwfhprRtT -j:t -M:t --disassemble --file-headers --section-headers --syms "
    "--dynamic-syms --private-headers | path+",
    "sleep": " | text*",
    "tput": "-T:t | text*",
    "getconf": "-a | text*",
    "git status": "-sb --short --branch --porcelain:o --long --show-stash --no-renames --ahead-behind "
    "--no-ahead-behind --untracked-files:o --ignored:o -uno -uall -unormal | rev*",
    "git diff": f"{_DIFF} --exit-code --quiet | rev*",
    "git log": f"{_DIFF} {_LOG_OPTIONS} | rev*",
    "git show": f"{_DIFF} {_LOG_OPTIONS} | rev*",
    "git blame": "-wclpeltfnsM -L:t --line-porcelain --porcelain --date:t --show-name --show-number | rev*",
    "git ls-files": "-cdmoistuvz --cached --deleted --modified --others --ignored --stage --unmerged "
    "--exclude-standard --full-name --error-unmatch | rev*",
    "git ls-tree": "-drtlz --name-only --name-status --long --full-name --full-tree --abbrev:n | rev*",
    "git grep": "-nliwvchHEFGPoqapz -e:e -A:n -B:n -C:n -# --line-number --name-only --files-with-matches --count "
    "--ignore-case --word-regexp --fixed-strings --extended-regexp --perl-regexp --cached --untracked --heading "
    "--break --show-function --all-match --no-color --and --or --not | pattern rev*",
    "git branch": "-avvrl --all --remotes --list --show-current --no-color --contains:o --no-contains:o --merged:o "
    "--no-merged:o --points-at:t --sort:t --format:t | list",
    "git tag": "-l -n:o --list --contains:o --no-contains:o --merged:o --no-merged:o --points-at:t --sort:t "
    "--format:t | list",
    "git remote": "-v --verbose | none",
    "git config": "-z --get --get-all --show-origin --show-scope --local --global --system --name-only "
    "--null --type:t --default:t | text*",
    "git whatchanged": f"{_DIFF} {_LOG_OPTIONS} | rev*",
    "git hash-object": "-t:t | path+",
    "git clean": "-ndxXq --dry-run | rev*",
    "git sparse-checkout list": " | none",
    "git rev-parse": "--show-toplevel --abbrev-ref:o --short:o --verify --quiet --git-dir --is-inside-work-tree "
    "--show-prefix --symbolic-full-name --absolute-git-dir --show-cdup -q --revs-only --no-revs --flags --all "
    "--branches --tags --is-bare-repository --is-inside-git-dir --is-shallow-repository --git-common-dir "
    "--show-object-format --symbolic --show-superproject-working-tree --local-env-vars | rev*",
    "git remote get-url": "--push --all | text*",
    "git symbolic-ref": "-q --short --quiet | path?",
    "git rev-list": "--count --all --tags --branches --remotes --max-count:n -n:n -# --no-merges --merges "
    "--since:t --until:t --first-parent "
    "--reverse --left-right --not --objects --parents --abbrev-commit --use-bitmap-index --test-bitmap --filter:t "
    "--topo-order --date-order --boundary --children --timestamp --oneline --pretty:o --format:o | rev*",
    "git describe": "--tags --always --dirty:o --abbrev:n --long --all --match:t --exact-match "
    "--contains --candidates:n --exclude:t --first-parent | rev*",
    "git merge-base": "-a --all --is-ancestor --octopus --fork-point | rev*",
    "git shortlog": "-snec --summary --numbered --email --no-merges --since:t --until:t --all | rev*",
    "git reflog": "--oneline -n:n -# --date:t --all --max-count:n | none",
    "git name-rev": "--name-only --tags --always --undefined --no-undefined --all --refs:t --exclude:t | rev*",
    "git diff-index": "--quiet --cached --name-only --name-status --exit-code | rev*",
    "git cat-file": "-tsep --batch-check:o --batch-all-objects --unordered | rev*",
    "git for-each-ref": "--sort:t --format:t --count:n --contains:o --merged:o --no-merged:o --points-at:t | text*",
    "git stash list": "--oneline -n:n -# --date:t --format:o | none",
    "git stash show": f"{_DIFF} | text*",
    "git worktree list": "--porcelain -v -z | none",
    "git count-objects": "-vH --verbose --human-readable | none",
    "git check-ignore": "-qvzn --verbose --quiet | rev*",
}
"""Rows by program name, or by `git` and its subcommand."""

RULE_APPROVED_ROWS: Mapping[str, str] = {
    "git fetch": "-apqtvn --all --prune --tags --no-tags --quiet --verbose --dry-run --depth:n | text*",
    "git ls-remote": "-htq --heads --tags --refs --quiet --exit-code --sort:t | text*",
    "git archive": "-lv --list --format:t --prefix:t | rev*",
    "tar": "-cxtvzjJkpmhWO -f:p -C:p -T:x --create --extract --list --verbose --gzip --bzip2 --xz --file:p "
    "--directory:p --exclude:t --strip-components:n --wildcards --keep-old-files | text*",
}
"""Programs that do more than read. A rule for a program's name covers only the options listed here."""


VERSION_OPTIONS: Mapping[str, str] = {
    **dict.fromkeys(
        (
            "python", "python3", "pip", "pip3", "gcc", "g++", "cc", "c++", "clang", "clang++", "make", "gmake", "cmake",
            "ninja", "protoc", "bat", "batcat", "docker", "curl", "wget", "git", "bash", "tar", "jq", "rg", "perl",
            "php", "ruby", "java", "javac", "npm", "shellcheck", "openssl",
            "zsh", "fish", "grep", "sed", "gawk", "find",
            "sort", "ls", "cat", "head", "tail", "diff", "xz", "gzip",
        ),
        "--version",
    ),
    **dict.fromkeys(("gcc", "g++", "cc", "c++"), "--version -v"),
    "node": "--version -v", "npm": "--version -v", "curl": "--version -V",
    "wget": "--version -V", "tmux": "-V", "python3": "--version -V",
    "python": "--version -V", "java": "--version -version", "perl": "--version -v", "php": "--version -v",
    "ruby": "--version -v",
}  # fmt: skip
"""Programs that only print their version if their only argument is one of these options. Programs that a project file
such as `go.mod` or `rust-toolchain` can replace with another version (go, cargo, rustc, yarn and pnpm) are not
listed."""


def split_words(names: str) -> frozenset[str]:
    return frozenset(names.split())


FIND_FLAGS = split_words(
    "! ( ) -not -a -and -o -or , -empty -print -print0 -prune -quit -executable -readable -writable "
    "-nouser -nogroup -ls -depth -xdev -mount -daystart -true -false -H -P"
)
FIND_TEXT_TESTS = split_words(
    "-name -iname -path -ipath -wholename -iwholename -regex -iregex -type -xtype -maxdepth -mindepth "
    "-size -mtime -mmin -ctime -cmin -atime -amin -perm -user -group -links -inum -printf -regextype "
    "-newermt"
)
FIND_FILE_TESTS = frozenset(("-newer", "-anewer", "-cnewer", "-samefile"))

GIT_PROGRAM_RUNNERS = split_words(
    "bisect submodule filter-branch config rebase for-each-repo difftool mergetool clone hook daemon "
    "credential send-email instaweb help web--browse upload-pack receive-pack shell remote-ext gui citool p4 svn "
    "cvsimport archimport quiltimport imap-send merge-index maintenance daemon request-pull"
)
"""Git commands that a rule for git does not cover, because they run other programs or make git run them."""
GIT_KNOWN_COMMANDS = split_words(
    "add am annotate apply archive blame branch bundle cat-file check-attr check-ignore check-mailmap check-ref-format "
    "checkout checkout-index cherry cherry-pick clean column commit commit-graph commit-tree count-objects describe "
    "diff diff-files diff-index diff-tree fast-export fast-import fetch fetch-pack fmt-merge-msg for-each-ref "
    "format-patch fsck gc get-tar-commit-id grep hash-object index-pack init interpret-trailers log ls-files ls-remote "
    "ls-tree mailinfo mailsplit merge merge-base merge-file merge-tree mktag mktree multi-pack-index mv name-rev notes "
    "pack-objects pack-redundant pack-refs patch-id prune prune-packed pull push range-diff read-tree reflog remote "
    "repack replace rerere reset restore rev-list rev-parse revert rm send-pack shortlog show show-branch show-index "
    "show-ref sparse-checkout stage stash stripspace subtree switch symbolic-ref tag unpack-file unpack-objects "
    "update-index update-ref update-server-info upload-archive var verify-commit verify-pack verify-tag version "
    "whatchanged worktree write-tree"
)
"""Known git commands. Any other command is an alias, which the repository may define, or a separate program."""
GIT_DANGEROUS_OPTIONS = (
    "--exec",
    "--ext",
    "--upload-pack",
    "--receive-pack",
    "--output",
    "--open-files-in-pager",
    "-x",
    "ext::",
)
