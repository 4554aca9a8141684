"""`grep`: both engines over one corpus, patterns that never end, and what only one of them knows."""

import codecs
import shutil
import tempfile

import pytest
import trio

from agentrail import outside
from agentrail.abc import GrepOptions
from agentrail.sandboxes.grep import SEARCH_SECONDS
from agentrail.sandboxes.local import LocalSandbox
from agentrail.sandboxes.memory import MemorySandbox
from tests.sandboxes.rig import take_ripgrep_away

CORPUS = {
    "README.md": "# Needle\n\nno\nneedle here\r\nand a needle there needle\n",
    "empty": "",
    "blank": "\n\n",
    "no_end": "last needle",
    ".hidden/needle.txt": "needle\n",
    "src/a.py": "def needle():\n    return 'é needle'\n",
    "src/deep/er/b.py": "x = 1\n" * 50 + "needle\n" + "y\n" * 50,
    "src/deep/.gitignore": "*.gen\n!kept.gen\n/only_here\n",
    "src/deep/x.gen": "needle\n",
    "src/deep/kept.gen": "needle\n",
    "src/deep/only_here": "needle\n",
    "src/deep/er/only_here": "needle\n",
    "build/out.txt": "needle\n",
    "a/node_modules/x.js": "needle\n",
    "ignored/x": "needle\n",
    "logs/a.log": "needle\n",
    "logs/keep.log": "needle\n",
    ".gitignore": "ignored/\n*.log\n!keep.log\nsrc/deep/er/no*\n",
    "src/deep/er/nothing": "needle\n",
    "a b/c[d].txt": "needle\n",
    "wide": "x" * 5_000 + "needle\n",
    **{f"many/{n:03}": "needle\nneedle\n" for n in range(150)},
}
BYTES = {
    "binary": b"needle\n\0needle\n",
    "late_binary": b"needle\n" * 2_000 + b"\0",
    "latin": "needle é\n".encode("latin-1"),
    "utf16": codecs.BOM_UTF16_LE + "needle é\n".encode("utf-16-le"),
    "bom": codecs.BOM_UTF8 + b"needle\n",
    "huge": b"needle\n" * 1_500_000,
}
QUESTIONS = [
    ("needle", ".", GrepOptions(max_results=500)),
    ("needle", ".", GrepOptions(max_results=500, include="*.{py,md}")),
    ("needle", ".", GrepOptions(max_results=500, include="src/**/*")),
    ("needle", ".", GrepOptions(max_results=7, context_lines=0)),
    ("NEEDLE", ".", GrepOptions(max_results=500, ignore_case=True)),
    ("needle$", ".", GrepOptions(max_results=500)),
    ("^$", ".", GrepOptions()),
    ("^needle|é", "src", GrepOptions(context_lines=1)),
    ("needle", "src/deep", GrepOptions(include="*")),
    ("needle", "src/deep/er", GrepOptions()),
    ("needle", "ignored", GrepOptions()),
    ("needle", "build", GrepOptions()),
    ("needle", "a b/c[d].txt", GrepOptions()),
    ("needle", "logs", GrepOptions(include="*.log")),
    (r"\bneedle\b.*\d?", "src", GrepOptions()),
    ("nowhere", ".", GrepOptions()),
]


def _need_ripgrep():
    if shutil.which("rg") is None:
        pytest.skip("ripgrep is not installed")


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    """All kinds of files on a real file system."""
    root = tmp_path_factory.mktemp("corpus")
    for path, content in {**{name: text.encode() for name, text in CORPUS.items()}, **BYTES}.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(content)
    (root / "link").symlink_to("README.md")
    (root / "away").symlink_to("/etc/passwd")
    (root / "loop").symlink_to(".")
    return root


@pytest.mark.parametrize(("pattern", "path", "options"), QUESTIONS)
async def test_both_engines_give_the_same_answer(corpus, monkeypatch, pattern, path, options):
    """Which lines of which files, how many files, and whether there is more; in memory too."""
    _need_ripgrep()
    by_ripgrep = await LocalSandbox(corpus).grep(pattern, path, options)
    take_ripgrep_away(monkeypatch)
    by_python = await LocalSandbox(corpus).grep(pattern, path, options)
    assert by_ripgrep == by_python
    assert by_python.error is None
    assert bool(by_python.lines) == (pattern != "nowhere")
    in_memory = MemorySandbox({**CORPUS, **BYTES})
    assert await in_memory.grep(pattern, path, options) == by_python


async def test_a_search_needs_no_temporary_file(corpus, monkeypatch, tmp_path):
    """The directory of temporary files may be full, or removed by a cleaner while we run."""
    _need_ripgrep()
    sandbox, options = LocalSandbox(corpus), GrepOptions(include="*")
    before = await sandbox.grep("needle", "src/deep", options)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "removed"))
    assert await sandbox.grep("needle", "src/deep", options) == before


@pytest.mark.parametrize(
    ("pattern", "has_ripgrep", "words"),
    [
        (r"\p{Greek}", False, 'Invalid pattern "\\p{Greek}" for Python\'s re: bad escape'),
        (f"a{{{'9' * 5_000}}}", False, 'Invalid pattern "a{99999'),  # Python reads no such number
        ("(?=x)", True, 'Invalid pattern "(?=x)" for ripgrep: regex parse error'),
    ],
)
async def test_a_pattern_that_only_one_engine_knows_says_so(corpus, monkeypatch, pattern, has_ripgrep, words):
    """The model learns which engine refused; Rust's looks neither ahead nor back, which is why it never hangs."""
    if has_ripgrep:
        _need_ripgrep()
    else:
        take_ripgrep_away(monkeypatch)
    error = (await LocalSandbox(corpus).grep(pattern, ".", GrepOptions())).error
    assert error is not None
    assert error.code == "invalid_pattern"
    assert error.message.startswith(words)


async def test_a_warning_about_a_pattern_is_not_printed(capfd):
    """Python's `re` warns that it may read a pattern in another way some day, and a chat has the terminal."""
    found = await MemorySandbox({"a": "needle\n"}).grep("[[n]eedle", ".", GrepOptions())
    assert len(found.lines) == 1
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize("has_ripgrep", [True, False])
async def test_file_names_with_line_feeds_are_searched(tmp_path, monkeypatch, has_ripgrep):
    """The file is neither left out, nor are its matches counted for the file whose name is its last line."""
    if has_ripgrep:
        _need_ripgrep()
    else:
        take_ripgrep_away(monkeypatch)
    (tmp_path / "a\nb").write_text("no\nneedle\n")
    (tmp_path / "b").write_text("needle\n")
    found = await LocalSandbox(tmp_path).grep("needle", ".", GrepOptions(context_lines=0))
    assert [(line.path, line.number) for line in found.lines] == [("a\nb", 2), ("b", 1)]


@pytest.mark.parametrize("has_ripgrep", [True, False])
async def test_the_time_limit_of_a_search_includes_the_listing(
    tmp_path, monkeypatch, autojump_clock, has_ripgrep
):
    """A listing of a large tree, or over a network, may take longer than the search itself."""
    if has_ripgrep:
        _need_ripgrep()
    else:
        take_ripgrep_away(monkeypatch)

    class SlowDisk(outside.RealMachine):
        async def offload(self, function, /, *args, **options):
            await trio.sleep(2 * SEARCH_SECONDS)
            return await super().offload(function, *args, **options)

    (tmp_path / "a").write_text("needle\n")
    began = trio.current_time()
    with outside.installed(SlowDisk()):
        error = (await LocalSandbox(tmp_path).grep("needle", ".", GrepOptions())).error
    assert error is not None
    assert (error.code, trio.current_time() - began) == ("timeout", pytest.approx(SEARCH_SECONDS))


async def test_a_file_that_moved_shows_nothing_of_what_is_outside(tmp_path, monkeypatch):
    """Ripgrep opens by name and may be led elsewhere; what is shown is read by us, which is not."""
    root = tmp_path / "ws"
    root.mkdir()
    (tmp_path / "secret").write_text("hidden needle words\n")
    (root / "a").symlink_to("../secret")
    liar = tmp_path / "bin" / "rg"
    liar.parent.mkdir()
    liar.write_text("#!/bin/sh\nprintf './a\\0001\\n\\n1 files searched\\n'\n")
    liar.chmod(0o755)
    monkeypatch.setenv("PATH", str(liar.parent))
    found = await LocalSandbox(root).grep("needle", ".", GrepOptions())
    assert (found.error, found.lines, found.searched_files) == (None, (), 1)
