"""Attachment hints: before a message with files stands what they are, and with which tool they are best looked at."""

from agentrail.host import AttachmentFile, AttachmentText, HostPlugin

HINTS = {
    "text/csv": "a table: read its first lines before you count on its columns",
    "application/pdf": "a PDF: its text has to be extracted first",
    "application/zip": "an archive: list it before you unpack it",
    "image/": "a picture: its content is not in this text",
    "text/": "text: read it with read_file",
}
"""By type; one that ends in a slash stands for all below it. The first that fits counts."""

LARGE_KB = 256


class AttachmentHints(HostPlugin):
    """Says of each file where it is, how large, and what to do with it. It reads none: that is for the tools of the session."""

    name = "attachment_hints"

    async def attachment_handler(self, files: tuple[AttachmentFile, ...]) -> AttachmentText:
        """Make one line for each file."""
        return AttachmentText("\n".join(["Files came with this message:", *map(line_for, files)]))


def line_for(file: AttachmentFile) -> str:
    """Say what a file is. Its name was cleaned by the host; its type is the caller's word, so it is looked up and not repeated."""
    hint = next(
        (hint for kind, hint in HINTS.items() if fits(file.mime_type, kind)),
        "of a type that needs a look first",
    )
    size = f"{file.size_kb} KB" + (", so read it in parts" if file.size_kb > LARGE_KB else "")
    return f"- {file.container_path} ({size}): {hint}"


def fits(mime_type: str, kind: str) -> bool:
    """Say whether a type is this one, or below it; parameters such as `charset` do not matter."""
    plain = mime_type.partition(";")[0].strip().lower()
    return plain.startswith(kind) if kind.endswith("/") else plain == kind
