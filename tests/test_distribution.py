"""The distribution has one name, and a hint installs it from where it came from, never a stranger's from the package index."""

import json
import sys
from pathlib import Path

import pytest

from agentrail import distribution
from agentrail.cli.doctor_command import look_at_distributions
from agentrail.distribution import NAME, find_foreign, install_command

# --- the command


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """A function that installs this distribution in a directory, with what pip recorded of its origin."""

    def install(
        recorded: dict[str, object] | None, *, name: str = NAME, version: str = "9.9", own: bool = True
    ) -> Path:
        site: Path = tmp_path / f"site of {version}"
        info = site / f"{name}-{version}.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text(
            f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\nSummary: Trains on rails\n"
        )
        (info / "RECORD").write_text("agentrail/distribution.py,,\n" if own else "agentrail/__init__.py,,\n")
        if recorded is not None:
            (info / "direct_url.json").write_text(json.dumps(recorded))
        if own:
            (site / "agentrail").mkdir()
            # From 3.12 on a distribution names no file that is missing.
            (site / "agentrail/distribution.py").touch()
            monkeypatch.setattr(distribution, "_FOLDER", site / "agentrail")
        monkeypatch.setattr(sys, "path", [str(site), *sys.path])
        return site

    return install


def test_a_checkout_is_installed_from_where_it_is(monkeypatch, tmp_path):
    """With the extras that are missing; editable, but for a build that compiles."""
    (tmp_path / "pyproject.toml").touch()
    monkeypatch.setattr(distribution, "_FOLDER", tmp_path / "agentrail")
    assert install_command("gateway", "web") == f'pip install -e "{tmp_path}[gateway,web]"'
    assert install_command() == f"pip install -e {tmp_path}"
    assert install_command(flags="--no-deps", editable=False) == f"pip install --no-deps {tmp_path}"


def test_a_wheel_is_installed_from_its_path(installed, tmp_path):
    """Quoted for a shell, with whatever its path has."""
    wheel = tmp_path / "a $dir" / "agentrail-9.9-py3-none-any.whl"
    wheel.parent.mkdir()
    wheel.touch()
    installed({"url": wheel.as_uri(), "archive_info": {}})
    assert install_command("gateway") == f"pip install '{wheel}[gateway]'"


@pytest.mark.parametrize(
    ("recorded", "command"),
    [
        ({"url": "https://a.example/r.git", "vcs_info": {"vcs": "git", "commit_id": "abc"}}, 'pip install "agentrail[web] @ git+https://a.example/r.git@abc"'),
        ({"url": "https://a.example/agentrail-9.9-py3-none-any.whl", "archive_info": {}}, 'pip install "agentrail[web] @ https://a.example/agentrail-9.9-py3-none-any.whl"'),
        ({"url": "file:///no/such/agentrail-9.9-py3-none-any.whl", "archive_info": {}}, 'pip install -e ".[web]" in a checkout of agentrail'),
        (None, 'pip install -e ".[web]" in a checkout of agentrail'),
        ({"url": 7}, 'pip install -e ".[web]" in a checkout of agentrail'),
    ],
)  # fmt: skip
def test_other_origins(installed, recorded, command):
    """A repository and a URL are named; without any of them only a checkout is left."""
    installed(recorded)
    assert install_command("web") == command


def test_a_record_that_is_no_json_is_no_origin(installed, monkeypatch):
    """It is pip's, and may be cut off. A published name is installed by it, and no origin is looked at."""
    (installed({}) / f"{NAME}-9.9.dist-info" / "direct_url.json").write_text("{")
    assert install_command("web") == 'pip install -e ".[web]" in a checkout of agentrail'
    monkeypatch.setattr(distribution, "PUBLISHED", True)
    assert install_command("web") == f'pip install "{NAME}[web]"'


# --- a stranger


def test_a_foreign_distribution_is_named(installed):
    """`doctor` says its version, where it is, and what to do. Our own is no stranger, from a wheel or edited."""
    here = find_foreign()
    site = installed(None, version="0.1.0", own=False)
    assert [(one.version, one.folder) for one in find_foreign() if one not in here] == [("0.1.0", f"{site}")]
    finding = next(one for one in look_at_distributions() if "0.1.0" in one.text and str(site) in one.text)
    assert finding.verdict == "bad"
    assert "another project named agentrail is installed: 0.1.0 in" in finding.text
    assert "Trains on rails" in finding.text
    assert f"pip uninstall agentrail, then {install_command()}" in finding.remedy
    installed(None, version="7.7")
    assert "7.7" not in {one.version for one in find_foreign()}
