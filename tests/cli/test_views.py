"""A chat without a terminal, line by line."""

from agentrail.cli.chat_terminal import LineView
from agentrail.cli.event_text import ChatStyle, Piece, Transcript
from agentrail.events import MessageDelta


class Paper:
    """A screen that keeps what is written."""

    def __init__(self):
        self.pieces = []

    async def write(self, pieces):
        """Keep it."""
        self.pieces += pieces


async def test_what_a_command_answers_cuts_no_line_of_an_answer_that_streams():
    """It stands behind the fence, paragraph or table that is being written."""
    paper = Paper()
    view = LineView(transcript=Transcript(ChatStyle()), screen=paper, prompts=False)
    for delta in ("```py\nx =", " __name__", "\n\n```\nThe end.\n"):
        await view.show(MessageDelta(delta=delta))
        await view.say("cost: 0")
    assert paper.pieces[:4] == [
        *(Piece("out", text) for text in ("```py\nx =", " __name__", "\n", "\n")),
    ]
    assert paper.pieces[4:] == [
        Piece("out", "```\n"),
        *(Piece("err", "cost: 0\n"),) * 2,
        Piece("out", "The end.\n"),
    ]
