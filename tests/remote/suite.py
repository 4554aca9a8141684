"""scratch."""

import os

import pytest


def over_each_road(metafunc):
    if os.environ.get("ROAD") == "remote":
        return [pytest.param("remote", id="remote")]
    return [pytest.param("here", id=pytest.HIDDEN_PARAM)]
