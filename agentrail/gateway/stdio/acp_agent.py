"""The methods of ACP, as calls of a host in this process."""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, Final

import trio
from attrs import evolve, frozen

from agentrail.abc import Refusal
from agentrail.errors import AgentrailError, Authentication, ErrorInfo, OptionError, SandboxError, YourMove
from agentrail.events import Approval
from agentrail.frozen import thawed
from agentrail.gateway.error_responses import ERROR_ANSWERS, answer_to
from agentrail.gateway.stdio.acp_connection import AcpConnection, AcpMethod
from agentrail.gateway.stdio.acp_session import (
    PERMISSIONS,
    AskedOfEditor,
    ClientFiles,
    EditorPrompt,
    EditorSession,
)
from agentrail.host.admission import mint_session
from agentrail.host.agent_profiles import ProfileContext
from agentrail.host.hook_payloads import ChatRequest, HandledResponse, Principal
from agentrail.host.host import Host
from agentrail.host.identity import SessionOwner, metadata_of_session
from agentrail.host.request_run import WhenBusy
from agentrail.messages import Image, Text, UserBlock
from agentrail.otp.exits import keep
from agentrail.protocols import acp
from agentrail.protocols.decisions import question_words
from agentrail.protocols.error_shapes import INVALID_PARAMS, METHOD_NOT_FOUND, json_rpc_error
from agentrail.protocols.response_changes import Frame
from agentrail.protocols.response_state import text_of_handled
from agentrail.runtime.crashes import log_crash
from agentrail.runtime.rule_queries import read_always_rules
from agentrail.runtime.session_handle import Session
from agentrail.runtime.session_options import SessionOptions
from agentrail.tools.mcp.server_options import McpServer
from agentrail.wire import operations
from agentrail.wire.operations import ApproveArguments, DeclineBody, RejectBody, RespondBody

EDITOR: Final = Principal(tenant_id="local", user_id="local")
_ABORT_SECONDS: Final = 3.0
_MAX_LISTED: Final = 200
_OPENING: Final = frozenset({"session/new", "session/load", "session/resume"})


@frozen(kw_only=True)
class _Place:
    """What the editor decides of a session."""

    cwd: str
    servers: tuple[McpServer, ...]
    files: ClientFiles | None


class EditorPlaces:
    """Directories, files and servers that an editor gives to its sessions."""

    def __init__(self, *, client_terminal: bool = False) -> None:
        self.client_terminal = client_terminal
        self.by_session: dict[str, _Place] = {}

    def arrange(
        self, options: SessionOptions, context: ProfileContext, shared: tuple[str, ...]
    ) -> SessionOptions:
        """Return the options of a session. `shared` are the names of the host's servers."""
        place = self.by_session.get(context.session_id)
        if place is None:
            return options
        sandbox = place.files if options.sandbox in (None, "local") else options.sandbox
        mcp = options.mcp
        if place.servers:  # which replace others of their names
            names = {one.name for one in place.servers}
            others = [
                one for one in (shared if mcp is None else mcp) if getattr(one, "name", one) not in names
            ]
            mcp = (*others, *place.servers)
        return evolve(options, working_dir=place.cwd, sandbox=sandbox, mcp=mcp)


class AcpAgent:
    def __init__(self, connection: AcpConnection, host: Host, places: EditorPlaces) -> None:
        self._connection = connection
        self._host = host
        self._places = places
        self._sessions: dict[str, EditorSession] = {}
        self._methods: Mapping[str, AcpMethod] = {
            "authenticate": self._authenticate,
            "session/new": self._new,
            "session/load": partial(self._again, replays=True),
            "session/resume": partial(self._again, replays=False),
            "session/list": self._list,
            "session/close": self._close,
            "session/delete": self._delete,
            "session/set_mode": self._set_option,
            "session/set_config_option": self._set_option,
        }

    def handler(self, said: acp.RpcMessage) -> AcpMethod:
        """Return the method of a request. Prompts of a session are put in order here, because tasks start in any order."""
        method = self._methods.get(f"{said.method}", _unknown_method)
        found = self._sessions.get(f"{said.params.get('sessionId')}")
        if said.method == "session/prompt":
            prompt = None if found is None else found.add_prompt()
            method = partial(self._prompt, found, prompt)
        return partial(_as_fault, f"{said.method}", method)

    async def announce(self, method: str, answer: Frame) -> None:
        found = self._sessions.get(f"{answer.get('sessionId')}")
        if found is not None and method in _OPENING and self._host.commands.are_read:
            with suppress(AgentrailError):  # the session has ended meanwhile
                rows = await self._host.commands.rows(SessionOwner.of(EDITOR), found.session.facts)
                shown = [(one.name, one.description, one.arguments) for one in rows if one.available]
                await self._connection.send(acp.commands_update(found.view.session_id, shown))

    def cancel(self, session_id: str) -> None:
        found = self._sessions.get(session_id)
        if found is not None:
            aborts = found.abort_soon(found.prompts, "cancelled in the editor")
            self._connection.nursery.start_soon(aborts)

    async def leave(self) -> None:
        """Abort all prompts, within a time limit."""
        with trio.move_on_after(_ABORT_SECONDS):
            async with trio.open_nursery() as nursery:
                for one in self._sessions.values():
                    nursery.start_soon(one.abort_soon(one.prompts, "the editor has left"))

    # --- decisions

    def _ask_user(self, found: EditorSession, call_id: str, asked: AskedOfEditor) -> None:
        self._connection.nursery.start_soon(self._send_question, found, call_id, asked)

    async def _send_question(self, found: EditorSession, call_id: str, asked: AskedOfEditor) -> None:
        rules: tuple[str, ...] = ()
        if isinstance(asked, Approval):
            with suppress(AgentrailError):
                rules = await read_always_rules(found.session, asked.id)
            frame = acp.permission_request(found.view, call_id, asked, rules)
        elif self._connection.has("elicitation", "form" if asked.url is None else "url"):
            frame = acp.question_request(found.view, call_id, asked)
        else:
            await self._connection.send(acp.said_in_words(found.view.session_id, question_words(asked)))
            found.words.append(asked)  # a later prompt answers it
            found.changed()
            return
        if frame["id"] in found.asked:  # it is still open
            await self._connection.request(frame, partial(self._decided, found, asked, rules))

    async def _decided(
        self, found: EditorSession, asked: AskedOfEditor, rules: tuple[str, ...], said: acp.RpcMessage
    ) -> None:
        session, user = found.session, EDITOR.user_id
        if (asked.id if isinstance(asked, Approval) else asked.ref) not in found.asked:
            return
        makes_rule = isinstance(asked, Approval) and "always" in asked.permission_options
        with suppress(AgentrailError):  # it was decided meanwhile
            match acp.read_acp_decision(asked, said.result, is_error=said.error is not None):
                case ApproveArguments(approval_id=name, kind="always") if not makes_rule:
                    if rules:  # of `Permissions`, which are narrower than one of the session
                        await session.approve(name, user=user)
                        allowed: Any = await found.permissions("allow") or ()
                        await session.update_plugin_opts(
                            PERMISSIONS, allow=[*dict.fromkeys((*allowed, *rules))]
                        )
                case ApproveArguments(approval_id=name, kind=kind):
                    await session.approve(name, kind=kind, user=user)
                case RejectBody(approval_id=name, reason=reason):
                    await session.reject(name, reason, auto_resume=True, user=user)
                case RespondBody(ref=ref, response=response):
                    try:
                        await self._host.respond(session.session_id, ref, response, EDITOR)
                    except YourMove as refused:  # the editor has closed its form, and sends no other answer
                        await session.decline(
                            ref, f"{refused}"[: operations.MAX_SENTENCE_CHARACTERS], user=user
                        )
                case DeclineBody(ref=ref):
                    await session.decline(ref, user=user)
                case _:
                    pass

    # --- sessions

    async def _authenticate(self, _: Mapping[str, Any]) -> Frame:
        await trio.lowlevel.checkpoint()  # the agent is open, so there is a model
        return {}

    async def _new(self, params: Mapping[str, Any]) -> Frame:
        form, session_id = acp.read_acp_form(params), mint_session()
        with self._placed(session_id, form) as cwd:
            session = await self._host.create(EDITOR, session_id=session_id, metadata={"cwd": cwd})
            return {"sessionId": session_id, **await self._attach(session, cwd, replays=False)}

    async def _again(self, params: Mapping[str, Any], *, replays: bool) -> Frame:
        form = acp.read_acp_form(params)
        with self._placed(form.session_id, form) as cwd:
            session = await self._host.session(form.session_id, EDITOR, only_root=True)
            return await self._attach(session, cwd, replays=replays)

    @contextmanager
    def _placed(self, session_id: str, form: acp.AcpForm) -> Iterator[str]:
        """Keep what the editor decides of a session that starts. One that is awake keeps what it has."""
        places = self._places.by_session
        cwd = form.cwd or ""
        if not Path(cwd).is_absolute() or not os.path.isdir(cwd):  # noqa: PTH112 - `is_dir` raises for a long name
            message = f"cwd is {cwd!r:.200}: expected the absolute path of a directory"
            raise acp.AcpFault(INVALID_PARAMS, message)
        try:
            servers = [McpServer(**acp.server_options(one), cwd=cwd) for one in form.mcp_servers or ()]
        except OptionError as error:
            raise acp.AcpFault(INVALID_PARAMS, f"mcpServers: {error}") from None
        names = [one.name for one in servers]
        if len(set(names)) < len(names):
            message = f"mcpServers: two of {', '.join(sorted(names))} have one name here: rename one of them"
            raise acp.AcpFault(INVALID_PARAMS, message)
        files: ClientFiles | None = None
        has, shell = self._connection.has, self._host.options.shell_fallback
        offers = {name for name in ("readTextFile", "writeTextFile") if has("fs", name)}
        offers |= {"terminal"} if self._places.client_terminal and has("terminal") else set()
        if offers:
            files = ClientFiles(Path(cwd), partial(self._ask_file, session_id), offers, shell)
        is_new = session_id not in places
        places.setdefault(session_id, _Place(cwd=cwd, servers=tuple(servers), files=files))
        try:
            yield cwd
        except BaseException:
            if is_new:
                del places[session_id]
            raise

    async def _ask_file(self, session_id: str, method: str, params: Mapping[str, Any]) -> Any:
        late = partial(self._release, session_id) if method == "terminal/create" else None
        said = await self._connection.ask(method, {"sessionId": session_id, **params}, late)
        if said.error is None:
            return said.result
        words = said.error.get("message") if isinstance(said.error, dict) else said.error
        return Refusal(code="io_error", message=f"The editor refused: {words}"[:300])

    async def _release(self, session_id: str, made: acp.RpcMessage) -> None:
        """Release a terminal that was made for a cancelled call, which ends its command."""
        if isinstance(made.result, dict):
            await self._ask_file(
                session_id, "terminal/release", {"terminalId": made.result.get("terminalId")}
            )

    async def _attach(self, session: Session, cwd: str, *, replays: bool) -> Frame:
        self._detach(session.session_id)
        found = EditorSession(
            session, cwd, self._connection.send, self._ask_user, self._connection.has("session", "compaction")
        )
        self._sessions[session.session_id] = found
        await self._connection.nursery.start(partial(found.follow, replays=replays))
        return await found.settings()

    def _detach(self, session_id: str) -> None:
        found = self._sessions.pop(session_id, None)
        if found is not None:
            found.asked.clear()
            found.scope.cancel(reason="the editor closed the session")

    async def _list(self, params: Mapping[str, Any]) -> Frame:
        form, shown = acp.read_acp_form(params), []
        for one in await self._host.list_sessions(EDITOR, limit=_MAX_LISTED):
            known = one.metadata if one.session is None else metadata_of_session(one.session.facts.user_data)
            cwd = known.get("cwd")
            if isinstance(cwd, str) and form.cwd in {None, cwd} and one.row is not None:
                title = one.row.title or one.row.first_words
                shown.append(acp.listed_session(one.session_id, cwd, title, one.row.changed_at_ms))
        return {"sessions": shown}

    async def _close(self, params: Mapping[str, Any]) -> Frame:
        found = self._find(acp.read_acp_form(params))
        await found.abort_soon(found.prompts, "the editor closed the session")()
        self._detach(found.view.session_id)
        return {}

    async def _delete(self, params: Mapping[str, Any]) -> Frame:
        form = acp.read_acp_form(params)
        await self._host.delete_session(form.session_id, EDITOR, purge=self._host.has_store)
        self._detach(form.session_id)
        return {}

    def _find(self, form: acp.AcpForm) -> EditorSession:
        found = self._sessions.get(form.session_id)
        if found is None:
            raise acp.unknown_session(form.session_id)
        return found

    async def _set_option(self, params: Mapping[str, Any]) -> Frame:
        form = acp.read_acp_form(params)
        found = self._find(form)
        name, value = (form.config_id, form.value) if form.config_id else ("mode", form.mode_id)
        match name:
            case "model":
                await found.session.switch_model(value)
            case "mode" if value in acp.ACP_MODES and "modes" in await found.settings():
                await found.session.update_plugin_opts(PERMISSIONS, mode=value)
            case "when_busy" if value in acp.WHEN_EDITOR_BUSY:
                found.when_busy = value
            case _:
                raise acp.AcpFault(INVALID_PARAMS, f"{name!r:.40} cannot be {value!r:.80} in this session")
        return {"configOptions": (await found.settings())["configOptions"]} if form.config_id else {}

    # --- prompts

    async def _prompt(
        self, found: EditorSession | None, prompt: EditorPrompt | None, params: Mapping[str, Any]
    ) -> Frame:
        if found is None or prompt is None:
            raise acp.unknown_session(acp.read_acp_form(params).session_id)
        try:
            try:
                form = acp.read_acp_form(params)
                handled = await self._admit(found, prompt, tuple(map(acp.read_block, form.prompt)))
            finally:  # the next prompt follows
                prompt.admitted.set()
            if handled is not None or prompt.request is None:
                return handled or acp.prompt_result("aborted", None, None)
            record = await found.result_of(prompt.request)
        finally:
            found.prompts.remove(prompt)
        if record.status in {"failed", "refused", "not_found"}:
            error = record.error or ErrorInfo(
                code="prompt_rejected", message=record.reason or "it was refused"
            )
            row = ERROR_ANSWERS.get(error.code)
            raise _fault(error.code, error.message, 500 if row is None else row.status)
        return acp.prompt_result(record.status, record.stop_reason, record.usage)

    async def _admit(
        self, found: EditorSession, prompt: EditorPrompt, blocks: tuple[UserBlock, ...]
    ) -> Frame | None:
        """Give a prompt to the session, in order. Returns the result of one that needs no cycle."""
        if prompt.before is not None:
            await prompt.before.admitted.wait()
            prompt.before = None
        session_id = found.view.session_id
        words = "\n".join(one.text for one in blocks if isinstance(one, Text))
        if found.words:
            question = found.words[0]
            if found.request_id is not None:
                prompt.request = await self._host.request_again(session_id, found.request_id, EDITOR)
            await self._host.respond(session_id, question.ref, words, EDITOR)
            found.words = [one for one in found.words if one is not question]
            if found.words:  # shown again, because the next prompt answers it
                await self._connection.send(acp.said_in_words(session_id, question_words(found.words[0])))
            return None
        earlier = found.prompts[: found.prompts.index(prompt)]
        if earlier and found.when_busy == "interrupt":
            await found.abort_soon(earlier, "a new prompt")()
        if prompt.cancelled.is_set():
            return None
        busy: WhenBusy = "steer" if found.when_busy == "steer" else "queue"
        has_images = any(isinstance(one, Image) for one in blocks)
        request = ChatRequest(
            message=words,
            tenant_id=EDITOR.tenant_id,
            user_id=EDITOR.user_id,
            agent_id="",
            session_id=found.session.session_id,
        )
        handled = await self._host.submit(
            request, EDITOR, kind="prompt", when_busy=busy, via="acp", content=blocks if has_images else None
        )
        if isinstance(handled, HandledResponse):
            said = text_of_handled(thawed(handled.body))
            await self._connection.send(acp.said_in_words(session_id, said))
            return acp.prompt_result("completed", None, None)
        prompt.request = handled
        if prompt.cancelled.is_set():
            await found.abort_soon((prompt,), "cancelled in the editor")()
        return None


async def _as_fault(name: str, method: AcpMethod, params: Mapping[str, Any]) -> Frame:
    try:
        return await method(params)
    except acp.AcpFault:
        raise
    except SandboxError as error:  # such as `/`, which a session does not get
        raise acp.AcpFault(INVALID_PARAMS, f"cwd: {error}") from None
    except Exception as error:  # the edge of a call
        answer = answer_to(error)
        if answer.is_ours:
            log_crash(f"{name} failed", error, keep)
        code = error.code if isinstance(error, Authentication) else answer.code
        raise _fault(code, answer.message, answer.status) from error


def _fault(code: str, message: str, status: int) -> acp.AcpFault:
    fields = json_rpc_error(code, message, status)
    number = acp.AUTH_REQUIRED if code == Authentication.code else fields["code"]
    return acp.AcpFault(number, message, fields["data"])


async def _unknown_method(_: Mapping[str, Any]) -> Frame:
    await trio.lowlevel.checkpoint()
    raise acp.AcpFault(METHOD_NOT_FOUND, "this method is unknown")
