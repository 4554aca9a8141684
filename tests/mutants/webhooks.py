"""Mutants of webhooks: where they may go, when they are sent, what they say, and what is lost with a process."""

from typing import Final

from tests.mutants.mutant import Mutant

_PLACES: Final = "nothing is sent to an address that is not public"
_ORDER: Final = "webhooks of a session come in order, and each until it is taken"
_SIGNED: Final = "a receiver knows who sent a webhook, and which"
_KEPT: Final = "with a store what is owed to receivers outlives the process"
_FAIR: Final = "slow receivers of one tenant delay no other"
_ADDRESS: Final = "tests/host/test_webhook_address.py"
_SENDING: Final = "tests/host/test_webhook_sending.py"
_SCHEDULE: Final = "tests/host/test_webhook_schedule.py"
_MESSAGE: Final = "tests/host/test_webhook_message.py"
_HOOKS: Final = "tests/host/test_webhooks.py"

MUTANTS: Final[tuple[Mutant, ...]] = (
    Mutant(
        name="an IPv6 address that holds a private IPv4 one is public",
        breaks=_PLACES,
        file="web/addresses.py",
        old="            return is_public(ipaddress.IPv4Address(int(plain) & 0xFFFFFFFF))\n",
        new="            return True\n",
        killed_by=f"{_ADDRESS}::test_an_address_that_is_not_public_is_refused_as_a_literal_and_behind_a_name",
    ),
    Mutant(
        name="a webhook goes wherever its name leads",
        breaks=_PLACES,
        file="web/places.py",
        old="        if not is_trusted:\n            judge_ip(ip, allowed, is_strict=is_strict)\n",
        new="",
        killed_by=f"{_SENDING}::test_nothing_is_sent_to_an_address_of_this_machine",
    ),
    Mutant(
        name="a webhook is connected by its name, which is looked up again",
        breaks=_PLACES,
        file="web/backend.py",
        old="        return await self._carrier.connect_tcp(places[-1], port, timeout=seconds)\n",
        new="        return await self._carrier.connect_tcp((await self._resolve(host, port))[0], port, timeout=seconds)\n",
        killed_by=f"{_SENDING}::test_a_name_is_looked_up_once_and_what_was_judged_is_connected",
    ),
    Mutant(
        name="a host that is allowed lets all names pass that lead there",
        breaks=_PLACES,
        file="web/places.py",
        old="    is_trusted = address.host in allowed.hosts or address.origin in allowed.origins\n",
        new="    is_trusted = bool(allowed.hosts or allowed.origins)\n",
        killed_by=f"{_ADDRESS}::test_a_host_may_be_allowed_whatever_it_leads_to",
    ),
    Mutant(
        name="an address is judged behind the hooks of a request",
        breaks=_PLACES,
        file="host/intake.py",
        old="        self._parts.delivery.check(webhook)\n",
        new="",
        killed_by=f"{_HOOKS}::test_an_address_that_may_not_be_is_refused_before_any_hook",
    ),
    Mutant(
        name="what failed comes behind what its session said later",
        breaks=_ORDER,
        file="host/webhook_schedule.py",
        old="            lane[0] = after\n",
        new="            lane.popleft()\n            lane.append(after)\n",
        killed_by=f"{_SCHEDULE}::test_a_session_has_one_message_under_way_and_no_other_session_waits_for_it",
    ),
    Mutant(
        name="a webhook is given up one try too early",
        breaks=_ORDER,
        file="host/webhook_schedule.py",
        old="    if message.tries >= len(RETRY_SECONDS):\n",
        new="    if message.tries >= len(RETRY_SECONDS) - 1:\n",
        killed_by=f"{_SCHEDULE}::test_the_schedule_is_the_documented_one",
    ),
    Mutant(
        name="a redirect is a delivery",
        breaks=_ORDER,
        file="host/webhook_schedule.py",
        old="200 <= status < 300",
        new="200 <= status < 400",
        killed_by=f"{_SCHEDULE}::test_all_else_is_tried_again_but_410",
    ),
    Mutant(
        name="a receiver that is gone hears of the end all the same",
        breaks=_ORDER,
        file="host/webhook_delivery.py",
        old="                if message.key in self._watches:\n",
        new="                if False:\n",
        killed_by=f"{_HOOKS}::test_a_receiver_that_is_gone_hears_no_more_of_that_request",
    ),
    Mutant(
        name="a message of one id is owed twice",
        breaks=_ORDER,
        file="host/webhook_schedule.py",
        old="        if message.id in self._ids:\n            return None\n",
        new="",
        killed_by=f"{_SCHEDULE}::test_an_id_is_owed_once",
    ),
    Mutant(
        name="one tenant may have all tries under way",
        breaks=_FAIR,
        file="host/webhook_schedule.py",
        old="tenant.under_way < self._max_of_a_tenant",
        new="tenant.under_way < self._max_at_once",
        killed_by=f"{_SCHEDULE}::test_a_tenant_whose_receivers_are_slow_leaves_room_for_others",
    ),
    Mutant(
        name="the time of a try is not signed",
        breaks=_SIGNED,
        file="host/webhook_message.py",
        old='f"{message_id}.{at_seconds}.".encode()',
        new='f"{message_id}.0.".encode()',
        killed_by=f"{_MESSAGE}::test_the_example_of_the_standard_comes_out",
    ),
    Mutant(
        name="a later process makes another id of the same end",
        breaks=_SIGNED,
        file="host/webhook_message.py",
        old='"\\0".join((*watch.key, kind, str(seq)))',
        new='"\\0".join((*watch.key, kind, str(seq), str(at_ms)))',
        killed_by=f"{_HOOKS}::test_what_died_between_an_end_and_its_word_is_told_under_the_id_that_it_would_have_had",
    ),
    Mutant(
        name="a webhook says why a request ended",
        breaks=_SIGNED,
        file="host/webhook_message.py",
        old='        "seq": seq,\n',
        new='        "seq": seq,\n        "reason": record.reason,\n',
        killed_by=f"{_MESSAGE}::test_an_end_is_told_with_ids_numbers_and_an_outcome_and_no_content",
    ),
    Mutant(
        name="the end of a process is told as that of a request that goes on",
        breaks=_KEPT,
        file="host/webhook_message.py",
        old='        if record.status == "shutdown" and survives:\n',
        new="        if False:\n",
        killed_by=f"{_HOOKS}::test_a_request_that_a_later_process_ends_is_told_by_that_one",
    ),
    Mutant(
        name="what is to be told is kept behind the acceptance",
        breaks=_KEPT,
        file="host/carrying.py",
        old="            await self._watch(session)\n            receipt = await self._send(session, text)\n",
        new="            receipt = await self._send(session, text)\n            await self._watch(session)\n",
        killed_by=f"{_HOOKS}::test_that_an_end_is_to_be_told_is_kept_before_the_session_has_the_message",
    ),
    Mutant(
        name="what was not accepted is still to be told",
        breaks=_KEPT,
        file="host/carrying.py",
        old="            self._parts.delivery.forget(self._watch_made.key)\n",
        new="            pass\n",
        killed_by=f"{_HOOKS}::test_nothing_is_told_of_a_message_that_was_not_accepted",
    ),
    Mutant(
        name="rows that a store did not take are forgotten",
        breaks=_KEPT,
        file="host/webhook_delivery.py",
        old="                self._changes = {**changes, **self._changes}\n",
        new="",
        killed_by=f"{_HOOKS}::test_rows_are_written_when_the_store_is_back",
    ),
    Mutant(
        name="requests of earlier processes are not followed",
        breaks=_KEPT,
        file="host/opening.py",
        old='                    nursery.start_soon(self.host.follow_awaited, name="follow requests for webhooks")\n',
        new="",
        killed_by=f"{_HOOKS}::test_what_died_before_its_session_had_the_message_is_told_to_no_one",
    ),
    Mutant(
        name="a row of a newer agentrail keeps a host from opening",
        breaks=_KEPT,
        file="host/webhook_rows.py",
        old='class _Watch(msgspec.Struct, frozen=True, kw_only=True, tag_field="v", tag=1):',
        new="class _Watch(msgspec.Struct, frozen=True, kw_only=True):",
        killed_by=f"{_MESSAGE}::test_rows_of_today_are_the_golden_ones",
    ),
)
