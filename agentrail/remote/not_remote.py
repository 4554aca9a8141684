"""The calls of a session that no server can be asked for: they take code, look into a journal, or have no command. They say so."""

from typing import NoReturn

from agentrail.errors import NotRemote


def refuse_code(call: str) -> NoReturn:
    """Refuse a call that takes code."""
    message = f"{call} takes code, which does not travel: put it into the profile on the server"
    raise NotRemote(message)


def refuse_unspoken(call: str) -> NoReturn:
    """Refuse a call that the protocol has no command for."""
    message = f"{call} cannot be asked of a server: it has no command for it; call it where the session lives"
    raise NotRemote(message)


def refuse_arguments(call: str, **given: object) -> None:
    """Refuse arguments that the command of a call has no field for."""
    named = [name for name, value in given.items() if value is not None and value is not False]
    if named:
        message = f"{call} over a network takes no {', '.join(named)}: leave it out"
        raise NotRemote(message)


class NotRemoteCalls:
    """The calls that raise `NotRemote`, so that each is found where the handle of a session has it."""

    __slots__ = ()

    @property
    def agents(self) -> NoReturn:
        """There is no command for it: the tools of the model start and close agents there, and `status` shows them."""
        refuse_unspoken("agents")

    async def attach_tools(self, *_: object) -> NoReturn:
        """Tools are code."""
        refuse_code("attach_tools")

    async def detach_tools(self, *_: object) -> NoReturn:
        """Tools are code."""
        refuse_code("detach_tools")

    async def replace_tools(self, *_: object) -> NoReturn:
        """Tools are code."""
        refuse_code("replace_tools")

    async def report_tool_source(self, *_: object, **__: object) -> NoReturn:
        """Sources of tools are code."""
        refuse_code("report_tool_source")

    async def attach_plugin(self, *_: object) -> NoReturn:
        """Plugins are code."""
        refuse_code("attach_plugin")

    async def detach_plugin(self, *_: object) -> NoReturn:
        """Plugins are code."""
        refuse_code("detach_plugin")

    async def reload_plugin(self, *_: object) -> NoReturn:
        """Plugins are code."""
        refuse_code("reload_plugin")

    async def update_plugin_opts(self, *_: object, **__: object) -> NoReturn:
        """There is no command for it: plugins guard what callers do."""
        refuse_unspoken("update_plugin_opts")

    def reads_answers(self) -> NoReturn:
        """What it gives is code."""
        refuse_code("reads_answers")

    @property
    def facts(self) -> NoReturn:
        """Whose a session is does not leave its server."""
        refuse_unspoken("facts")
