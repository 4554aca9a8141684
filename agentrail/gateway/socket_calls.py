"""Socket commands as calls of routes: a command runs its HTTP route, so all the same checks apply."""

from collections.abc import Iterable, Mapping
from typing import Final, NoReturn

from attrs import field, frozen

from agentrail.frozen import thawed
from agentrail.gateway.authorization import CallHead, checked, require_scope, require_user
from agentrail.gateway.error_responses import CallRefused, ErrorAnswer
from agentrail.gateway.path_endpoint import CallRoute, Gateway, Result, RouteCall, user_in_body
from agentrail.gateway.request_parser import check_id, check_known, make_body, refuse_field
from agentrail.gateway.session_routes import OFFERS, Offer
from agentrail.gateway.socket_frames import CommandFrame
from agentrail.gateway.whole_answer import WholeAnswer
from agentrail.host.hook_payloads import HandledResponse, Principal
from agentrail.wire.plain import encode_plain

_NOT_OF_A_COMMAND: Final = frozenset({"idempotency-key", "last-event-id", "content-type", "content-length"})
"""Headers of a single call: those of the upgrade must not apply to each command."""

_REFUSED_FROM: Final = 400


@frozen
class SocketCommand:
    """An offered command with its route.

    Attributes:
        is_named: Whether a `client_id` names the command, so that it is carried out once.
        params: Parts of the path.
    """

    offer: Offer
    route: CallRoute
    is_named: bool = field(init=False)
    params: tuple[str, ...] = field(init=False)

    @is_named.default
    def _is_named(self) -> bool:
        has_own = self.route.body is not None and "client_id" in self.route.body.__struct_fields__
        return self.offer.is_named or not (self.offer.is_read or has_own)

    @params.default
    def _params_of_path(self) -> tuple[str, ...]:
        parts = self.route.path.split("/")
        return tuple(part[1:-1] for part in parts if part.startswith("{"))


def socket_commands(routes: Iterable[CallRoute]) -> Mapping[str, SocketCommand]:
    by_path = {(route.method, route.path): route for route in routes}
    found = (
        (offer, by_path.get(offer.route) if isinstance(offer.route, tuple) else offer.route)
        for offer in OFFERS
    )
    return {offer.name: SocketCommand(offer, route) for offer, route in found if route is not None}


def call_of_command(
    command: CommandFrame, known: SocketCommand, gateway: Gateway, head: CallHead, principal: Principal
) -> RouteCall:
    route = known.route
    call = RouteCall(
        gateway=gateway,
        head=_head_of(head),
        receive=_no_body,
        send=_no_answer,
        principal=principal,
        via="websocket",
    )
    _read(call, command, known)
    checked(require_scope(call.principal, route.scope or "use", route.also))
    if route.needs_user:
        checked(require_user(call.principal))
    return call


async def carry_out(call: RouteCall, known: SocketCommand) -> bytes:
    return _result_of(await known.route.handler(call))


def _read(call: RouteCall, command: CommandFrame, known: SocketCommand) -> None:
    fields = dict(command.fields)
    route = known.route
    of_body: tuple[str, ...] = () if route.body is None else route.body.__struct_fields__
    if command.session_id is not None and "session_id" not in known.params:
        fields["session_id"] = command.session_id
    if "client_id" not in of_body:  # every command may have one, so that its client can send it again
        given = fields.pop("client_id", None)
        if given is not None:
            check_id("client_id", _text("client_id", given))
    own = [name for name in known.params if name != "session_id"]
    check_known(fields, (*of_body, *route.query, *own))
    call.params = {name: check_id(name, _text(name, fields.pop(name, None))) for name in own}
    if "session_id" in known.params:
        call.params = {**call.params, "session_id": _text("session_id", command.session_id)}
    call.query = {name: _query_text(name, fields.pop(name)) for name in route.query if name in fields}
    if command.name == "abort_tool":
        _text("call_id", fields.get("call_id"))
    if route.body is not None:
        call.body = make_body(route.body, fields, call.gateway.limits, size=command.size)
        user_in_body(call)  # which is the socket's caller, or refused


def _text(name: str, value: object) -> str:
    if not isinstance(value, str):
        refuse_field(name, "is missing, or not text")
    return value


def _query_text(name: str, value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if not isinstance(value, int | str):
        refuse_field(name, "must be a text, a whole number, true or false")
    return f"{value}"


def _head_of(head: CallHead) -> CallHead:
    headers = {name: value for name, value in head.headers.items() if name not in _NOT_OF_A_COMMAND}
    return CallHead(method=head.method, path=head.path, headers=headers, peer=head.peer, is_websocket=True)


def _result_of(result: Result) -> bytes:
    match result:
        case WholeAnswer():
            return result.body or b"null"
        case HandledResponse(status=status) if status < _REFUSED_FROM:
            return encode_plain(result.body)
        case HandledResponse():
            raise CallRefused(_answer_of_plugin(result))
        case _:
            message = "a handler returned a stream instead of a reply"
            raise AssertionError(message)


def _answer_of_plugin(handled: HandledResponse) -> ErrorAnswer:
    headers = {name.lower(): value for name, value in handled.headers.items()}
    return ErrorAnswer(
        status=handled.status,
        code="request_refused",
        message="a host plugin answered in place of the session",
        headers=headers,
        more={"body": thawed(handled.body)},
    )


async def _no_body() -> NoReturn:  # noqa: RUF029 - replaces the receive function
    message = "the handler of a command read its body twice"
    raise AssertionError(message)


async def _no_answer(_: object) -> NoReturn:  # noqa: RUF029 - replaces the send function
    message = "the handler of a command wrote its own answer"
    raise AssertionError(message)
