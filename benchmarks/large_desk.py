"""The application of `make soak-large`: one agent with a tool and a model that answers at once, one user, and a store in the folder of the soak."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from agentrail.gateway.app import create_app
from agentrail.host import AgentProfile, Principal
from agentrail.runtime.session_options import SessionOptions
from benchmarks.gateway.server import LIMITS
from benchmarks.ours import StubModel, add

USER: Final = Principal(tenant_id="soak", user_id="everyone")
STORE: Final = "soak.db"


def authenticate(_headers: Mapping[str, str]) -> Principal:
    """Return the one user."""
    return USER


app = create_app(
    profiles=[AgentProfile(id="desk", name="Desk", options=SessionOptions(model=StubModel(), tools=[add]))],
    auth=authenticate,
    limits=LIMITS,
    store=f"sqlite:{Path(os.environ.get('SOAK_FOLDER', '.')) / STORE}",
    environ={},
)
