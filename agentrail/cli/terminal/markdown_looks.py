"""How Markdown looks where rich would have it otherwise: headings at the left, code without a background. Imported with the first answer."""

from typing import ClassVar

from rich.console import Console, ConsoleOptions, RenderResult
from rich.markdown import CodeBlock, Heading, Markdown, MarkdownElement
from rich.syntax import Syntax


class _Heading(Heading):
    """A heading where text begins: in the middle of a wide terminal no one sees it."""

    LEVEL_ALIGN = dict.fromkeys(("h1", "h2", "h3", "h4", "h5", "h6"), "left")


class _Code(CodeBlock):
    """Code without a background and without padding: it is copied out of terminals."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        del console, options
        code = str(self.text).rstrip()
        yield Syntax(code, self.lexer_name, theme=self.theme, word_wrap=True, background_color="default")


class ChatMarkdown(Markdown):
    """Markdown of a model, as a chat shows it."""

    elements: ClassVar[dict[str, type[MarkdownElement]]] = {
        **Markdown.elements,
        "heading_open": _Heading,
        "fence": _Code,
        "code_block": _Code,
    }
