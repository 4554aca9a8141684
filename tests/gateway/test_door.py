"""`agentrail.gateway`, the door: what an application imports to be served."""

import inspect
import subprocess
import sys

import pytest

from agentrail import gateway
from agentrail.gateway.app import OWN_OPTIONS

WITHOUT_THE_EXTRA = """
import sys
sys.modules["starlette"] = sys.modules["hypercorn"] = None
from agentrail.gateway import TokenEntry, Tokens, read_token_file
try:
    from agentrail.gateway import create_app
except ImportError as error:
    print(type(error).__name__, error.name)
"""


def test_each_name_resolves_and_is_listed():
    """No other name does; the options of `create_app` are listed too, for misspelt ones and for the reference."""
    assert all(hasattr(gateway, name) for name in gateway.__all__)
    assert set(gateway.__all__) <= set(dir(gateway))
    assert list(gateway.__all__) == sorted(gateway.__all__)
    with pytest.raises(AttributeError, match="has no attribute 'creat_app'"):
        _ = gateway.creat_app
    options = inspect.signature(gateway.create_app).parameters.values()
    assert sorted(OWN_OPTIONS) == sorted(one.name for one in options if one.kind is one.KEYWORD_ONLY)


@pytest.mark.check  # an interpreter of its own
def test_tokens_are_made_and_read_without_the_extra():
    """Only what is served needs Starlette."""
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_THE_EXTRA], capture_output=True, text=True, check=True
    )
    assert done.stdout.split()[0] in {"ModuleNotFoundError", "ImportError"}
