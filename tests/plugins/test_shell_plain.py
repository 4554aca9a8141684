"""The small language of plain commands, and what no star covers."""

import shlex

import pytest
from hypothesis import given, strategies as st

from agentrail.plugins.shell_plain import MAX_PLAIN_CHARACTERS, NotRead, PlainLine, read_plain, read_words
from agentrail.plugins.shell_wildcards import uncovered_by_star


def stopped(line):
    reading = read_plain(line)
    assert isinstance(reading, NotRead), reading
    return reading


def why(line):
    reading = read_plain(line)
    assert isinstance(reading, PlainLine), reading
    return uncovered_by_star(reading.commands[0])


@pytest.mark.parametrize(
    ("line", "at", "said"),
    [
        ("ls $x", 3, "an expansion"), ("ls  `x`", 4, "an expansion"), ("ls a\\b", 4, "a backslash"), ("ls (", 3, "a group"), ("ls {a,b}", 3, "braces"),
        ("ls &", 3, "in the background"), ("ls 2>&1x", 4, "a redirection"),
        ("ls >/dev/nullx", 3, "a redirection"),
        ("ls >x", 3, "a redirection"), ("ls #x", 3, "a comment"), ("! ls", 0, "a negation"), ("ls ~", 3, "a user's home"),
        ("ls 'x", 3, "a quote"), ('ls "$x"', 3, "a quote"), ('ls "a!"', 3, "a quote"), ("a ;; b", 2, "an operator"), ("a |& b", 2, "an operator"), ("", 0, "the end"),
        (" ", 1, "the end"), ("a &&", 4, "the end"), ("a |\n", 4, "the end"), ("; a", 0, "no command"), ("a && ; b", 5, "no command"), ("a\n>/dev/null\nb", 12, "no command"),
        ("x=1 ls", 0, "an assignment"), ("'ls'", 0, "a quoted or unusual name"), ("ls; *x", 4, "a quoted or unusual name"), ("a; if x", 3, ", a reserved word of the shell"),
        ("ls 22>/dev/null", 5, "another descriptor"), ("ls 2</dev/null", 4, "another descriptor"), ("ls \r", 3, "U+000D"), ("ls a\u200bb", 4, "U+200B"), ("ls \ud800", 3, "U+D800"),
        ("ls \u00a0", 3, "U+00A0"), ("ls é", 3, "'é'"), ("x" * (MAX_PLAIN_CHARACTERS + 1), MAX_PLAIN_CHARACTERS, "10,000 characters"),
    ],
)  # fmt: skip
def test_what_is_not_read_says_where_and_why(line, at, said):
    """Each construct that the language leaves out stops it, at its place."""
    reading = stopped(line)
    assert (reading.at, said in reading.why) == (at, True), reading


@pytest.mark.parametrize(
    ("line", "run"),
    [
        ("timeout 5 make x", "make"), ("timeout -k 1s -s KILL --foreground 5m make", "make"), ("timeout -v --preserve-status 5 make", "make"), ("nice make", "make"),
        ("nice -n 5 make", "make"), ("nice -5 make", "make"), ("nice -n5 make", "make"), ("nice --adjustment=5 make", "make"), ("nohup nice timeout 5 make", "make"), ("stdbuf -oL -e0 make", "make"),
        ("nice -n x make", "nice"), ("nice --x make", "nice"), ("timeout make", "timeout"), ("timeout --x 5 make", "timeout"), ("timeout -k x 5 make", "timeout"), ("stdbuf make", "stdbuf"),
        ("stdbuf -o L make", "stdbuf"), ("nohup", "nohup"), ("nohup 'make'", "nohup"), ("nohup ma*e x", "nohup"), ("timeout ? make", "timeout"),
    ],
)  # fmt: skip
def test_four_programs_are_looked_through(line, run):
    """`timeout`, `nice`, `nohup` and `stdbuf`, where it is certain what they run; else they are the program."""
    (command,) = read_plain(line).commands
    assert command.run[0] == run


@pytest.mark.parametrize(
    "line",
    [
        "bash x", "Bash x", "/bin/ls", "./x", "git-log", "python3.11 x", "gcc-12 x", "x86_64-linux-gnu-gcc x", "gxargs x", "gsort -o x", "find . -exec x", "find . -delete", "find * x", "sort --o x",
        "sort -ro x", "sort *", "sort -*", "sort -- *", "uniq a b", "uniq a*", "uniq -- -a b", "uniq - b", "git foo", "git -C x log", "git sta?us", "git log --outp=x", "git grep -Ox y", "git shortlog -c-outp=x", "git clone -qu x y",
        "git fetch foo::x", "git clone foo://x", "git push Foo://x", "npm exec x", "npm run x -script-shell=y", "npm run x --scr y", "go test -exec x", "go test --exec=x", "pytest /tmp/x.py", "pytest ../x", "pytest @x",
        "curl x", "timeout 5 sort -o x y", "hostname x", "make", "hg --config hooks.x=y st", "svn diff --diff-cmd x", "ip netns exec x y", "exiftool -config x y", "nm --plugin x", "objdump --plug=x",
    ],
)  # fmt: skip
def test_no_star_covers_what_runs_or_writes_as_it_is_told(line):
    """Each kind of row of the table, with the spellings that getopt takes."""
    assert why(line) is not None


@given(st.text(max_size=40) | st.text("ab '\"$`\\;|&<>#\n\t/*-2", max_size=25))
def test_reading_is_total_and_loses_no_words(line):
    """No text makes it raise; what is read has the words that `shlex` finds too."""
    reading = read_plain(line)
    if isinstance(reading, NotRead):
        assert 0 <= reading.at <= len(line)
        return
    assert len(reading.joints) == len(reading.commands) - 1
    marks = {"&&", "||", "|", ";", "2>&1", ">", ">>", "<", "/dev/null", "2>", "1>", "2>>", "1>>"}
    cut = shlex.shlex(line.replace("\n", ";"), posix=True, punctuation_chars=True)
    cut.whitespace_split, cut.commenters = True, ""
    told = [word for command in reading.commands for word in command.words]
    assert [word for word in told if word not in marks] == [
        word for word in cut if word not in marks and not set(word) <= set("&|;<>12")
    ] or not set("<>12&;|'\"").isdisjoint(line)


@given(st.lists(st.text(max_size=6), min_size=1, max_size=4))
def test_an_argument_vector_is_what_it_is(words):
    """No shell reads it: its words are those that were given, whatever is in them."""
    reading = read_words(words)
    assert isinstance(reading, NotRead) or reading.commands[0].words == tuple(words)
    assert isinstance(read_words(["ls", *words]), PlainLine)
    assert isinstance(read_words([]), NotRead)
    assert isinstance(read_words(["ls", "x" * MAX_PLAIN_CHARACTERS]), NotRead)
