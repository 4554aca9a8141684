"""`SkillListing`: the system prompt names skills, within a hundredth of the window."""

from hypothesis import given, strategies as st

from agentrail import plugins as p
from agentrail.plugins.skill_listing import ListedSkill, SkillListing, write_listing
from agentrail.testing.check_plugin import check_plugin
from tests.plugins.rig import Alone

SKILLS = {"pdf": "Reads PDFs.", "mail": "Writes mails."}
ALL = tuple(ListedSkill(name, text) for name, text in SKILLS.items())
HEAD = "Skills. Open one with the tool `skill` before you do what it is for:"
WHOLE = f"{HEAD}\n- pdf: Reads PDFs.\n- mail: Writes mails."


def section(listing, **context):
    """What the system prompt has of it."""
    return listing.hears(p.BeforeRequest(), **{"tools": ("skill",), **context}).context["skills"]


def test_a_selector_narrows_the_list_for_a_prompt():
    """12.4: a pure function of the skills and the prompt; `[]` lists none, and what is no skill is none."""
    stranger = ListedSkill("other", "x")

    def choose(skills, prompt):
        assert skills == ALL
        return [*(one for one in skills if one.name in prompt), stranger]

    listing = Alone(SkillListing(selector=choose), skills=SKILLS)
    assert section(listing) == WHOLE
    listing.hears(p.BeforePrompt(text="read the pdf"))
    assert section(listing) == f"{HEAD}\n- pdf: Reads PDFs."
    listing.hears(p.BeforePrompt(text="hello"))
    assert section(listing) is None
    plain = Alone(SkillListing, skills=SKILLS)
    plain.hears(p.BeforePrompt(text="hello"))
    assert section(plain) == WHOLE


def test_descriptions_are_shortened_first():
    """All to the same length, as long as that says anything; then the rest is left to `skill_search`."""
    skills = [ListedSkill(f"s{number}", "x" * 200) for number in range(10)]
    shorter = write_listing(skills, 1_000)
    assert [line[-1] for line in shorter.splitlines()[1:]] == ["…"] * 10
    assert len({len(line) for line in shorter.splitlines()[1:]}) == 1
    assert 980 < len(shorter.encode()) <= 1_000
    fewer = write_listing(skills, 300)
    assert fewer.splitlines()[-1] == "7 more: find them with the tool `skill_search`."
    assert len(fewer.splitlines()) == 5
    assert write_listing(skills, 0).splitlines() == [HEAD, "10 more: find them with the tool `skill_search`."]


def test_the_window_of_the_model_counts():
    """One percent, of four bytes for each token."""
    listing = Alone(SkillListing, skills={f"s{number}": "x" * 200 for number in range(100)})
    for window in (32_000, 128_000):
        assert window * 0.03 < len(section(listing, context_window=window).encode()) <= window * 4 / 100


descriptions = st.lists(st.text(alphabet="ab é…", max_size=90), min_size=1, max_size=12)


@given(descriptions, st.integers(130, 2_000))
def test_it_is_never_more_than_it_may_be(texts, most):
    """Whatever the descriptions are; and what fits as it is stays as it is."""
    skills = [ListedSkill(f"s{number}", text) for number, text in enumerate(texts)]
    listed = write_listing(skills, most)
    assert len(listed.encode()) <= most
    whole = "\n".join((HEAD, *(f"- {one.name}: {one.description}" for one in skills)))
    assert (listed == whole) == (len(whole.encode()) <= most)


def test_it_keeps_the_contract_of_plugins():
    """`check_plugin`; and a selector that raises lists what was listed before."""
    check_plugin(SkillListing, options=[{}, {"skills": SKILLS}])
    listing = Alone(SkillListing(selector=_wrong), skills=SKILLS)
    (failed,) = listing.hears(p.BeforePrompt(text="x")).events
    assert (failed.plugin, failed.policy) == ("SkillListing", "open")
    assert "selector is wrong" in failed.error.message
    assert section(listing) == WHOLE


def _wrong(skills, prompt):
    message = "selector is wrong"
    raise ValueError(message)
