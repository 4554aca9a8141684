"""Skills together: which of two counts, and how they are found."""

from hypothesis import example, given, strategies as st

from agentrail.config.skill_file import SkillText
from agentrail.config.skill_set import (
    MAX_SKILLS,
    LeftOutSkill,
    Skill,
    SkillSet,
    digest_of_skill,
    join_skills,
    search_skills,
)


def skill(name, description="x", source="here"):
    """A skill."""
    return Skill(text=SkillText(name=name, description=description, instructions=""), source=source)


def test_later_sources_win_and_say_so():
    """The loser is told with the winner's place; a disabled one is gone, whoever has it."""
    found = join_skills(
        [
            SkillSet(skills=(skill("a", source="user"), skill("b")), left_out=(LeftOutSkill(name="x", source="user", why="bad"),)),
            SkillSet(skills=(skill("a", source="project"), skill("c"))),
        ],
        disabled=("c", "none"),
    )  # fmt: skip
    assert [(one.name, one.source) for one in found.skills] == [("a", "project"), ("b", "here")]
    assert [(one.name, one.why) for one in found.left_out] == [
        ("x", "bad"),
        ("a", "that of project takes its place"),
        ("c", "it is disabled"),
    ]
    assert found.find("a").source == "project"
    assert found.find("z") is None
    assert [one.name for one in found.only(["b", "z"]).skills] == ["b"]
    assert found.only(["*"]).skills == found.skills


def test_more_than_two_hundred_are_left_out():
    """Each with the reason."""
    many = SkillSet(skills=tuple(skill(f"s{number:03}") for number in range(MAX_SKILLS + 3)))
    found = join_skills([many])
    assert (len(found.skills), len(found.left_out)) == (MAX_SKILLS, 3)
    assert "expected at most 200" in found.left_out[0].why


def test_words_find_skills():
    """Names count more than descriptions, beginnings of words count; without words the first ones."""
    skills = (
        skill("pdf-forms", "Fills in forms."),
        skill("tables", "Reads a PDF's tables."),
        skill("mail", "Über Post."),
    )
    assert [one.name for one in search_skills(skills, "PDF table")] == ["tables", "pdf-forms"]
    assert [one.name for one in search_skills(skills, "über")] == ["mail"]
    assert search_skills(skills, "nothing") == ()
    assert search_skills(skills, " - ") == skills


names = st.text(alphabet='ab"/,:[] ', min_size=1, max_size=4)


@given(one=st.dictionaries(names, names, max_size=3), other=st.dictionaries(names, names, max_size=3))
@example(one={"ab": "c"}, other={"a": "bc"})
def test_an_id_is_of_these_files_and_no_others(one, other):
    """Two sets of files have one id only where they are equal, whatever their names are; the order does not count."""
    assert (digest_of_skill(one) == digest_of_skill(other)) == (one == other)
    assert digest_of_skill(dict(reversed(one.items()))) == digest_of_skill(one)
