"""What "always" allows: the very command that a person saw, and nothing else (12.7); and what it allowed in records of before."""

import re
import shlex

from hypothesis import example, given, strategies as st

from agentrail.core.session.approval_rules import covers, plain_words, program_family_of, rule_of
from agentrail.core.session.state import Rule
from agentrail.frozen import frozen_json
from tests.thinned import each

# Each was allowed by "always" of the first one, while a rule stood for a program: 24 of 24 tried.
PAIRS = [
    ("git clean -n", "git clean -fdx"),
    ("tar -tf a.tar", "tar -cf /dev/null a --checkpoint=1 --checkpoint-action=exec=./evil"),
    ("npm run test:unit", "npm run deploy"),
    ("sed -n 1p a", "sed 1e./evil a"),
    ("sort a", "sort --compress-program=./evil -S1 a"),
    ("git log", "git log --output=a"),
    ("git push origin main", "git push --force origin main"),
    ("kubectl get pods", "kubectl get secrets -o yaml"),
    ("gh pr view 3", "gh pr merge 3 --admin"),
    ("rg x", "rg --pre ./evil x"),
    ("ls", "ls -la"),
    ("ls", "ls "),
]
LINES = st.sampled_from([line for pair in PAIRS for line in pair]) | st.text(max_size=12)
ARGUMENTS = st.fixed_dictionaries(
    {"command": LINES},
    optional={
        "workdir": st.sampled_from([".", "./", "", "sub", "/"]),
        "timeout_seconds": st.floats(1, 99),
        "background": st.booleans(),
        "host": st.sampled_from(["a", "b", None, False]),
    },
)


@each(("shown", "other"), PAIRS)
def test_a_rule_of_one_command_covers_no_other(shown, other):
    """Not with one more word, and not with one more blank."""
    rule = rule_of("shell", {"command": shown})
    assert covers(rule, "shell", {"command": shown})
    assert not covers(rule, "shell", {"command": other})
    assert not covers(rule, "bash", {"command": shown})


@given(ARGUMENTS, ARGUMENTS)
def test_no_rule_covers_a_call_with_other_words(shown, other):
    """Whatever the words are: also a line that looks like the text of other arguments."""

    def told(arguments):
        rest = {name: value for name, value in arguments.items() if name != "timeout_seconds"}
        if rest.get("workdir") in (".", "./", ""):
            del rest["workdir"]
        if rest.get("background") is False:
            del rest["background"]
        return rest

    rule = rule_of("shell", frozen_json(shown))
    assert covers(rule, "shell", frozen_json(other)) == (told(shown) == told(other))
    posing = frozen_json({"command": rule.family})
    assert covers(rule, "shell", posing) == (rule.family == shown["command"])


def test_a_rule_of_before_covers_what_it_covered():
    """A rule that is not exact is of a program: such rules are in records of before, and are read as they were made."""
    whole = (
        *("ls", "ls; rm -rf /", "ls | xargs rm", "echo $HOME", "python -c 'print(1)'", "./ls", "A=1 ls"),
        *("ls 'unclosed", "", "   ", "git push"),
    )
    families = {"ls -la src": "ls", "git status --short": "git status"} | {line: line for line in whole}
    for command, family in families.items():
        assert program_family_of({"command": command}) == family
        assert covers(Rule(tool="shell", family=family), "shell", {"command": command})


def words_of_shlex(line):
    """The words of a line as the standard library splits it, in quadratic time."""
    try:
        words = shlex.split(line)
    except ValueError:
        return None
    return tuple(words) if words and not re.search(r"[;&|<>`$(){}\n\\*?\[\]!#~]", line) else None


@given(line=st.text(st.sampled_from("ab =-/\"' \t\r\n;$é\x00\x0b"), max_size=14))
@example(line="a'b'\"c\" ''")
@example(line="'a\" b' \"c' d\"e")
@example(line='a "')
def test_words_are_those_of_shlex(line):
    """A line is split in linear time into the words that `shlex` finds: rules of before were made of those."""
    assert plain_words(line) == words_of_shlex(line)
    assert plain_words(line, most=2) == (words_of_shlex(line) or (None,))[:2] or plain_words(line) is None
