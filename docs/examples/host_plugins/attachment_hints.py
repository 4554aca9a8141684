"""Attachment hints: a note before a message with files, which describes each file and names the tool to open it."""

from agentrail.host import AttachmentFile, AttachmentText, HostPlugin

HINTS = {
    "text/csv": "a table: read its first lines before you count on its columns",
    "application/pdf": "a PDF: its text has to be extracted first",
    "application/zip": "an archive: list it before you unpack it",
    "image/": "a picture: its content is not in this text",
    "text/": "text: read it with read_file",
}
"""Hints by type. A key that ends in a slash covers its subtypes. The first match counts."""

LARGE_KB = 256


class AttachmentHints(HostPlugin):
    """Adds the place, the size and a hint for each file. It reads none: that is for the tools of the session."""

    name = "attachment_hints"

    async def attachment_handler(self, files: tuple[AttachmentFile, ...]) -> AttachmentText:
        """Return a message with one line per file."""
        return AttachmentText("\n".join(["Files came with this message:", *map(line_for, files)]))


def line_for(file: AttachmentFile) -> str:
    """Describe a file. The host has cleaned its name. Its type comes from the caller, so it is looked up and not repeated."""
    hint = next(
        (hint for kind, hint in HINTS.items() if fits(file.mime_type, kind)),
        "of a type that needs a look first",
    )
    size = f"{file.size_kb} KB" + (", so read it in parts" if file.size_kb > LARGE_KB else "")
    return f"- {file.container_path} ({size}): {hint}"


def fits(mime_type: str, kind: str) -> bool:
    """Whether a type matches, ignoring parameters such as `charset`."""
    plain = mime_type.partition(";")[0].strip().lower()
    return plain.startswith(kind) if kind.endswith("/") else plain == kind
