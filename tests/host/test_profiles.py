"""Profiles: what may be one, and which options a session of it gets. What decides is asked as it is; what awaits, on Trio."""

import operator
from pathlib import Path

import pytest
import trio

from agentrail.errors import OptionError, ProfileFailed
from agentrail.host.agent_profiles import (
    AgentProfile,
    ProfileContext,
    check_agent_profiles,
    decide_session_options,
    options_of_profile,
    resolve_profile,
    takes_files,
)
from agentrail.messages import SessionId
from agentrail.plugins import EventLogger, SecurityGuard
from agentrail.runtime.session_options import SessionOptions
from agentrail.sandboxes.memory import MemorySandbox
from agentrail.testing.supervisors import open_nameless
from tests.runtime.rig import on_virtual_time, saying
from tests.thinned import each

HERE = str(Path(__file__).parent)
ADA = ProfileContext(tenant_id="acme", user_id="ada", session_id=SessionId("s-1"), agent_id="desk")


def options(**given):
    return SessionOptions(**{"model": "demo:", **given})


def profile(name="desk", **given):
    return AgentProfile(id=name, name=name.title(), **{"options": options(), **given})


def decide(given, *, context=ADA, model=None, **host):
    one = profile(options=given)
    return decide_session_options(check_agent_profiles([one], **host), one, given, context, model=model)


class Blueprint:
    def __init__(self, **given):
        self.given = given

    def options(self):
        return self.given


@each(
    ("given", "said"),
    [
        ({"id": "a/b"}, "id is not a valid id"),
        ({"id": None}, "id is not a valid id"),
        ({"name": " "}, "name is ' ': expected a display name"),
        ({"description": None}, "description is None: expected a text"),
        ({"context_window": 0}, "context_window is 0: expected tokens"),
        ({"context_window": True}, "context_window is True: expected tokens"),
        ({"shared_workspace": "yes"}, "shared_workspace is 'yes': expected True or False"),
        ({"client_system": "prepend"}, "client_system is 'prepend': expected append, ignore or refuse"),
        ({"resources": ["docs://a"]}, "resources is ['docs://a']: expected names of tools by URI"),
        ({"resources": {"docs://a": 7}}, "resources is {'docs://a': 7}: expected names of tools by URI"),
        ({"client_settings": 1}, "client_settings is 1: expected True or False"),
        ({"show_tools": True}, "show_tools is True: expected reasoning, or None"),
        ({"options": None}, "options are of type NoneType: expected SessionOptions"),
        ({"options": Blueprint}, "options are of type type: expected SessionOptions"),
        ({"options": SessionOptions}, "options are of type type: expected SessionOptions"),
        ({"options": Blueprint(modle="demo:")}, "there is no option 'modle', did you mean 'model'"),
        ({"options": lambda context: options()}, "or an async function (`async def`) of ProfileContext"),
        ({"options": options(session_id="s")}, "session_id is set"),
        ({"options": options(scope="s")}, "scope is set"),
        ({"options": options(event_buffer_size=99)}, "event_buffer_size is 99: expected at least 100"),
    ],
)
def test_what_is_no_profile_is_refused_where_it_is_made(given, said):
    """With what it got, what it takes, and what to do."""
    with pytest.raises(OptionError) as caught:
        AgentProfile(**{"id": "desk", "name": "Desk", "options": options(), **given})
    assert said in str(caught.value)


@pytest.mark.host("H-106")
def test_a_profile_that_says_whose_its_sessions_are_is_refused():
    """The host says it, and readers trust it; the name of the key is said, and not what it holds."""
    for key in ("tenant_id", "user_id", "agent_id"):
        data = {"user_data": {key: "s3cret"}}
        for form in (options(**data), Blueprint(model="demo:", **data)):
            with pytest.raises(
                OptionError, match=f"user_data sets '{key}', which the host sets itself: remove it"
            ) as caught:
                profile(options=form)
            assert "s3cret" not in str(caught.value)


def test_all_faults_of_all_profiles_are_told_at_once():
    """Before anything is started. The default is the first unless it is named; messages list ten at most."""
    profiles = [profile("a"), profile("b"), profile("a"), "desk"]
    with pytest.raises(OptionError) as caught:
        check_agent_profiles(profiles, default="c", resolve=5, session_plugins=[5])
    assert [fault.partition(":")[0] for fault in caught.value.faults] == [
        "profiles[2] has the id 'a' of an earlier profile",
        "profiles[3] is of type str",
        "resolve_profile is 5",
        "default_profile is 'c'",
        "session_plugins",
    ]

    several = [profile(f"p{number}") for number in range(12)]
    assert check_agent_profiles(several).default_id == "p0"
    assert check_agent_profiles(several, default="p3").default_id == "p3"
    assert check_agent_profiles(several).named() == "p0, p1, p2, p3, p4, p5, p6, p7, p8, p9 and 2 more"
    assert check_agent_profiles(several[:2]).named() == "p0, p1"


@pytest.mark.host("H-106")
def test_a_plugin_that_a_profile_names_too_stands_once():
    """The host's, in front: what is given to the host holds in every profile, whatever that says of it."""
    guard = SecurityGuard()
    for own in (SecurityGuard, SecurityGuard(), (SecurityGuard, {}), SecurityGuard(priority=900)):
        made = decide(options(plugins=[EventLogger, own]), session_plugins=[guard])
        assert made.plugins == (guard, EventLogger)


@pytest.mark.parametrize(
    ("given", "alone", "several"),
    [
        ({}, False, False),
        ({"working_dir": HERE}, True, False),
        ({"sandbox": f"local:{HERE}"}, True, False),
        ({"sandbox": MemorySandbox()}, True, False),
        ({"sandbox": "memory"}, True, True),
    ],
)
def test_files_are_taken_where_no_other_user_reads_them(given, alone, several):
    """And never into the directory that the process happens to run in."""
    one = profile(options=options(**given))
    shared = profile(options=options(**given), shared_workspace=True)
    by_itself = profile(options=giving(lambda: None))
    for is_for_several, expected in [(False, alone), (True, several)]:
        profiles = check_agent_profiles([one], is_for_several=is_for_several)
        assert takes_files(profiles, one, options(**given)) is expected
        assert takes_files(profiles, shared, options(**given)) is alone
        assert takes_files(profiles, by_itself, options(**given)) is alone


def giving(make):
    """A function of a profile, or one that looks profiles up, with what another one makes."""

    async def give(_context):
        await trio.lowlevel.checkpoint()
        return make()

    return give


@on_virtual_time
async def test_a_profile_may_be_a_function_of_whom_it_is_for():
    """It is told for whom, with the profile's own id, and each session gets what it gives."""
    seen = []

    async def configure(context):
        await trio.lowlevel.checkpoint()
        seen.append(context)
        return Blueprint(model="demo:", system_prompt=f"You help {context.user_id}.")

    one = profile(options=configure)
    assert one.is_function
    context = ProfileContext(
        tenant_id="acme", user_id="bob", session_id=SessionId("s-2"), agent_id="alias", mode="plan"
    )
    made = await options_of_profile(check_agent_profiles([one]), one, context)
    assert made.system_prompt == "You help bob."
    assert (made.session_id, made.user_data["agent_id"]) == ("s-2", "desk")
    assert [(one.agent_id, one.mode, one.session_id) for one in seen] == [("desk", "plan", "s-2")]


async def raises_a_bug(_context):
    message = "db password s3cret"
    raise BaseException(message)  # noqa: TRY002 - also what is no `Exception` ends one request alone


is_not_async = operator.truth
"""Which its code does not show: there is no Python code."""


@pytest.mark.host("H-106")
@on_virtual_time
async def test_a_function_that_fails_is_the_operators_move():
    """Every failure is one error with a cause, and its words reach no caller. A failing lookup is not a 404."""
    sets_the_tenant = giving(lambda: options(user_data={"tenant_id": "evil"}))
    wrong = (giving(lambda: None), giving(lambda: options(max_turns=0)), giving(lambda: options(plugins=[5])))
    for configure in (*wrong, sets_the_tenant, raises_a_bug, is_not_async):
        one = profile(options=configure)
        with pytest.raises(ProfileFailed) as caught:
            await options_of_profile(check_agent_profiles([one]), one, ADA)
        assert str(caught.value) == "the profile 'desk' failed: the log says why"
        assert caught.value.agent_id == "desk"
        assert caught.value.__cause__ is not None
    for find in (is_not_async, raises_a_bug, sets_the_tenant):  # which finds what is no profile
        with pytest.raises(ProfileFailed, match="resolve_profile"):
            await resolve_profile(check_agent_profiles(resolve=find), ADA)


@on_virtual_time
async def test_a_cancellation_is_no_failure_of_a_profile():
    """It travels, out of both functions."""

    async def hang(_context):
        await trio.sleep_forever()

    one = profile(options=hang)
    profiles = check_agent_profiles([one], resolve=hang)
    for asked in [lambda: options_of_profile(profiles, one, ADA), lambda: resolve_profile(profiles, ADA)]:
        with trio.move_on_after(1) as scope:
            await asked()
        assert scope.cancelled_caught


@pytest.mark.host("H-099")
@on_virtual_time
async def test_two_tenants_each_have_a_session_of_one_id():
    """With the options that a profile gives them; what their tools and plugins are shown says whose they are."""
    one = profile(options=options(model=saying("Hi.", "Hello.")))
    profiles = check_agent_profiles([one])
    async with open_nameless() as supervisor:
        for tenant in ("acme", "evil"):
            context = ProfileContext(
                tenant_id=tenant, user_id="ada", session_id=SessionId("main"), agent_id="desk"
            )
            await supervisor.start_session(await options_of_profile(profiles, one, context))
        sessions = {(one.scope, one.session_id) for one in supervisor.sessions()}
        assert sessions == {("acme", "main"), ("evil", "main")}
        assert [one.session_id for one in supervisor.sessions(scope="acme")] == ["main"]
