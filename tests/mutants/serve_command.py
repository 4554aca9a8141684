"""Mutants of `agentrail serve`: what it says to the person who starts and stops a server, and whose fault it names."""

from typing import Final

from tests.mutants.mutant import Mutant

_FAULT: Final = "what goes wrong is told as the move of who can put it right"
_SAYS: Final = "a server that is told to stop says why, and for how long"
_SERVE: Final = "tests/cli/test_serve.py"

MUTANTS: Final[tuple[Mutant, ...]] = (
    Mutant(
        name="a module of the operator that fails is a bug of ours",
        breaks=_FAULT,
        file="cli/application.py",
        old='    raise OptionError([f"module {module!r} cannot be imported: {describe_bug(error)}"]) from error\n',
        new="    raise error\n",
        killed_by=f"{_SERVE}::test_a_module_that_fails_is_its_authors_and_no_bug_of_ours",
    ),
    Mutant(
        name="a package that the module imports and that is missing is the module itself",
        breaks=_FAULT,
        file="cli/application.py",
        old='        and f"{module}.".startswith(f"{error.name}.")\n',
        new="",
        killed_by=f"{_SERVE}::test_a_module_that_fails_is_its_authors_and_no_bug_of_ours",
    ),
    Mutant(
        name="a function that makes an application is served as one",
        breaks=_FAULT,
        file="cli/application.py",
        old="        inspect.signature(found).bind(object(), object(), object())\n",
        new="        pass\n",
        killed_by=f"{_SERVE}::test_what_is_no_application_is_said",
    ),
    Mutant(
        name="a plugin that cannot start is a bug of ours",
        breaks=_FAULT,
        file="cli/serve.py",
        old="        raise ApplicationFailed(name, error) from error\n",
        new="        raise\n",
        killed_by=f"{_SERVE}::test_an_application_that_cannot_start_is_told_as_that",
    ),
    Mutant(
        name="a server that drains looks as if it hung",
        breaks=_SAYS,
        file="cli/serve.py",
        old="    tell_stopping(await anext(signals))\n",
        new="    await anext(signals)\n",
        killed_by=f"{_SERVE}::test_the_first_signal_lets_the_application_drain_and_a_second_one_does_not_wait",
    ),
    Mutant(
        name="the delay for balancers is not said",
        breaks=_SAYS,
        file="cli/serve.py",
        old='then " if host.drain_delay else ""\n',
        new='then " if False else ""\n',
        killed_by=f"{_SERVE}::test_a_server_that_is_told_to_stop_says_why_and_for_how_long",
    ),
)
