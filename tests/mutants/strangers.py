"""Mutants of what stands between a stranger and a host: what two readers could take for two things, and what has a bound."""

from typing import Final

from tests.mutants.mutant import Mutant

_ONE_WAY: Final = "what two readers could take for two requests is refused, and its connection closed"
_BOUND: Final = "nothing that a stranger sends is kept, or looked at, without a bound"
_BACK: Final = "what a call has taken comes back, however it ends"
_FAIR: Final = "no caller takes what all others need"
_TOLD: Final = "tokens, headers and secrets are in no log, answer, event, journal or page"
_UNKNOWN: Final = "a session of another is one that never was"
_REVOKED: Final = "a token that is taken out of its file ends everywhere, and a file that cannot be used lets nobody else in"
_FILE: Final = "tests/gateway/test_token_file.py"
_BYTES: Final = "tests/gateway/attacks/test_request_bytes.py"
_FRAMES: Final = "tests/gateway/attacks/test_socket_bytes.py"
_HEADS: Final = "tests/gateway/attacks/test_heads.py"
_BOUNDS: Final = "tests/gateway/attacks/test_bounds.py"
_OTHERS: Final = "tests/gateway/attacks/test_other_peoples.py"
_REFUSED: Final = (
    f"{_BYTES}::test_what_two_readers_could_take_for_two_things_is_refused_and_the_connection_closed"
)

MUTANTS: Final[tuple[Mutant, ...]] = (
    # --- tokens
    Mutant(
        name="what is open is not judged when the token file changes",
        breaks=_REVOKED,
        file="gateway/open_calls.py",
        old="                judged.due_at = 0.0\n",
        new="                pass\n",
        killed_by=f"{_FILE}::test_a_token_that_is_taken_out_of_the_file_ends_everywhere_and_an_added_one_is_let_in",
    ),
    Mutant(
        name="half of a written token file is taken",
        breaks=_REVOKED,
        file="gateway/token_file.py",
        old="if not is_settled or found == self._taken:",
        new="if found == self._taken:",
        killed_by=f"{_FILE}::test_a_file_that_is_being_written_is_not_taken",
    ),
    Mutant(
        name="a token file that is gone lets nobody in",
        breaks=_REVOKED,
        file="gateway/token_file.py",
        old="        LOGGER.error(message, why)\n        return None\n",
        new="        LOGGER.error(message, why)\n        return ()\n",
        killed_by=f"{_FILE}::test_a_file_that_cannot_be_used_keeps_the_tokens_and_is_logged_once",
    ),
    # --- HTTP
    Mutant(
        name="a length beside chunks passes",
        breaks=_ONE_WAY,
        file="gateway/protocol.py",
        old='(b"content-length" in names or request.http_version == b"1.0")',
        new='request.http_version == b"1.0"',
        killed_by=_REFUSED,
    ),
    Mutant(
        name="a folded header passes",
        breaks=_ONE_WAY,
        file="gateway/protocol.py",
        old="_BARE_END.search(head) or _FOLDED.search(head)",
        new="_BARE_END.search(head)",
        killed_by=_REFUSED,
    ),
    Mutant(
        name="a bare end of a line passes",
        breaks=_ONE_WAY,
        file="gateway/protocol.py",
        old="_BARE_END.search(head) or _FOLDED.search(head)",
        new="_FOLDED.search(head)",
        killed_by=f"{_BYTES}::test_a_head_passes_only_if_there_is_one_way_to_read_it",
    ),
    Mutant(
        name="every version of HTTP passes",
        breaks=_ONE_WAY,
        file="gateway/protocol.py",
        old="        return _OTHER_VERSION\n",
        new="        return None\n",
        killed_by=_REFUSED,
    ),
    Mutant(
        name="the head of a request that came with another is not looked at",
        breaks=_ONE_WAY,
        file="gateway/protocol.py",
        old="self._head = bytes(self.connection.trailing_data[0])",
        new='self._head = b""',
        killed_by=f"{_BYTES}::test_heads_are_read_whole_however_they_are_cut_up",
    ),
    Mutant(
        name="a compressed body passes",
        breaks=_BOUND,
        file="gateway/body_reading.py",
        old='if (encoding or "identity").strip().lower() != "identity":',
        new="if False:",
        killed_by=f"{_BYTES}::test_what_else_can_be_said_in_http_has_an_answer",
    ),
    Mutant(
        name="each name of a query is looked for among all others",
        breaks=_BOUND,
        file="gateway/queries.py",
        old="(name for name in known if names.count(name) > 1)",
        new="(name for name in names if names.count(name) > 1 and name in known)",
        killed_by=f"{_BYTES}::test_names_of_a_query_are_looked_at_once",
    ),
    Mutant(
        name="a write may take for ever",
        breaks=_BOUND,
        file="gateway/serving.py",
        old="trio.CancelScope(shield=True, deadline=trio.current_time() + within)",
        new="trio.CancelScope(shield=True)",
        killed_by=f"{_BOUNDS}::test_a_write_that_is_not_taken_ends_its_connection",
    ),
    # --- WebSocket
    Mutant(
        name="WebSockets are compressed",
        breaks=_BOUND,
        file="gateway/protocol.py",
        old="                self.handshake.extensions = None\n",
        new="",
        killed_by=f"{_FRAMES}::test_nothing_is_compressed_whatever_is_offered",
    ),
    Mutant(
        name="what comes behind a message that is too large is looked at",
        breaks=_BOUND,
        file="gateway/protocol.py",
        old="case Body() | Data() if self._lingering is not None:",
        new="case Body() | Data() if self.closed:",
        killed_by=f"{_FRAMES}::test_what_comes_behind_a_message_that_is_too_large_is_not_kept",
    ),
    Mutant(
        name="frames are not counted",
        breaks=_BOUND,
        file="gateway/protocol.py",
        old="        return draw.is_allowed\n",
        new="        return True\n",
        killed_by=f"{_FRAMES}::test_what_is_no_frame_ends_the_socket_with_its_code",
    ),
    Mutant(
        name="a handshake that is none leaves its connection open",
        breaks=_BOUND,
        file="gateway/protocol.py",
        old="if self.closed:  # it was no handshake",
        new="if False:  # it was no handshake",
        killed_by=f"{_FRAMES}::test_an_upgrade_that_is_none_is_refused_and_its_connection_closed",
    ),
    Mutant(
        name="one who speaks before there is a WebSocket gets one meanwhile",
        breaks=_ONE_WAY,
        file="gateway/protocol.py",
        old="        self.closed = True  # before anything is awaited: else the application accepts it meanwhile\n",
        new="",
        killed_by=f"{_FRAMES}::test_an_upgrade_that_is_none_is_refused_and_its_connection_closed",
    ),
    Mutant(
        name="a stranger may send frames of a mebibyte",
        breaks=_BOUND,
        file="gateway/open_socket.py",
        old="if self.principal is not None else MAX_BYTES_OF_STRANGERS",
        new="if self.principal is not None else limits.max_frame_bytes",
        killed_by=f"{_FRAMES}::test_a_stranger_has_room_for_a_hello_and_no_more",
    ),
    Mutant(
        name="sockets of strangers are counted by each address of IPv6",
        breaks=_FAIR,
        file="gateway/sockets.py",
        old="self._unknown.take(network_of(head.peer))",
        new="self._unknown.take(head.peer)",
        killed_by=f"{_BOUNDS}::test_sockets_of_strangers_are_counted_by_their_network",
    ),
    Mutant(
        name="a socket that is cut keeps its place",
        breaks=_BACK,
        file="gateway/sockets.py",
        old="                one.place.close()\n",
        new="",
        killed_by=f"{_BOUNDS}::test_a_socket_that_is_struck_at_any_step_leaves_nothing",
    ),
    # --- heads
    Mutant(
        name="a slash within an id leads to another route",
        breaks="ids with a slash are refused on every route",
        file="gateway/endpoint.py",
        old="if call.has_encoded_slash:  # it came apart",
        new="if False:  # it came apart",
        killed_by=f"{_HEADS}::test_no_spelling_of_an_id_leads_to_a_session_or_a_route_that_was_not_named",
    ),
    Mutant(
        name="a token as a value of a query is repeated",
        breaks=_TOLD,
        file="gateway/access.py",
        old=' and not _TOKEN.search(f"{_decoded(head.query)} {head.path}")',
        new="",
        killed_by=f"{_HEADS}::test_a_token_of_ours_is_refused_wherever_it_stands_in_a_url",
    ),
    Mutant(
        name="a page of another site has something fetched without an Origin",
        breaks="pages of other origins may not call",
        file="gateway/access.py",
        old="if origin is None and is_fetched_from_elsewhere(head.headers):",
        new="if False:",
        killed_by=f"{_HEADS}::test_what_a_page_of_another_site_has_fetched_is_refused",
    ),
    # --- one caller and all others
    Mutant(
        name="one caller's bodies take all the room there is",
        breaks=_FAIR,
        file="gateway/incoming.py",
        old="if caller is not None and 2 *",
        new="if caller is not None and 0 *",
        killed_by=f"{_BOUNDS}::test_bodies_of_one_caller_take_half_of_the_room_at_most",
    ),
    Mutant(
        name="a body that was cancelled is counted for ever",
        breaks=_BACK,
        file="gateway/incoming.py",
        old="            self._hold(-came, caller)\n",
        new="            self._hold(0, caller)\n",
        killed_by=f"{_BOUNDS}::test_bodies_of_one_caller_take_half_of_the_room_at_most",
    ),
    Mutant(
        name="what cannot be read costs nothing",
        breaks=_FAIR,
        file="gateway/endpoint.py",
        old="if decide_charge(route.operation) is not None:  # what cannot be read",
        new="if False:  # what cannot be read",
        killed_by=f"{_BOUNDS}::test_calls_that_cannot_be_read_are_counted_like_others",
    ),
    Mutant(
        name="what is large is read while all others wait",
        breaks=_FAIR,
        file="gateway/routing.py",
        old="return read() if size <= READ_HERE_BYTES else",
        new="return read() if size else",
        killed_by=f"{_BOUNDS}::test_what_is_large_is_read_where_no_one_waits_for_it",
    ),
    Mutant(
        name="as many threads read as there are callers",
        breaks=_FAIR,
        file="gateway/routing.py",
        old="await outside.offload(read, limiter=self.readers)",
        new="await outside.offload(read)",
        killed_by=f"{_BOUNDS}::test_what_is_large_is_read_where_no_one_waits_for_it",
    ),
    Mutant(
        name="the HEAD of a stream opens it",
        breaks=_BOUND,
        file="gateway/endpoint.py",
        old='has_head = "GET" in self._routes and not self._routes["GET"].is_stream',
        new='has_head = "GET" in self._routes',
        killed_by=f"{_BOUNDS}::test_a_head_of_a_stream_opens_none",
    ),
    # --- other people
    Mutant(
        name="what a session that ended had published is shown to others",
        breaks=_UNKNOWN,
        file="host/host_sessions.py",
        old="if session is None or owner_of_session(session.facts.user_data) != owner:",
        new="if session is None:",
        killed_by=f"{_OTHERS}::test_on_every_route_a_session_of_another_is_one_that_never_was",
    ),
)
