"""Commands that a star in a rule never covers: programs that run other commands, and options that run programs or name a file to write.

One table, each row with its reason, and one of the commands that only read. "Always" writes a star only for these. They
apply to commands parsed by `shell_plain`, whose words are therefore certain.
For a program without a row, a star covers everything: `shell(rm *)` allows `rm`.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import Final

from attrs import field, frozen
from attrs.converters import optional

from agentrail.plugins.shell_plain import PlainCommand
from agentrail.plugins.shell_programs import (
    CODE_FIRST,
    DECLARES,
    INTERPRETERS,
    READS_COMMANDS,
    SETS,
    SHELLS,
    WRAPPERS,
)


def _names(words: str | Iterable[str]) -> frozenset[str]:
    return frozenset(words.split() if isinstance(words, str) else words)


@frozen
class StarRow:
    """The coverage of a star for one program.

    Attributes:
        commands: The program's own commands that a star covers. None for a program without commands.
        max_operands: Maximum number of words that are not options. None for any number.
        is_inside: Whether operands must be names below the directory.
    """

    reason: str
    commands: frozenset[str] | None = field(default=None, converter=optional(_names))
    short: str = ""
    long: frozenset[str] = field(default=frozenset(), converter=_names)
    is_single: bool = False
    is_exact: bool = False
    max_operands: int | None = None
    is_inside: bool = False


# fmt: off
NEVER: Final[tuple[tuple[str, str], ...]] = (
    ("is a shell, and runs any command", " ".join((*sorted(SHELLS), "pwsh elvish nu xonsh rc es busybox toybox yash osh"))),
    ("runs another program", " ".join(sorted(WRAPPERS))),
    ("runs another program", ("chronic multitime hyperfine watchexec nodemon inotifywait run-parts start-stop-daemon capsh bwrap "
        "proot wine ld.so ldd ltrace setsid ionice nq tsp pssh rush dbus-launch gtk-launch xdg-open open gio x-terminal-emulator xterm "
        "konsole kitty alacritty tmux concurrently forever pm2 logsave choom uclampset cset cgexec runcon sg newgrp login agetty getty "
        "i386 x86_64 aoss eatmydata ssh-agent chpst envdir envuidgid softlimit setuidgid setlock execlineb daemonize daemon with-lock lockf lockrun "
        "cronic ifne sem direnv dotenv aws-vault aws-okta op doppler chamber vault sops devbox pixi toolbox distrobox parallel-rsync faketime runscript systemd-nspawn machinectl fzf sk parallel-ssh")),
    ("runs code", " ".join((*sorted(INTERPRETERS), *sorted(CODE_FIRST), ("wish irb pry R Rscript luajit java javac jshell groovy scala kotlin kotlinc "
        "dotnet mono csi fsi erl iex elixir mix ghc ghci runghc runhaskell stack cabal ocaml racket guile clojure clj lein sbcl clisp "
        "swift crystal nim zig dart flutter perl5 pythonw ipython bpython jupyter ts-node tsx tsc esbuild swc webpack vite rollup jest "
        "vitest mocha ava karma cypress playwright storybook m4 ed red vimdiff view rview rvim gvim gview nano pico micro joe jed mg "
        "kak hx dc gnuplot octave maxima gdb lldb sqlite3 psql mysql mariadb mongo mongosh redis-cli bsql duckdb nasm gcc g++ cc c++ clang "
        "clang++ cpp ld as tcc rustc gfortran go-run latex pdflatex xelatex lualatex tex pdftex luatex groff troff gs ghostscript pandoc "
        "magick convert ffmpeg xsltproc jrunscript jjs nickle tclsh8 xmlstarlet")))),
    ("runs code that its options or the files of the project name", (
        "coverage mkdocs sphinx-build sphinx-autobuild pylint flake8 nosetests nose2 trial behave robot locust celery gunicorn uvicorn hypercorn daphne "
        "waitress-serve flask django-admin scrapy airflow dbt luigi prefect dagster streamlit kernprof py-spy scalene memray mprof viztracer torchrun "
        "accelerate deepspeed rspec cucumber rubocop puma unicorn rackup thin jekyll phpunit pest bats prove busted astro next nuxt ng gatsby parcel "
        "eleventy hexo hugo pelican nikola stylelint doxygen valac")),
    ("runs another program", ("msgfilter msgexec sensible-editor sensible-pager sensible-browser select-editor editor run-mailcap see edit "
        "compose print www-browser x-www-browser sshpass autossh pdsh clush dsh cssh ccache distcc sccache icecc rr heaptrack gdbserver bpftrace stap "
        "mpirun mpiexec srun sbatch qsub wasmtime wasmer watchman-make chokidar rerun update-alternatives yad zenity")),
    ("runs commands from a file of the project", ("make gmake bmake ninja cmake ctest meson scons just rake task ant mvn gradle sbt bazel buck buck2 tox "
        "nox invoke fab doit pre-commit lerna nx turbo grunt gulp bundle rails composer vagrant ansible ansible-playbook puppet salt chef terraform "
        "tofu pulumi packer helm skaffold tilt docker-compose podman-compose foreman overmind honcho procfile act poetry hatch pdm pipenv rye uv")),
    ("fetches programs and runs them", ("npx pnpx bunx uvx pipx pip pip3 easy_install gem cpan cpanm luarocks opam conda mamba micromamba apt apt-get aptitude "
        "dpkg yum dnf rpm zypper pacman apk brew port snap flatpak nix nix-env nix-shell nix-build guix choco winget scoop rustup nvm fnm volta asdf mise "
        "pyenv rbenv corepack degit create-react-app")),
    ("runs programs in a container or on another machine", ("docker podman nerdctl buildah ctr crictl lxc lxc-attach incus ssh scp sftp rsync mosh telnet ftp "
        "lftp rsh rlogin nc ncat netcat socat aws gcloud az oc heroku fly flyctl")),
    ("fetches from anywhere, and writes files that its options name: allow web_fetch(domain:…) instead",
        "curl wget wget2 aria2c http https httpie xh axel lynx w3m links elinks youtube-dl yt-dlp"),
    ("writes files, or runs them as programs", ("tar bsdtar gtar cpio pax tee sponge dd split csplit patch xxd ar 7z 7za rar shred "
        "sdiff openssl gpg gpg2 ssh-keygen tcpdump tshark nmap logrotate mail mailx sendmail mutt script replay scriptreplay ctags install-info")),
    ("shows text through other programs", "less more most man info pg pager ncdu ranger mc vifm lf nnn bat-pager git-shell whiptail dialog"),
    ("runs programs that its options or its settings name", "hg jj bzr brz darcs fossil cvs p4 svn exiftool ip"),
    ("runs commands later, or starts services", " ".join((*sorted(READS_COMMANDS), "systemctl service launchctl supervisord supervisorctl initctl anacron"))),
    ("is a builtin that defines or evaluates code", " ".join((*sorted(DECLARES), *sorted(SETS), ("eval . source exec command builtin trap alias unalias printf test [ "
        "let set shopt unset enable hash bind complete compopt compgen fc history jobs fg bg disown wait ulimit umask return exit logout shift times "
        "type pushd popd dirs suspend caller break continue help")))),
)
"""Programs that no star covers, by reason."""

_GIT: Final = (
    "add blame branch cat-file check-ignore checkout cherry cherry-pick clean clone commit count-objects describe diff diff-files diff-index "
    "diff-tree fetch for-each-ref fsck grep init log ls-files ls-remote ls-tree merge merge-base mv name-rev notes pull push range-diff reflog "
    "remote reset restore rev-list rev-parse revert rm shortlog show show-branch show-ref stash status switch symbolic-ref tag version "
    "whatchanged worktree"
)

_GIT_READS: Final = (
    "blame cat-file cherry count-objects describe diff diff-files diff-index diff-tree for-each-ref grep log ls-files ls-tree merge-base name-rev "
    "range-diff rev-list rev-parse shortlog show show-branch show-ref status whatchanged"
)
ONLY_READS: Final[Mapping[str, tuple[frozenset[str] | None, str]]] = MappingProxyType({
    "git": (frozenset(_GIT_READS.split()), "these print what the repository holds; `STAR_ROWS` has the options that do more"),
    **dict.fromkeys(["id", "nproc", "pwd", "uname", "uptime", "whoami"], (None, "prints facts about the machine, and no file")),
    **dict.fromkeys(["basename", "dirname"], (None, "prints its arguments")),
})
"""Programs, or their commands, that only read, each with its reason. `STAR_ROWS` lists their options that do more.

Programs that print any file or folder, such as `cat`, `grep` and `ls`, are excluded: with a star they print everything
that the user can read.
"""

_PYTEST: Final = StarRow(
    "runs code that its options name, or writes files", short="cpo", is_inside=True,
    long="basetemp junit-xml junitxml log-file rootdir confcutdir override-ini config-file pdbcls debug import-mode cov-report cov-config report-log "
    "result-log pastebin trace-config tx px rsyncdir html json-report-file durations-path benchmark-storage benchmark-json")
STAR_ROWS: Final[Mapping[str, StarRow]] = MappingProxyType({
    "git": StarRow("such options and commands of git run programs, write files or use another repository; a command that git does not know may be an alias", _GIT,
                long="output upload-pack receive-pack exec ext-diff textconv filters open-files-in-pager config template extcmd strategy separate-git-dir "
                "git-dir work-tree paginate exec-path namespace config-env no-index contents exclude-from pathspec-from-file"),
    "find": StarRow("runs programs, removes files or writes them", is_single=True, is_exact=True,
                 long="exec execdir ok okdir delete fprint fprint0 fprintf fls"),
    "fd": StarRow("runs programs", short="xX", long="exec exec-batch"),
    "fdfind": StarRow("runs programs", short="xX", long="exec exec-batch"),
    "rg": StarRow("runs programs", short="z", long="pre hostname-bin search-zip"),
    "ag": StarRow("runs a pager", long="pager"),
    "ack": StarRow("runs a pager, or reads options from a file", long="pager ackrc create-ackrc output"),
    "sort": StarRow("writes a file, or runs a program", short="oT", long="output compress-program temporary-directory"),
    "shuf": StarRow("writes a file", short="o", long="output"),
    "uniq": StarRow("writes its second operand", max_operands=1),
    "tree": StarRow("writes a file", short="oR", long="output"),
    "file": StarRow("writes a compiled list, or runs programs", short="CzZm", long="compile uncompress magic-file"),
    "nm": StarRow("loads a library", long="plugin"),
    "objdump": StarRow("loads a library", long="plugin"),
    "diff": StarRow("runs pr", short="l", long="paginate"),
    "diff3": StarRow("runs a program", long="diff-program"),
    "date": StarRow("sets the clock", short="s", long="set"),
    "hostname": StarRow("names the machine", short="bF", long="boot file", max_operands=0),
    "install": StarRow("runs a program", short="s", long="strip strip-program"),
    "zip": StarRow("runs a program", short="TO", long="unzip-command test output-file", is_single=True),
    "iconv": StarRow("writes a file", short="o", long="output"),
    "xmllint": StarRow("writes a file, or reads commands", short="o", long="output shell", is_single=True),
    "yq": StarRow("writes files", short="is", long="inplace in-place split-exp"),
    "jq": StarRow("reads a program from a file", short="fL", long="from-file library-path"),
    "dot": StarRow("writes a file", short="oOl"),
    "zstd": StarRow("writes a file", short="o", long="output-dir-flat output-dir-mirror filelist"),
    "bat": StarRow("runs a pager", long="pager config-file"),
    "batcat": StarRow("runs a pager", long="pager config-file"),
    "delta": StarRow("runs a pager", long="pager config"),
    "npm": StarRow("such options and commands run other programs", "run run-script test t ls list outdated view audit ci start version",
                short="cC", long="script-shell prefix userconfig globalconfig node-options shell call editor viewer git cache init-module package",
                is_single=True),
    "yarn": StarRow("such options and commands run other programs", "run test list why info outdated audit",
                 long="cwd script-shell use-yarnrc modules-folder cache-folder"),
    "pnpm": StarRow("such options and commands run other programs", "run test list ls why outdated audit",
                 short="cC", long="dir script-shell shell-mode config prefix store-dir"),
    "cargo": StarRow("such options and commands run other programs, or use another project", "build check test fmt clippy tree metadata doc bench clean",
                  short="CZ", long="config target-dir manifest-path out-dir artifact-dir lockfile-path open"),
    "go": StarRow("such options and commands run other programs, or write files", "build test vet fmt list version doc", is_single=True, is_exact=True,
               long="exec toolexec o C overlay modfile vettool cpuprofile memprofile blockprofile mutexprofile coverprofile trace outputdir ldflags gcflags "
               "asmflags gccgoflags compiler pkgdir test.exec test.cpuprofile test.memprofile test.blockprofile test.mutexprofile test.coverprofile test.trace "
               "test.outputdir test.testlogfile test.gocoverdir"),
    "gh": StarRow("such options and commands run other programs, write files, or change anything", "pr issue run release status", short="weDO",
               long="web editor recover browser dir output"),
    "kubectl": StarRow("such options and commands run programs in a cluster, write, or send a token elsewhere", "get describe logs top version explain", short="s",
                    long="kubeconfig cache-dir profile-output server"),
    "pytest": _PYTEST,
    "py.test": _PYTEST,
    "mypy": StarRow("runs a program, reads plugins, or writes files", is_inside=True, long="python-executable install-types config-file cache-dir junit-xml any-exprs-report cobertura-xml-report "
                 "html-report linecount-report linecoverage-report lineprecision-report txt-report xml-report xslt-html-report xslt-txt-report custom-typeshed-dir "
                 "custom-typing-module shadow-file"),
    "ruff": StarRow("writes a file, or reads other settings", "check format rule version", short="o", long="output-file config cache-dir"),
    "eslint": StarRow("loads code that its options name, or writes a file", short="cof",
                   long="config output-file format formatter rulesdir plugin resolve-plugins-relative-to parser cache-location cache-file init"),
    "prettier": StarRow("loads code that its options name", long="plugin config plugin-search-dir cache-location"),
})
# fmt: on

_GIT_SHORT: Final[Mapping[str, str]] = MappingProxyType(
    {"clone": "uc", "grep": "O", "merge": "s", "pull": "s", "cherry-pick": "s", "revert": "s"}
)
"""Short options with another meaning in other commands of git."""
_GIT_REMOTES: Final = frozenset({"clone", "fetch", "ls-remote", "pull", "push", "remote"})
# `ext::`, and any scheme except these, names a program that git runs.
_TRANSPORT: Final = re.compile(
    r"::|(?<![a-z0-9+.-])(?!(?:https?|ssh|git|file)://)[a-z0-9+.-]+://", re.IGNORECASE
)
_REASON_OF: Final[Mapping[str, str]] = MappingProxyType(
    {name.lower(): reason for reason, names in reversed(NEVER) for name in names.split()}
)
_TOLD: Final = frozenset(
    {NEVER[place][0] for place in (0, 1, 2)} | {NEVER[-1][0], "runs commands later, or starts services"}
)
# fmt: off
_HARMLESS_BUILTINS: Final = frozenset({
    "printf", "test", "[", "type", "history", "jobs", "ulimit", "umask", "return", "exit", "shift", "times", "dirs", "suspend", "help", "wait",
    "let", "unset", "continue", "break",
})
# fmt: on
"""Builtins that run no program, unless one of their words has an expansion in the index of a variable."""
_RUNS: Final = frozenset({"exec", "run"})
_NO_CODE: Final = frozenset({"-m", "--version", "-V", "--help", "-h"})
_VERSION: Final = re.compile(r"[-.\d]+\Z")
_MAY_BECOME_AN_OPTION: Final = ("*", "?", "[", "-")


@lru_cache(maxsize=1024)
def why_never(program: str) -> str | None:
    """Return why no star covers any command of a program. None if one may."""
    if "/" in program:
        return "is named by its path, which may hold any program"
    if program.startswith("git-"):
        return "is a git command: write it with a space"
    # Some file systems ignore case.
    name = program.lower()
    known = _REASON_OF.get(name)
    if known is not None or name in STAR_ROWS:
        return known
    # `python3.11`, `gcc-12`, `x86_64-linux-gnu-gcc-12`; `gxargs` is another name of the GNU version
    base = _VERSION.sub("", name)
    others = (base, base.rpartition("-")[2], name[1:] if name[:1] == "g" else "")
    return next((_REASON_OF[one] for one in others if one in _REASON_OF), None)


def runs_its_words(command: PlainCommand) -> str | None:
    """Return why a command may run a program or code from its words or its input. None for others, including `make`.

    For a guard without a policy, which would otherwise ask about each `make test`: the sandbox confines such programs.
    """
    words = command.run
    program = words[0]
    why = uncovered_by_star(command)
    name = _VERSION.sub("", program.lower())
    if why is None or (name in _HARMLESS_BUILTINS and set("".join(words)).isdisjoint("$`")):
        return None
    if name in INTERPRETERS:
        first = words[1] if len(words) > 1 else "-"
        has_code = not INTERPRETERS[name].isdisjoint(words) or (first[:1] == "-" and first not in _NO_CODE)
        return why if has_code else None
    if not _RUNS.isdisjoint(words[1:3]):  # `docker exec`, `kubectl exec`, `uv run`
        return why
    if why_never(program) is None:  # a row: an option that is not covered
        row = STAR_ROWS.get(name)
        is_command = (
            row is not None
            and row.commands is not None
            and words[1] not in row.commands
            and words[1][:1] != "-"
        )
        return None if is_command and name != "git" else why
    is_told = "/" in program or why.removeprefix(f"{program} ") in _TOLD or name in CODE_FIRST
    return why if is_told else None


def only_reads(command: PlainCommand) -> tuple[str, ...] | None:
    """Return the words before the star that "always" writes for a command: its program, perhaps with a subcommand."""
    words = command.words
    row = None if command.behind else ONLY_READS.get(words[0])
    if row is None or uncovered_by_star(command) is not None:
        return None
    if row[0] is None:
        return words[:1]
    return words[:2] if len(words) > 1 and words[1] in row[0] else None


def uncovered_by_star(command: PlainCommand) -> str | None:
    """Return why a star does not cover a command. None if it does."""
    words = command.run
    program = words[0]
    why = why_never(program)
    if why is not None:
        return f"{program} {why}"
    name = program.lower()
    others = (name, _VERSION.sub("", name), name[1:] if name[0] == "g" else name)  # `pytest-3`, `gsort`
    row = next((STAR_ROWS[one] for one in others if one in STAR_ROWS), None)
    if row is None:
        return None
    found = next(_uncovered(row, words, {place - command.behind for place in command.patterns}), None)
    return None if found is None else f"{program} with {found!r:.60}: {row.reason}"


def _uncovered(row: StarRow, words: tuple[str, ...], patterns: set[int]) -> Iterator[str]:
    """Yield the words that a star does not cover. Checks options after `--` too: an option before it may take it as a value."""
    if row.commands is not None and len(words) > 1 and (words[1] not in row.commands or 1 in patterns):
        yield words[1]
    operands, is_past = 0, False
    for place, word in enumerate(words[1:], 1):
        if place in patterns and (word.startswith(_MAY_BECOME_AN_OPTION) or row.max_operands is not None):
            yield word
        if word.startswith("-") and _is_uncovered_option(row, word):
            yield word
        if is_past or not word.startswith("-") or word == "-":
            operands += 1
            if row.is_inside and (word.startswith(("/", "@")) or ".." in word):
                yield word
        is_past = is_past or word == "--"
    if row.max_operands is not None and operands > row.max_operands:
        yield words[-1]
    if row is STAR_ROWS["git"] and len(words) > 1:
        short = _GIT_SHORT.get(words[1], "")
        for word in words[2:]:
            is_short = word.startswith("-") and not word.startswith("--")
            if is_short and not set(word).isdisjoint(short):
                yield word
            if words[1] in _GIT_REMOTES and _TRANSPORT.search(word):
                yield word
            # Git compares the contents of files outside of the working directory, as with --no-index.
            if words[1] == "diff" and (word.startswith("/") or ".." in word.split("/")):
                yield word


def _is_uncovered_option(row: StarRow, word: str) -> bool:
    is_long = word.startswith("--")
    if is_long or row.is_single:
        name = word.lstrip("-").partition("=")[0]
        if name in row.long or (name and not row.is_exact and any(bad.startswith(name) for bad in row.long)):
            return True
    if is_long:
        return False
    # git parses the rest of a bundle as an option again: `-c-output=x` is `-c --output=x`.
    begun = word.find("-", 1)
    if begun > 0 and _is_uncovered_option(row, f"-{word[begun:]}"):
        return True
    return not set(word).isdisjoint(row.short)
