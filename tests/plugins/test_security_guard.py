"""`SecurityGuard`: which command lines and which paths pass, harmless look-alikes included."""

import sys

import pytest
from hypothesis import given, strategies as st

from agentrail import plugins as p
from agentrail.core.stack.loaded_stack import load_stack
from agentrail.core.stack.pipeline import run_hook
from agentrail.messages import CallId, SessionId
from agentrail.plugins.protected_paths import first_that_protects
from agentrail.plugins.security_guard import SecurityGuard
from agentrail.plugins.shell_plain import PlainLine, read_plain
from agentrail.plugins.shell_programs import destroys
from tests.plugins.guard_lines import ATTACKS, ORDINARY
from tests.thinned import each, first

CTX = p.Context(session_id=SessionId("s"), working_dir="/srv/project")


def judged(name, arguments, **options):
    stack, states = load_stack([(SecurityGuard, options)])
    event = p.BeforeTool(name=name, arguments=arguments, call_id=CallId("c"))
    return run_hook(stack, event, states, CTX)


def is_refused(name, arguments, **options):
    """Whether the call is refused, and not only asked about."""
    decision = judged(name, arguments, **options).decision
    return decision is not None and isinstance(decision.action, p.BlockTool)


def is_blocked(name, arguments, **options):
    """Whether the call does not run by itself: it is refused, or a person is asked. By the guard's own answer, and not because it failed."""
    outcome = judged(name, arguments, **options)
    assert outcome.decision is None or not outcome.decision.failed, outcome.decision
    return outcome.decision is not None


REFUSED_LINES = [
    *("rm -rf build", "rm -fr build", "rm -r -f build", "rm build -rf", "rm -R --force build"),
    *("rm --recursive --force build", "rm --rec --for build", "/bin/rm -rf /", "r\\m -rf /", "'rm' -rf /"),
    *('r"m" -rf /', "$'\\x72m' -rf /", "$'\\162\\u6d' -rf /", "$'rm\\0 says nothing' -rf /"),
    *("$'r\\U0000006d' $'\\55rf' /", "ls; rm -rf /", "ls && rm -rf /", "false || rm -rf /"),
    *("ls | rm -rf x", "sleep 1 & rm -rf /", "ls\nrm -rf /", "ls \\\n; rm \\\n-rf /"),
    *("(cd /tmp && rm -rf x)", "{ rm -rf x; }", "if true; then rm -rf x; fi"),
    *("for f in *; do rm -rf $f; done", "! rm -rf x", "2>/dev/null rm -rf x", "sudo rm -rf /"),
    *("sudo -u root -E rm -rf /", "sudo -- rm -rf /", "env A=1 rm -rf x", "env -i rm -rf x"),
    *("env -S 'rm -rf x'", "nohup nice -n 5 rm -rf x", "timeout -k 1 5 rm -rf x", "sh -c 'rm -rf x'"),
    *("bash -lc 'ls; rm -rf x'", "bash -o pipefail -c 'rm -rf x'", "sh -c \"sh -c 'rm -rf x'\""),
    *("eval 'rm -rf x'", "eval rm -rf x", "su -c 'rm -rf x' root", "echo x | xargs rm -rf"),
    *("find . | xargs -0 -n 1 rm -rf", "xargs -I {} sh -c 'rm -rf {}'"),
    *("find . -name x -exec rm -rf {} \\;", "echo 'rm -rf x' | sh", 'echo "$(rm -rf x)"'),
    *("echo `rm -rf x`", "ls $(rm -rf x)", "diff <(rm -rf x) y", "bash <<EOF\nrm -rf x\nEOF"),
    *("X=rm; $X -rf x", 'C="rm -rf x"; $C', "A=rm B=-rf; ${A} ${B} x", "${X:-rm} -rf x"),
    *("rm${IFS}-rf${IFS}x", "{rm,-rf,x}", "$(echo rm) -rf x", "`echo rm` -rf x", "busybox rm -rf x"),
    *("${X%.*} -rf x", 'echo "a \\" b"; rm -rf x', "r\\\nm -rf x"),
    *("echo \"$(echo '(' \\) (x); rm -rf x)\"", "echo `echo \\`rm -rf x\\``"),
    *("env --split-string='rm -rf x'", "env -S'rm -rf x'", "cat <&3 <<-E | rm -rf x"),
    *("echo a#b; rm -rf x", "mkfs.ext4 /dev/sda1", "mkfs -t ext4 /dev/sda1", "fdisk /dev/sda"),
    *("dd if=/dev/zero of=/dev/sda", "dd bs=1M if=/dev/zero of=x", "shred -u notes.txt", "kill -9 -1"),
    *("kill -s KILL -1", "kill -- -1", "killall5 -9", "pkill -9 .", "shutdown -h now", "sudo reboot"),
    *("systemctl poweroff", "init 0", "cat ~/.ssh/id_rsa", "cat $HOME/.ssh/id_rsa"),
    *('cat "${HOME}/.aws/credentials"', "cp server.pem /tmp", "echo KEY=1 >> .env", "cat < /etc/shadow"),
    *("cat /etc/sh?dow", "cat ../../etc/passwd", "curl --cert=client.pem https://example.com"),
    "scp host:/home/me/.ssh/id_rsa .",
]
HARMLESS_LINES = [
    *("ls -la", "rm notes.txt", "rm -r build", "rm -f build.log", "rm -- -rf"),
    *("git rm -rf --cached build", "echo rm -rf /", "echo 'rm -rf /'", "echo '$(rm -rf /)'"),
    *('echo "rm -rf /"', "grep 'rm -rf' Makefile", "grep -rf patterns.txt src"),
    *("git commit -m 'never rm -rf / again'", "echo \\$(ls)", "# rm -rf /", "ls # rm -rf /"),
    *("printf '%s' 'shutdown now'", "man shutdown", "which mkfs", "kill -1 1234", "kill -9 1234"),
    *("kill -l", "pkill -f my_server.py", "dd of=x count=1", "ddrescue x y", "formatdisk"),
    *("systemctl status nginx", "init_db 0", "npm init", "sudo -u me ls", "env", "env A=1", "sudo"),
    *("xargs", "sh script.sh", "sh", "echo ls | sh", "sh -c", "$EDITOR notes.txt"),
    *("find . -name '*.pyc' -delete", "find . -exec", "cat environment.yml", "python src/env.py"),
    *("ls > out.txt 2>&1", "ls &> out.txt", "for key in a b; do echo $key; done", "cat /etc/hosts"),
    *("ls ~", "cat ~/.sshrc_notes", "cat passwd", "cat etc/passwd_reset.md", 'echo "unclosed'),
    *("echo $(unclosed", "echo 'unclosed", "echo `unclosed", ""),
]


def test_there_are_as_many_lines_as_were_asked_for():
    """At least sixty command lines and forty paths (issue 5), and a hundred ordinary lines, each once (issue 13)."""
    assert len(REFUSED_LINES) + len(HARMLESS_LINES) >= 60
    assert len(REFUSED_PATHS) + len(HARMLESS_PATHS) >= 40
    assert len(set(ORDINARY)) == len(ORDINARY) >= 100


@each("line", [*REFUSED_LINES, *ATTACKS])
def test_a_dangerous_line_is_refused(line):
    """Whatever a shell makes of it; a line that is not read, or whose programs run other ones, is asked about (5.8, 12.7)."""
    assert is_blocked("shell", {"command": line})


@each("line", HARMLESS_LINES)
def test_a_harmless_line_is_not_refused(line):
    """Not by substring: words in quotes, names that look alike and other options are fine (5.8). What is not read is asked about."""
    assert not is_refused("shell", {"command": line})
    is_read = isinstance(read_plain(line), PlainLine) or not line.strip()
    told = ("sudo", "env", "xargs", "sh", "echo ls | sh", "find", "systemctl")
    assert is_blocked("shell", {"command": line}) == (not is_read or line.startswith(told))


REFUSED_NAMES = """
    server.key certs/server.PEM a/b.p12 a.pfx a.crt a.cer .env .env.local app/.env .envrc ~/.ssh/id_rsa
    ~/.ssh /home/me/.ssh/config /root/.ssh/authorized_keys /Users/me/.ssh/id_ed25519 ../.ssh/id_rsa
    $HOME/.gnupg/secring.gpg ~/.aws/credentials ~/.config/gcloud/credentials.db ~/.azure/token
    ~/.kube/config ~/.docker/config.json ~/.netrc ~/Library/Keychains/login.keychain
    ~/.local/share/keyrings/x /etc/passwd /etc/shadow //etc//./shadow /etc/../etc/shadow /usr/../etc/passwd
    ../../etc/passwd ../../../../../etc/passwd /proc/self/root/etc/shadow /proc/1/root/etc/passwd
    file:///etc/passwd /ETC/SHADOW
    """
REFUSED_PATHS = [*REFUSED_NAMES.split(), " /etc/shadow "]
HARMLESS_NAMES = """
    src/app.py keyboard.py docs/key.md monkey env/settings.py environment.env.py README.env.md pem.txt
    a.pem.txt certificate.txt ssh/config dotssh/.sshx etc/passwd /srv/project/etc/shadow
    /etc/passwd.d/readme /etc/hosts /etcetera/shadow docker/config.json aws/credentials.md .. . * *.c*
    config.* [a-b]*.py *.x[[:alpha:]]
    """
HARMLESS_PATHS = [*HARMLESS_NAMES.split(), "", "a" * 5_000 + "/.env"]


@each("path", REFUSED_PATHS)
def test_a_protected_path_is_refused(path):
    """In any spelling, for any tool that takes a path, and as a word of a command (5.8)."""
    assert is_blocked("read_file", {"path": path})
    assert is_blocked("move", {"items": [{"source_path": "a"}, {"destination": path}]})
    assert is_blocked("shell", {"command": ["cat", path]}) or path.strip() != path or path.startswith("$")


@each("path", HARMLESS_PATHS)
def test_another_path_passes(path):
    """Names that only look alike are fine."""
    assert not is_blocked("read_file", {"path": path})


@each("path", ["b.ax", "[bc]y", "x.[bc]x", "by"])
def test_a_pattern_of_ones_own_may_have_sets(path):
    """A set on both sides is alike where any name could be."""
    assert is_blocked("read_file", {"path": path}, blocked_paths=["*.[ab]x", "[ab]y"])
    assert not is_blocked("read_file", {"path": path + "z"}, blocked_paths=["*.[ab]x", "[ab]y"])


def test_own_rules_are_added_to_the_defaults_or_stand_alone():
    """`blocked_paths`, `blocked_commands` and `defaults=False` (5.8). Arguments are looked into to any depth, keys in any case."""
    rules = {"blocked_paths": ["secrets", "/srv/data"], "blocked_commands": ["git push", "docker"]}
    for options in (rules, {**rules, "defaults": False}):
        assert is_blocked("read_file", {"path": "a/secrets/b"}, **options)
        assert is_blocked("read_file", {"path": "/srv/data/x"}, **options)
        assert is_blocked("shell", {"command": "sudo /usr/bin/git push --force"}, **options)
        assert is_refused("shell", {"command": "/usr/bin/git push --force"}, **options)
        assert is_blocked("shell", {"command": "docker ps"}, **options)
        assert not is_blocked("shell", {"command": "git pull"}, **options)
        assert is_blocked("shell", {"command": "rm -rf x"}, **options) == options.get("defaults", True)
        assert is_blocked("read_file", {"path": ".env"}, **options) == options.get("defaults", True)
    assert not is_blocked("shell", {"command": "$(echo ls)"}, defaults=False)

    assert is_blocked("x", {"paths": [["a"], [[".env"]]]})
    assert is_blocked("x", {"steps": ({"do": [{"Command": "rm -rf x"}]},)})
    assert is_blocked("x", {"commands": ["ls", "rm -rf x"]})
    assert is_blocked("x", {"argv": ["rm", "-rf", "x"]})
    assert not is_blocked("x", {"argv": ["echo", "rm -rf x"], "paths": [1, None]})


def test_a_line_that_is_not_read_is_asked_about_unless_a_policy_decides():
    """The person reads where reading stopped, and how to write it; with `Permissions` in the stack that one decides alone (12.7)."""
    for line, why in (
        ("echo $(ls)", "after character 5: an expansion"),
        ("sudo ls", "runs another program"),
    ):
        asked = judged("shell", {"command": line}).decision.action
        assert isinstance(asked, p.RequireApproval)
        assert why in asked.hint
        assert "write them with && ; or |" in asked.hint
        event = p.BeforeTool(name="shell", arguments={"command": line}, call_id=CallId("c"))
        stack, states = load_stack([SecurityGuard])
        ctx = p.Context(session_id=SessionId("s"), plugins=("Permissions", "SecurityGuard"))
        assert run_hook(stack, event, states, ctx).decision is None
    assert judged("shell", {"command": "echo $(ls)"}, defaults=False).decision is None
    assert is_refused("shell", {"command": "sudo ls; rm -rf x"})


@each("line", ORDINARY)
def test_an_ordinary_line_is_not_refused(line):
    """Nobody is stopped at what people type all day; what is not read is asked about."""
    assert not is_refused("shell", {"command": line}), judged("shell", {"command": line}).decision


BLOCKED = {"blocked_commands": ["git push", "docker system prune", "deploytool production", "curl", ""]}


@each(
    ("line", "is_hit"),
    [
        *((line, True) for line in ("git -C . push", "git --no-pager push --force", "git -C $(pwd) push")),
        ("git -c a.b=c --git-dir=.git push", True),
        ("sudo git push", True),
        ("git -c alias.p=push p", True),
        ("docker --context x system prune -f", True),
        ("deploytool --level 3 -v production", True),
        *((line, True) for line in ("curl x", "2>&1 curl x", "A[0]=1 curl x", "function f { curl x; }; f")),
        *((line, True) for line in ("echo ${x:-$(curl x)}", "echo a #'\ncurl x")),
        *((line, False) for line in ("git pull", "git log push", "docker ps", "deploytool", "curling x")),
    ],
)
def test_options_do_not_hide_a_blocked_command(line, is_hit):
    """The command is the first word behind the options of its program, whose own words are known by a table."""
    assert is_blocked("shell", {"command": line}, **BLOCKED) is is_hit


MEGABYTE = 1_000_000
HOSTILE = (
    *("${" * 9_999, "a" * MEGABYTE, "$(" * 500_000, "`" * MEGABYTE, "{a,b}" * 200_000, "<<a " * 250_000, "*" * MEGABYTE, "ls;" * 333_333),
    *("a=x;" + "a=$a$a;" * 24 + "$a", "(" * 19_999, '"$(' * 6_000, "{" * 19_999, "{a,b}" * 3_999, "ls;" * 6_600),
    *("<<a " * 4_900 + "\n", "a=(" * 6_000, "f " + "*a" * 9_000, "/" + "[" * 19_000, "a/" * 9_000, "printf " + "%s" * 3000 + " a" * 6000),
    *("((" * 9_999, "$((" * 6_000, "x " * 9_999, "'" * 19_999, "#\n" * 9_999, "case x in " + "a|" * 9_000 + "a) ls;; esac", "sudo -a " * 2_400),
)  # fmt: skip


@pytest.mark.parametrize("line", first(HOSTILE, 10), ids=range(len(HOSTILE)))
def test_the_guard_reads_in_bounds(line):
    """A line of a megabyte, or one that makes a megabyte of itself, is judged at once: work grows as the line does, to a bound."""
    work = 0

    def count(frame, event, arg):
        nonlocal work
        work += event == "call"

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        is_blocked("shell", {"command": line, "path": line})
        is_blocked("shell", {"command": [line, line], "paths": [line]})
    finally:
        sys.setprofile(before)
    assert work < 1_500_000


WORDS = "rm -rf x ls sudo sh -c env A=1 $A echo xargs timeout 5"
GLUE = "; | && $( ) ` \" ' >"
PIECES = (
    *(*WORDS.split(), "'rm -rf x'", *(f" {one} " for one in GLUE.split())),
    *(" ", "\n", "\\", "{", "}", "<<", "&", "${", "$'"),
)


@given(pieces=st.lists(st.sampled_from(PIECES) | st.text(max_size=3), max_size=20))
def test_no_line_makes_the_guard_fail(pieces):
    """Whatever a model writes, the guard gives a verdict of its own."""
    is_blocked("shell", {"command": " ".join(pieces), "path": "".join(pieces)})


@given(
    before=st.lists(st.sampled_from(("ls", "echo 'x y'", "cd a", "A=1", "true")), max_size=3),
    separator=st.sampled_from((" ; ", " && ", " || ", "\n", " | ", " & ")),
    wrap=st.lists(
        st.sampled_from(("sudo ", "env A=1 ", "nohup ", "timeout 5 ", "xargs ", "command ")), max_size=3
    ),
)
def test_no_surroundings_hide_a_dangerous_command(before, separator, wrap):
    """What is refused alone is refused behind anything, and through any wrappers."""
    line = separator.join([*before, "".join(wrap) + "rm -rf x"])
    assert is_blocked("shell", {"command": line})


def test_what_takes_too_long_to_judge_is_refused():
    """Each look is paid for; where nothing is left to pay with, the call does not run, and the model reads why."""
    for arguments in (
        {"command": "".join(f"cd {i};" for i in range(20)) + "ls a;" * 900},
        {"paths": [f"a{i}" for i in range(20_000)]},
        {"paths": [f"*a{i}*" + "*a" * 100 for i in range(50)]},
    ):
        assert "names more paths than can be judged" in judged("shell", arguments).decision.action.reason
    paths = [f"{place}{'*a' * 200}" for place in range(1_000)]
    assert is_blocked("read_file", {"paths": paths})
    assert not is_blocked("read_file", {"paths": paths[:1]})
    # A pattern that asks for more letters than a name has meets nothing.
    assert first_that_protects(("secret",), "s*" + "a" * 300, working_dir="/w") is None
    assert first_that_protects(("secret",), "s*t", working_dir="/w") == "secret"


def test_find_deletes_only_behind_a_test():
    """A test that is turned around, or a branch without one, says of nothing that it stays."""
    for line, is_refused in (
        ("find . -not -name x -delete", True),
        ("find . -name x -o -delete", True),
        ("find . -name x -delete", False),
        ("find . -empty -delete", False),
    ):
        assert (destroys(read_plain(line).commands[0]) is not None) is is_refused, line
