"""Mutants of the page of the interface, and of what foreign readers take streams for."""

from typing import Final

from tests.mutants.mutant import Mutant

_PAGE: Final = "what is answered is as the page of the interface says"
_READERS: Final = "readers that we did not write see each event, and nothing else"
_OPENAPI: Final = "tests/gateway/test_openapi.py"
_FRAMES: Final = "tests/gateway/test_frames.py"

MUTANTS: Final[tuple[Mutant, ...]] = (
    Mutant(
        name="a refusal of streams is on no page",
        breaks=_PAGE,
        file="gateway/route_answers.py",
        old="too_many_streams server_full cursor_ahead subscriber_too_slow",
        new="too_many_streams server_full subscriber_too_slow",
        killed_by="tests/gateway/test_app.py::test_cursors_and_sessions_that_have_ended",
    ),
    Mutant(
        name="a field of errors is on no page",
        breaks=_PAGE,
        file="gateway/replies.py",
        old="    field: _Text = UNSET\n",
        new="",
        killed_by="tests/gateway/test_session_routes.py::test_an_id_that_is_none_is_refused_on_every_route",
    ),
    Mutant(
        name="a frame of a stream has a field that is on no page",
        breaks=_PAGE,
        file="gateway/frames.py",
        old='return _frame("snapshot", encode_snapshot(snapshot, agent_id=agent_id), None)',
        new='return _frame("snapshot", b\'{"x":1,\' + encode_snapshot(snapshot, agent_id=agent_id)[1:], None)',
        killed_by="tests/gateway/test_app.py::test_streams_have_places_that_come_back",
    ),
    Mutant(
        name="a frame of a socket has a field that is on no page",
        breaks=_PAGE,
        file="gateway/socket_frames.py",
        old='b\'{"type":"event","event":\'',
        new='b\'{"type":"event","of":1,"event":\'',
        killed_by="tests/gateway/test_sockets.py",
    ),
    Mutant(
        name="the page lets a limit of 0 pass",
        breaks=_PAGE,
        file="gateway/openapi.py",
        old='return {"type": "integer", "minimum": 1, "maximum": most}',
        new='return {"type": "integer", "minimum": 0, "maximum": most}',
        killed_by=f"{_OPENAPI}::test_what_stands_in_a_query_is_read_as_the_page_says",
    ),
    Mutant(
        name="the page lets two dots pass in an id",
        breaks=_PAGE,
        file="gateway/openapi.py",
        old='"pattern": r"^[A-Za-z0-9](\\.?[A-Za-z0-9_:-])*\\.?$"',
        new='"pattern": r"^[A-Za-z0-9](\\.*[A-Za-z0-9_:-])*\\.?$"',
        killed_by=f"{_OPENAPI}::test_an_id_is_one_on_the_page_just_where_it_is_one_here",
    ),
    Mutant(
        name="an empty line stands behind a heartbeat",
        breaks=_READERS,
        file="gateway/frames.py",
        old='HEARTBEAT: Final = b":\\n"',
        new='HEARTBEAT: Final = b":\\n\\n"',
        killed_by=f"{_FRAMES}::test_a_reader_that_ends_an_event_at_each_empty_line_sees_none_without_data",
    ),
    Mutant(
        name="the line retry is a frame of its own",
        breaks=_READERS,
        file="gateway/frames.py",
        old='return b"retry: %d\\n" %',
        new='return b"retry: %d\\n\\n" %',
        killed_by=f"{_FRAMES}::test_a_reader_that_ends_an_event_at_each_empty_line_sees_none_without_data",
    ),
)
