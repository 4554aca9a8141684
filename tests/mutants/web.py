"""Mutants of the web: where nothing connects to, what a page may cost, what a stranger's bytes may do."""

from typing import Final

from tests.mutants.mutant import Mutant

_PRIVATE: Final = "no request of web_fetch reaches a private address (G-019)"
_BOUNDS: Final = "a page costs what its bounds say"
_FOREIGN: Final = "bytes of strangers are read in a process without rights (G-029)"
_FENCE: Final = "what a stranger wrote stays in its fence"
_FILES: Final = "an untrusted project opens nothing of the web"
_CITED: Final = "a citation that nothing held is said"
_ADDRESSES: Final = "tests/web/test_addresses.py"
_CLIENT: Final = "tests/web/test_client.py"
_READING: Final = "tests/web/test_reading.py"

MUTANTS: Final[tuple[Mutant, ...]] = (
    Mutant(
        name="what the name of a redirect leads to is not judged",
        breaks=_PRIVATE,
        file="web/fetching.py",
        old="                return judge_found(address, found, self.rules.inside, is_strict=True)\n",
        new="                return found\n",
        killed_by=f"{_CLIENT}::test_a_redirect_to_a_private_address_is_not_followed",
    ),
    Mutant(
        name="an address that holds a public one is public",
        breaks=_PRIVATE,
        file="web/places.py",
        old="    if is_strict and carries_another(ip):\n",
        new="    if is_strict and carries_another(ip) and not is_public(ip):\n",
        killed_by=f"{_ADDRESSES}::test_a_refused_address_is_so_as_a_literal_and_behind_a_name",
    ),
    Mutant(
        name="ISATAP is not known",
        breaks=_PRIVATE,
        file="web/addresses.py",
        old="    return is_isatap or any(",
        new="    return any(",
        killed_by=f"{_ADDRESSES}::test_no_form_that_carries_an_ipv4_address_is_reached",
    ),
    Mutant(
        name="the first answer for a name is judged alone",
        breaks=_PRIVATE,
        file="web/backend.py",
        old="        places = tuple(self._judge(host, port, found))[:_MAX_PLACES]\n",
        new="        places = (*self._judge(host, port, found[:1]), *found[1:])[:_MAX_PLACES]\n",
        killed_by=f"{_CLIENT}::test_a_name_that_leads_here_is_not_connected",
    ),
    Mutant(
        name="http stays http",
        breaks=_PRIVATE,
        file="web/rules.py",
        old='            scheme="https", host=address.host, port=port,',
        new='            scheme="http", host=address.host, port=port,',
        killed_by=f"{_ADDRESSES}::test_an_address_has_one_form",
    ),
    Mutant(
        name="what is allowed wins over what is blocked",
        breaks=_PRIVATE,
        file="web/rules.py",
        old="    if is_below(host, rules.block):\n",
        new="    if is_below(host, rules.block) and not is_below(host, rules.allow):\n",
        killed_by=f"{_ADDRESSES}::test_domains_are_compared_in_their_idna_form_with_those_below",
    ),
    Mutant(
        name="bytes are counted as they are sent",
        breaks=_BOUNDS,
        file="web/inflating.py",
        old="        if len(self.content) + len(piece) > self._max_bytes:\n",
        new="        if self._taken > self._max_bytes:\n",
        killed_by=f"{_CLIENT}::test_what_cannot_be_taken_is_an_error_with_its_reason",
    ),
    Mutant(
        name="a bomb is inflated in one go",
        breaks=_BOUNDS,
        file="web/inflating.py",
        old="                piece = self._inflater.decompress(left, INFLATED_PIECE_BYTES)\n",
        new="                piece = self._inflater.decompress(left)\n",
        killed_by=f"{_CLIENT}::test_no_more_than_a_piece_is_inflated_at_once",
    ),
    Mutant(
        name="the reader of a page outlives its call",
        breaks=_FOREIGN,
        file="web/reading.py",
        old="        process.kill()\n        with trio.CancelScope(shield=True):",
        new="        with trio.move_on_after(0):",
        killed_by=f"{_READING}::test_it_is_gone_with_its_call",
    ),
    Mutant(
        name="the reader of a page may call the network",
        breaks=_FOREIGN,
        file="web/page_helper.py",
        old="            _filter_calls()\n\n\ndef _give_up",
        new="            pass\n\n\ndef _give_up",
        killed_by=f"{_READING}::test_the_kernel_refuses_what_the_interpreter_does_not_see",
    ),
    Mutant(
        name="the reader of a page takes all memory",
        breaks=_FOREIGN,
        file="web/page_helper.py",
        old="        limit(resource.RLIMIT_AS, MAX_ADDRESS_SPACE, MAX_ADDRESS_SPACE)\n",
        new="",
        killed_by=f"{_READING}::test_it_has_limits_of_memory_and_time",
    ),
    Mutant(
        name="the reader of a page sees the environment",
        breaks=_FOREIGN,
        file="web/reading.py",
        old='"stderr": subprocess.DEVNULL, "env": {},',
        new='"stderr": subprocess.DEVNULL,',
        killed_by=f"{_READING}::test_it_sees_nothing_of_the_environment",
    ),
    Mutant(
        name="a page ends its fence",
        breaks=_FENCE,
        file="tools/fenced_pages.py",
        old="    said = fenced_in(text, *_MARKS)\n",
        new="    said = text\n",
        killed_by="tests/tools/test_web_tools.py::test_nothing_in_a_page_ends_its_fence",
    ),
    Mutant(
        name="a mark is looked for with repeats that give back",
        breaks=_FENCE,
        file="core/values/fences.py",
        old="[^\\w<]*+(?:",
        new="\\s*/?\\s*(?:",
        killed_by="tests/core/test_fences.py::test_no_text_takes_longer_than_it_is_long",
    ),
    Mutant(
        name="a page leads web_fetch to another host",
        breaks=_FENCE,
        file="tools/web_fetch.py",
        old="stays_on_host=True",
        new="stays_on_host=False",
        killed_by="tests/tools/test_web_tools.py::test_a_page_leads_the_tool_to_no_other_host",
    ),
    Mutant(
        name="a session is given what another one has fetched",
        breaks=_FENCE,
        file="tools/web_fetch.py",
        old="        kept = self._pages.get((session_id, url))\n",
        new="        kept = next((one for (_, at), one in self._pages.items() if at == url), None)\n",
        killed_by="tests/tools/test_web_tools.py::test_a_page_is_shown_as_markdown_in_a_fence",
    ),
    Mutant(
        name="an untrusted project says what is inside",
        breaks=_FILES,
        file="config/narrowing.py",
        old='            if name == "block" or (name',
        new='            if name in ("block", "inside") or (name',
        killed_by="tests/blueprints/test_web.py::test_an_untrusted_project_closes_and_opens_nothing",
    ),
    Mutant(
        name="a project opens what the user blocks",
        breaks=_FILES,
        file="config/settings.py",
        old='    if "block" in first and "block" in second:\n',
        new='    if "block" in first and not second:\n',
        killed_by="tests/blueprints/test_web.py::test_a_trusted_project_does_not_open_what_the_user_blocks",
    ),
    Mutant(
        name="sources of the cycle before may be cited",
        breaks=_CITED,
        file="plugins/citations.py",
        old="        if ctx.turn <= 1:\n            state = HeldSources()\n",
        new="",
        killed_by="tests/plugins/test_citations.py::test_what_a_cycle_found_may_be_cited_in_it_and_in_no_other",
    ),
)
