"""Find the application for `agentrail serve` by its name, and explain why it cannot be loaded."""

import difflib
import inspect
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from agentrail.errors import AgentrailError, OptionError
from agentrail.named_modules import NAMED_MODULES
from agentrail.otp.crash_text import describe_bug
from agentrail.otp.guarded_calls import call_guarded

if TYPE_CHECKING:
    from agentrail.gateway.request_parser import AsgiApp


class ApplicationFailed(Exception):
    def __init__(self, name: str, error: BaseException) -> None:
        super().__init__(f"the application {name} failed")
        self.error = error


def find_application(name: str) -> "AsgiApp":
    """Find an application by its name, in a module of the current directory or an installed one."""
    module, colon, attribute = name.partition(":")
    if not (module and colon and attribute) or "/" in module or module.startswith("."):
        message = f"expected an application as package.module:NAME, such as desk:app for `app` in desk.py (got {name!r})"
        raise OptionError([message])
    imported = call_guarded(partial(_refuse_module, module), NAMED_MODULES.load, module, str(Path.cwd()))
    if not hasattr(imported, attribute):
        raise OptionError(
            [f"there is no application {attribute!r} in module {module!r}{_near(attribute, imported)}"]
        )
    found: Any = getattr(imported, attribute)
    fault = fault_of_application(found)
    if fault is not None:
        raise OptionError([f"expected an ASGI application, such as create_app makes, and {name} is {fault}"])
    return found  # type: ignore[no-any-return]  # whether it is one shows when it is called


def _refuse_module(module: str, error: BaseException) -> NoReturn:
    """Report that an application's module cannot be imported, and at which line. It is not a bug of agentrail."""
    if isinstance(error, AgentrailError):  # from `create_app`: its message has advice
        raise error
    if (
        isinstance(error, ModuleNotFoundError)
        and error.name is not None
        and f"{module}.".startswith(f"{error.name}.")
    ):
        where = "searched in this directory and among installed packages"
        raise OptionError([f"there is no module {module!r}, {where}: {error}"]) from error
    raise OptionError([f"module {module!r} cannot be imported: {describe_bug(error)}"]) from error


def _near(attribute: str, module: object) -> str:
    near = difflib.get_close_matches(
        attribute, [name for name in vars(module) if not name.startswith("_")], n=1
    )
    return (
        f": did you mean {near[0]!r}" if near else f": assign the result of create_app to {attribute!r} there"
    )


def fault_of_application(found: Any) -> str | None:
    """Return why this cannot be an ASGI application, or None if it may be one."""
    if not callable(found) or isinstance(found, type):
        return type(found).__name__
    try:
        inspect.signature(found).bind(object(), object(), object())
    except TypeError:
        if not inspect.isfunction(found):
            return f"{type(found).__name__}, which does not accept scope, receive and send"
        return "a function with other arguments: if it returns an application, assign the result to a name and pass that name"
    except ValueError:  # callables not written in Python have no signature
        return None
    return None
