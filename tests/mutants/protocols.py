"""Mutants of the bridges: what a client of another protocol is shown, and what its words and answers do."""

from typing import Final

from tests.mutants.mutant import Mutant

_OPENED: Final = "an id that was opened is never opened again"
_LAST: Final = "each stream ends with one last part, and with nothing open"
_BACK: Final = "nothing that was taken back is passed off as said"
_WHOLE: Final = "a response that is read again is the whole one"
_ANSWERS: Final = "decisions are all or nothing, and nothing else decides"
_HISTORY: Final = "history is the session's"
_FOLD: Final = "tests/protocols/test_ai_ui.py"
_READ: Final = "tests/protocols/test_ai_ui_messages.py"
_LIVES: Final = "tests/protocols/test_ai_ui_lives.py::test_each_response_of_a_life_is_in_order_and_is_whole_when_it_is_read_again"
_CALLS: Final = "tests/gateway/protocols/test_ai_ui_calls.py"
_READER: Final = "tests/gateway/protocols/test_ui_reader.py"
_STREAMS: Final = (
    "tests/gateway/protocols/test_ai_ui_streams.py::test_each_life_of_a_request_is_a_response_in_order"
)

MUTANTS: Final[tuple[Mutant, ...]] = (
    Mutant(
        name="a call that waits for a person is opened again when it runs",
        breaks=_OPENED,
        file="protocols/ai_ui.py",
        old='    if known is None:\n        parts = (*parts, {"type": "tool-input-start", **facts})\n',
        new='    parts = (*parts, {"type": "tool-input-start", **facts})\n',
        killed_by=f"{_FOLD}::test_a_call_is_opened_once_however_often_it_is_shown",
    ),
    Mutant(
        name="two parts at one number have one id",
        breaks=_OPENED,
        file="protocols/ai_ui.py",
        old="(last_id[0], last_id[1] + 1)",
        new="(last_id[0], 0)",
        killed_by=f"{_FOLD}::test_text_and_thinking_are_opened_and_closed_in_order",
    ),
    Mutant(
        name="a step that is open at the end stays open",
        breaks=_LAST,
        file="protocols/ai_ui.py",
        old='    if response.in_step:\n        parts.append({"type": "finish-step"})\n',
        new="",
        killed_by=f"{_LIVES}[0]",
    ),
    Mutant(
        name="a call without a result is shown as running for ever",
        breaks=_LAST,
        file="protocols/ai_ui.py",
        old="if not response.is_live or end is None or end.is_pause:",
        new="if end is not None:",
        killed_by=f"{_FOLD}::test_a_call_without_a_result_is_closed_with_its_cycle",
    ),
    Mutant(
        name="a cycle that waits for people leaves its response open",
        breaks=_LAST,
        file="gateway/protocols/ui_reader.py",
        old="        if waits:\n            self._response = pause(self._response)\n",
        new="",
        killed_by=f"{_STREAMS}[one_of_two_refused]",
    ),
    Mutant(
        name="streams of protocols are not ended with the others",
        breaks=_LAST,
        file="gateway/hub.py",
        old="        if self._closing is not None:\n            stream.finish(self._closing)\n",
        new="",
        killed_by=f"{_READER}::test_all_responses_end_with_a_word_when_the_server_does",
    ),
    Mutant(
        name="an attempt that was discarded stays said",
        breaks=_BACK,
        file="protocols/ai_ui.py",
        old="return _discard(response, _number(event), event.error.message)",
        new="return _close_part(response)",
        killed_by=f"{_FOLD}::test_an_attempt_that_is_discarded_is_taken_back_and_one_that_is_kept_is_not",
    ),
    Mutant(
        name="a gap in a text is not seen",
        breaks=_BACK,
        file="protocols/ai_ui.py",
        old="attempt.said > len(text) or zlib.crc32(begins) != attempt.digest",
        new="attempt.said > len(text)",
        killed_by=f"{_FOLD}::test_what_is_not_how_the_response_begins_is_taken_back[HXelo.]",
    ),
    Mutant(
        name="what streams when a page comes back is not caught up with",
        breaks=_WHOLE,
        file="protocols/ai_ui.py",
        old='return _show_text(late, number, "text", text)',
        new="return late, ()",
        killed_by=f"{_FOLD}::test_what_streams_is_caught_up_with",
    ),
    Mutant(
        name="thinking whose beginning was missed is shown from its middle",
        breaks=_WHOLE,
        file="protocols/ai_ui.py",
        old='    if kind == "reasoning" and response.attempt.is_late:\n        return response, ()\n',
        new="",
        killed_by=f"{_FOLD}::test_what_streams_is_caught_up_with",
    ),
    Mutant(
        name="words that decided something overwrite the message that asked",
        breaks=_WHOLE,
        file="protocols/ai_ui.py",
        old="        case PromptTaken(ref=ref) if ref == wanted or (wanted is None and response.is_live):\n            pass",
        new="        case PromptTaken(ref=ref) if False:\n            pass",
        killed_by=f"{_FOLD}::test_words_that_join_a_cycle_have_a_message_of_their_own",
    ),
    Mutant(
        name="a result that a page shows is taken for any call",
        breaks=_ANSWERS,
        file="protocols/ai_ui_messages.py",
        old="elif part.state in _ANSWERED and part.call_id in calls:",
        new="elif part.state in _ANSWERED and calls:",
        killed_by=f"{_READ}::test_answers_go_to_what_waits_and_to_nothing_else",
    ),
    Mutant(
        name="a refusal lets the call run",
        breaks=_ANSWERS,
        file="gateway/protocols/ai_ui_routes.py",
        old="case UiVerdict(is_approved=True):",
        new="case UiVerdict() if answer:",
        killed_by=f"{_STREAMS}[refused_by_a_person]",
    ),
    Mutant(
        name="answers that count stand in front of those that do not",
        breaks=_ANSWERS,
        file="protocols/ai_ui_messages.py",
        old="return (*stale, *answers) if is_all",
        new="return (*answers, *stale) if is_all",
        killed_by=f"{_CALLS}::test_answers_count_once_and_all_or_none",
    ),
    Mutant(
        name="a session is asked about all that a page ever said",
        breaks=_HISTORY,
        file="protocols/ai_ui_messages.py",
        old="        return self.messages[behind[-1] if behind else 0 :]",
        new='        return tuple(one for one in self.messages if one.role == "user" or not behind)',
        killed_by=f"{_READ}::test_the_past_is_read_for_its_ids_alone_and_what_is_new_is_bounded",
    ),
    Mutant(
        name="a message that is sent again has no name",
        breaks=_HISTORY,
        file="gateway/protocols/ai_ui_routes.py",
        old="        client_id=words.client_id,\n",
        new="",
        killed_by=f"{_CALLS}::test_a_message_that_is_new_is_said_once_whatever_is_sent_along",
    ),
    Mutant(
        name="a chat is read through any profile",
        breaks=_HISTORY,
        file="gateway/protocols/ai_ui_routes.py",
        old="    if own is not None and own != agent_id:\n",
        new="    if own is None:\n",
        killed_by=f"{_CALLS}::test_a_chat_of_another_profile_is_a_409_that_names_it",
    ),
)
