"""Mutants of the providers: what is kept of a conversation, and what a format is carried out with."""

from typing import Final

from tests.mutants.mutant import Mutant

_KEPT: Final = "what a provider keeps of a conversation never shows (7.13)"
_PLAIN: Final = "no certificates are loaded for a server without TLS (16.4)"
_BOUNDED: Final = "nothing fills the memory"
_ADVISED: Final = "the advice names what the user did (14.2)"
_ADVICE: Final = "tests/providers/test_advice.py"
_BOUNDS: Final = "tests/providers/test_bounds.py"
_GROUPING: Final = "tests/providers/test_grouping.py"

MUTANTS: Final[tuple[Mutant, ...]] = (
    Mutant(
        name="what is kept of another conversation goes out",
        breaks=_KEPT,
        file="providers/grouping.py",
        old="        return all(map(operator.is_, self._last[: known + 1], messages[: known + 1]))\n",
        new="        return True\n",
        killed_by=f"{_GROUPING}::test_equal_messages_are_not_the_same",
    ),
    Mutant(
        name="what is settled stays so when the message behind it is taken back",
        breaks=_KEPT,
        file="providers/grouping.py",
        old="        if known >= len(messages) or known > steady or key != self._key:\n",
        new="        if known > min(len(messages), steady) or key != self._key:\n",
        killed_by=f"{_GROUPING}::test_the_last_group_is_open_again_when_what_followed_it_is_taken_back",
    ),
    Mutant(
        name="equal messages are taken for the same",
        breaks=_KEPT,
        file="providers/grouping.py",
        old="all(map(operator.is_, ",
        new="all(map(operator.eq, ",
        killed_by=f"{_GROUPING}::test_equal_messages_are_not_the_same",
    ),
    Mutant(
        name="a long piece overtakes short ones",
        breaks=_KEPT,
        file="providers/grouping.py",
        old="            if self._short and (is_long or len(self._short) >= _BLOCK_PIECES):\n",
        new="            if self._short and len(self._short) >= _BLOCK_PIECES:\n",
        killed_by=f"{_GROUPING}::test_long_and_short_pieces_stay_in_order",
    ),
    Mutant(
        name="any longer log has grown from any other",
        breaks=_KEPT,
        file="core/values/append_only.py",
        old="return self._items is older._items and self._length >= older._length",
        new="return self._length >= older._length",
        killed_by="tests/core/test_append_only.py::test_what_a_log_grew_from_is_its_beginning",
    ),
    Mutant(
        name="any proxy wants certificates",
        breaks=_PLAIN,
        file="providers/http.py",
        old='    return any(proxies.get(kind, "").lower().startswith("https:") for kind in ("http", "all"))\n',
        new="    return bool(proxies)\n",
        killed_by=f"{_BOUNDS}::test_no_certificates_are_loaded_for_a_server_without_tls",
    ),
    Mutant(
        name="a refused document is read to its end",
        breaks=_BOUNDED,
        file="providers/http.py",
        old="                    raise failure_of(_answer(response, await _read_refusal(response)), vendor)\n                return",
        new="                    raise failure_of(_answer(response, await _read_document(response)), vendor)\n                return",
        killed_by=f"{_BOUNDS}::test_what_has_no_end_is_given_up",
    ),
    Mutant(
        name="the key of another vendor is sent",
        breaks="no key travels to where it is not meant for (7.4)",
        file="providers/http_provider.py",
        old="        refuse_foreign_key(vendor)\n",
        new="",
        killed_by=f"{_ADVICE}::test_the_key_of_another_vendor_is_not_sent",
    ),
    Mutant(
        name="no credit is taken for a wrong key",
        breaks=_ADVISED,
        file="providers/failures.py",
        old="    if fault is not None and _is_about_money(status, fault):\n",
        new="    if False:\n",
        killed_by=f"{_ADVICE}::test_the_advice_names_it",
    ),
    Mutant(
        name="a redirect is advised with the path of the call",
        breaks=_ADVISED,
        file="providers/failures.py",
        old='.removesuffix(added).rstrip("/")',
        new='.rstrip("/")',
        killed_by=f"{_ADVICE}::test_the_advice_names_it",
    ),
)
