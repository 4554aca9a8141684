"""Writes what the console has of others anew: the files of `agentrail/gateway/console/vendor/`, from the packages that its `vendor.json` names.

    python -m scripts.vendor_console            # from npm, over the registry that is configured there
    python -m scripts.vendor_console --check    # says whether the files that are there are those; changes nothing
    python -m scripts.vendor_console --from DIR # from packages that were fetched before, as `name-1.2.3.tgz`

A package whose digest is another one is refused before anything of it is read. A browser knows no bare imports without an import map, which
needs inline code, and that the console's policy forbids: so `vendor.json` says per file which texts are replaced, each of which has to be found.
Sums of what comes out stand there too, so that `--check` needs no network. No address of a registry is named here.
"""

import argparse
import base64
import hashlib
import json
import re
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

VENDOR: Final = Path(__file__).parent.parent / "agentrail" / "gateway" / "console" / "vendor"
LIST: Final = VENDOR / "vendor.json"

# A map is not vendored, and a browser that looks for it logs a 404.
_SOURCE_MAP: Final = re.compile(rb"\n?//# sourceMappingURL=\S+\s*\Z")


class VendoringRefused(Exception):
    """What came is not what `vendor.json` says; nothing was written."""


def packages() -> list[dict[str, Any]]:
    """Read what is vendored: name, version, integrity, licence, and files with `from`, `to`, `replace`, `sha256`."""
    listed: list[dict[str, Any]] = json.loads(LIST.read_text())["packages"]
    return listed


def tarball_name(package: dict[str, Any]) -> str:
    """Say what npm calls the archive of a package."""
    return f"{package['name'].removeprefix('@').replace('/', '-')}-{package['version']}.tgz"


def fetch(wanted: list[dict[str, Any]], folder: Path) -> None:
    """Fetch archives with npm into a folder, past its cache: what is made of them must not depend on what is there.

    Raises:
        VendoringRefused: npm could not.
    """
    names = [f"{one['name']}@{one['version']}" for one in wanted]
    command = ["npm", "pack", "--silent", "--cache", f"{folder / 'cache'}", *names]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)  # noqa: S603 - names of our own list
    if done.returncode:
        message = f"npm could not fetch {', '.join(names)}: {done.stderr.strip()[-400:]}"
        raise VendoringRefused(message)


def open_archive(package: dict[str, Any], folder: Path) -> dict[str, bytes]:
    """Read an archive: the contents of its files, by their paths.

    Raises:
        VendoringRefused: It is not there, or another one than was asked for.
    """
    path = folder / tarball_name(package)
    if not path.is_file():
        message = f"{path.name} is not there"
        raise VendoringRefused(message)
    found = f"sha512-{base64.b64encode(hashlib.sha512(path.read_bytes()).digest()).decode()}"
    if found != package["integrity"]:
        message = f"{path.name} is {found}: expected {package['integrity']}"
        raise VendoringRefused(message)
    contents: dict[str, bytes] = {}
    with tarfile.open(path) as archive:
        for member in archive:
            held = archive.extractfile(member) if member.isfile() else None
            if held is not None:
                contents[member.name.partition("/")[2]] = held.read()
    return contents


def made(package: dict[str, Any], contents: dict[str, bytes]) -> Iterator[tuple[str, bytes]]:
    """Give each file that is made of a package: where it goes, and what it holds.

    Raises:
        VendoringRefused: A file is not there, or has not what is to be replaced in it.
    """
    for file in package["files"]:
        content = contents.get(file["from"])
        if content is None:
            message = f"{package['name']} has no file {file['from']}"
            raise VendoringRefused(message)
        for old, new in file.get("replace", []):
            if old.encode() not in content:
                message = f"{package['name']}: {file['from']} has no {old!r}, which was to be replaced"
                raise VendoringRefused(message)
            content = content.replace(old.encode(), new.encode())
        yield file["to"], _SOURCE_MAP.sub(b"\n", content)


def faults_of_files() -> list[str]:
    """Say which files are not those that `vendor.json` has the sums of, and which nobody vendored. Needs no network."""
    listed = {file["to"]: file["sha256"] for package in packages() for file in package["files"]}
    there = {
        f"{path.relative_to(VENDOR)}": path for path in VENDOR.rglob("*") if path.is_file() and path != LIST
    }
    faults = [f"{name} is not in vendor.json" for name in sorted(there.keys() - listed.keys())]
    faults += [f"{name} is not there" for name in sorted(listed.keys() - there.keys())]
    faults += [
        f"{name} is another file than vendor.json says"
        for name in sorted(listed.keys() & there.keys())
        if hashlib.sha256(there[name].read_bytes()).hexdigest() != listed[name]
    ]
    return faults


def vendor(folder: Path) -> None:
    """Write all files, and their sums into `vendor.json`; what no package gives is removed.

    Raises:
        VendoringRefused: A package is another one than was asked for; then nothing is written.
    """
    told = json.loads(LIST.read_text())
    results = {
        name: content
        for package in told["packages"]
        for name, content in made(package, open_archive(package, folder))
    }
    for path in [path for path in VENDOR.rglob("*") if path.is_file() and path != LIST]:
        path.unlink()
    for name, content in results.items():
        (VENDOR / name).parent.mkdir(parents=True, exist_ok=True)
        (VENDOR / name).write_bytes(content)
    for package in told["packages"]:
        for file in package["files"]:
            file["sha256"] = hashlib.sha256(results[file["to"]]).hexdigest()
    LIST.write_text(f"{json.dumps(told, indent=2)}\n")


def main(given: list[str]) -> int:
    """Do what the command line says; 0 if all is well."""
    parser = argparse.ArgumentParser(
        prog="python -m scripts.vendor_console", description="vendors for the console"
    )
    parser.add_argument(
        "--check", action="store_true", help="only say whether the files are those of vendor.json"
    )
    parser.add_argument("--from", dest="folder", type=Path, help="a directory with archives, in place of npm")
    options = parser.parse_args(given)
    try:
        if not options.check:
            with tempfile.TemporaryDirectory() as temporary:
                folder = options.folder or Path(temporary)
                if options.folder is None:
                    fetch(packages(), folder)
                vendor(folder)
        faults = faults_of_files()
    except VendoringRefused as refused:
        faults = [f"{refused}"]
    for fault in faults:
        print(fault, file=sys.stderr)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
