"""Scenes of the demo model: what `demo:support`, `demo:coder` and `demo:reader` say to prompts that they know.

`agentrail serve --demo` plays them, so that a newcomer without a key sees agents at work. Data and two plain functions: no clock, no
randomness and no request enters this file, and the tools that are called stand with the profiles.
"""

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from attrs import evolve, frozen

from agentrail.messages import JsonObject

SLOW: Final = 8.0
"""How much longer the pauses between words are in a text that is to be watched for a while."""

_NUMBER: Final = re.compile(r"\d{1,9}")
_WORD: Final = re.compile(r"[a-z]{3,}")


@frozen(kw_only=True)
class SceneTurn:
    """One response.

    Attributes:
        text: What is said; `{number}` stands for the number in the prompt.
        thinking: What is thought before.
        calls: Names and arguments of the tools that are called behind it.
        pace: How much longer than usual the pauses between words are.
        otherwise: What is answered instead, where a call of the turn before failed or was refused.
    """

    text: str
    thinking: str = ""
    calls: tuple[tuple[str, JsonObject], ...] = ()
    pace: float = 1.0
    otherwise: str | None = None


@frozen(kw_only=True)
class Scene:
    """What happens on one kind of prompt.

    Attributes:
        words: Those that stand in the prompt, in any order.
        turns: The responses, first to last.
        number: What stands for the number of a prompt without one.
    """

    words: frozenset[str]
    turns: tuple[SceneTurn, ...]
    number: int = 17


def is_staged(model_name: str) -> bool:
    """Say whether a model plays scenes, by its name behind `demo:`."""
    return model_name in SCENES


def decide_turn(model_name: str, prompt: str, place: int, *, has_failed: bool = False) -> SceneTurn | None:
    """Choose the response of a scene.

    Args:
        model_name: Of the model, behind `demo:`.
        prompt: What its cycle began with.
        place: How many responses its cycle has.
        has_failed: Whether a call of the last one failed or was refused.

    Returns:
        The response; None where the model plays no scene on such a prompt.
    """
    words = frozenset(_WORD.findall(prompt.lower()))
    scene = next((one for one in SCENES.get(model_name, ()) if one.words <= words), None)
    if scene is None:
        return None
    if place >= len(scene.turns):  # a steer makes a cycle longer than its scene
        return SceneTurn(text="That is all there is to it in this demo.")
    turn = scene.turns[place]
    if has_failed and turn.otherwise is not None:
        return SceneTurn(text=turn.otherwise)
    found = _NUMBER.search(prompt)
    number = scene.number if found is None else int(found.group())
    calls = tuple([(name, _filled(arguments, number)) for name, arguments in turn.calls])
    return evolve(turn, text=turn.text.replace("{number}", f"{number}"), calls=calls)


def _filled(arguments: JsonObject, number: int) -> JsonObject:
    return {key: number if value == "{number}" else value for key, value in arguments.items()}


def _scene(words: str, *turns: SceneTurn, number: int = 17) -> Scene:
    return Scene(words=frozenset(words.split()), turns=turns, number=number)


def _todos(*done: str, now: str = "", later: tuple[str, ...] = ()) -> tuple[str, JsonObject]:
    listed = [(text, "completed") for text in done]
    listed += [(now, "in_progress")] if now else []
    listed += [(text, "pending") for text in later]
    return "write_todos", {
        "todos": [
            {"id": f"{place}", "content": text, "status": status}
            for place, (text, status) in enumerate(listed, 1)
        ]
    }


# --- the support desk

_REFUND: Final = _scene(
    "refund order",
    SceneTurn(
        thinking="They want their money back. Before anything is paid I look up what was bought, and I write down what is to be done.",
        text="<title>Refund {number}</title><status>looking the order up</status>I look at order {number} first.",
        calls=(
            _todos(now="Find the order", later=("Pay it back", "Tell the customer")),
            ("find_order", {"number": "{number}"}),
        ),
    ),
    SceneTurn(
        text="<status>waits for a person</status>The order is there, and it was paid. A refund needs a person's consent, so I ask for it now.",
        calls=(
            _todos("Find the order", now="Pay it back", later=("Tell the customer",)),
            (
                "refund",
                {"number": "{number}", "amount_eur": 39.9, "reason": "Arrived broken, photo is attached."},
            ),
        ),
    ),
    SceneTurn(
        text="<status>done</status>Order {number} is paid back. The money arrives in **two to four days**; I wrote that to the customer.",
        otherwise="<status>done</status>I did not pay anything back. I tell the customer that we look into it.",
    ),
    number=4411,
)
_IMPORT: Final = _scene(
    "import",
    SceneTurn(
        thinking="Two accounts could be meant. I had better ask than guess.",
        text="<title>Import of the addresses</title>There are two accounts with this name, so I have a question.",
        calls=(
            (
                "ask_user",
                {
                    "question": "Which account do the addresses belong to?",
                    "options": ["North", "South", "Neither: stop"],
                },
            ),
        ),
    ),
    SceneTurn(
        text="<status>importing</status>I import them now.",
        calls=(("import_addresses", {"file": "addresses-q3.csv", "rows": 48}),),
        otherwise="Without an answer I leave the addresses alone.",
    ),
    SceneTurn(text="All 48 addresses are there; two stood in the list twice, and I kept the newer ones."),
)
_WHERE: Final = _scene(
    "where order",
    SceneTurn(
        text="<title>Where is order {number}?</title>I look it up.",
        calls=(("find_order", {"number": "{number}"}),),
    ),
    SceneTurn(text="It left the house this morning, and should be there **tomorrow before noon**."),
)
_EXPORT: Final = _scene(
    "export",
    SceneTurn(
        text="<title>Export of all orders</title><status>exporting</status>I write all orders into one file.",
        calls=(("import_addresses", {"file": "all-orders.csv", "rows": 4000}),),
    ),
    SceneTurn(text="The file is written.", otherwise="The export was stopped."),
)

# --- the coder

_ROUNDING: Final = _scene(
    "rounding",
    SceneTurn(
        thinking="Totals that are off by a cent are nearly always floats. I read the module first, and its test.",
        text="<title>Totals are off by a cent</title><status>reading</status>I read the module and its test.",
        calls=(
            _todos(now="Read the code", later=("Mend the sum", "Run the tests")),
            ("read_file", {"path": "src/totals.py"}),
            ("read_file", {"path": "tests/test_totals.py"}),
        ),
    ),
    SceneTurn(
        text="The sum is made of floats:\n\n```python\nreturn round(sum(line.price * line.count for line in lines), 2)\n```\n\nEach line is to be "
        "rounded by itself, as the invoice shows it. I change that, if you agree.",
        calls=(
            _todos("Read the code", now="Mend the sum", later=("Run the tests",)),
            (
                "edit_file",
                {
                    "path": "src/totals.py",
                    "old_string": "    return round(sum(line.price * line.count for line in lines), 2)\n",
                    "new_string": "    cents = [line.price.quantize(CENT, ROUND_HALF_EVEN) * line.count for line in lines]\n"
                    "    return sum(cents, Decimal(0))\n",
                },
            ),
        ),
    ),
    SceneTurn(
        text="<status>running the tests</status>Now the tests.",
        calls=(("shell", {"command": "python -m pytest -q tests/test_totals.py"}),),
        otherwise="I leave the file as it is.",
    ),
    SceneTurn(
        text="All tests pass. The change is in `src/totals.py`, two lines:\n\n- each line is rounded by itself, half to even\n- the sum is "
        "made of `Decimal`, so nothing is lost on the way",
        otherwise="The change is made, and the tests were not run.",
    ),
)
_NIGHTLY: Final = _scene(
    "nightly",
    SceneTurn(
        text="<title>Nightly checks</title><status>checking</status>I run the checks of the night.",
        calls=(("run_checks", {"suite": "nightly", "steps": 24}),),
    ),
    SceneTurn(
        text="| check | result |\n| --- | --- |\n| types | ok |\n| style | ok |\n| tests | 412 passed, 3 skipped |\n\nNothing to do until the next run."
    ),
)
_CLEAN: Final = _scene(
    "clean build",
    SceneTurn(
        thinking="Removing the build folder is safe when nothing else lives in it, but it cannot be taken back.",
        text="<title>Clean build</title>The old build stands in the way. I remove it, if you agree.",
        calls=(("shell", {"command": "rm -r build dist && make build"}),),
    ),
    SceneTurn(text="The build is clean.", otherwise="I leave the old build alone."),
)

# --- the reader

_COMPARE: Final = _scene(
    "compare",
    SceneTurn(
        thinking="Two readers can look at the same time, one for each side. Then I compare what they bring.",
        text="<title>Where sessions are kept</title><status>two readers look</status>- [ ] Read about files\n- [ ] Read about servers\n"
        "- [ ] Compare\n\nI let two readers look at the same time.",
        calls=(
            (
                "task",
                {
                    "description": "Read what a store in files promises, and say it in two sentences.",
                    "subagent_type": "reader",
                },
            ),
            (
                "task",
                {
                    "description": "Read what a store on servers promises, and say it in two sentences.",
                    "subagent_type": "reader",
                },
            ),
        ),
    ),
    SceneTurn(
        text="- [x] Read about files\n- [x] Read about servers\n- [x] Compare\n\n"
        "| | files | servers |\n| --- | --- | --- |\n| **machines** | one | many |\n| **a copy** | one file | their tools |\n"
        "| **after a crash** | all that was said | all that was said |\n\nFor one machine, files are enough.",
    ),
)
_PROMISES: Final = _scene(
    "promises",
    SceneTurn(text="I search the notes.", calls=(("search_notes", {"query": "promises of a store"}),)),
    SceneTurn(
        text="What was said is on the disk before it is answered. After a crash a session goes on where it was.",
        otherwise="The notes cannot be searched now.",
    ),
)
_ARCHIVE: Final = _scene(
    "archive",
    SceneTurn(
        text="<title>What the archive says</title>I look into the archive.",
        calls=(("search_notes", {"query": "archive of 2019"}),),
    ),
    SceneTurn(
        text="The archive has nothing.",
        otherwise="The archive does not answer, after three attempts. I say so rather than guess.",
    ),
)
_REPORT: Final = _scene(
    "weekly report",
    SceneTurn(
        thinking="The numbers first, then what they mean, then what to do. No sentence that says nothing.",
        text="""<title>Weekly report</title><status>writing</status>## The week in numbers

| day | sessions | answered by itself | waited for a person |
| --- | ---: | ---: | ---: |
| Monday | 212 | 188 | 24 |
| Tuesday | 240 | 219 | 21 |
| Wednesday | 198 | 181 | 17 |
| Thursday | 251 | 230 | 21 |
| Friday | 263 | 244 | 19 |

## What it means

Most of what people asked was answered without anybody in between. What waited did so for a good reason: money that leaves the house, files that are
changed, and commands that cannot be taken back. On Tuesday an answer took longer than usual, since a service that we look orders up in did not answer
at first; the call was made again, and nothing was lost by it.

1. **Refunds** are asked for less often since the photo is part of the form.
2. **Addresses** still come in two spellings. The import keeps the newer one and says which.
3. **Builds** fail in the night when the folder of the day before is still there.

> A thing that happens every week is a thing that can be written down.

## What to do

- Write down how a build folder is removed, and let the coder do it after a question.
- Ask for the photo before the reason, because people forget it otherwise.
- Let the nightly checks say which test was the slowest. A sketch:

```python
def slowest(results: list[Result]) -> Result:
    return max(results, key=lambda one: one.duration_ms)
```

That is the whole report. The next one comes in a week, and this demo writes it again in a moment.
""",
        pace=SLOW,
    ),
)

SCENES: Final[Mapping[str, tuple[Scene, ...]]] = MappingProxyType(
    {
        "support": (_REFUND, _IMPORT, _WHERE, _EXPORT),
        "coder": (_ROUNDING, _NIGHTLY, _CLEAN),
        "reader": (_COMPARE, _PROMISES, _ARCHIVE, _REPORT),
    }
)
"""By the name of a model: the scenes, of which the first whose words stand in a prompt is played."""
