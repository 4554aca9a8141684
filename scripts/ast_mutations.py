"""Small bugs that a program can make from the source alone: the operators of `scripts.ast_mutants`.

A mutation replaces the text of one syntax node and leaves the rest of the file as it is. The operators are those of mutation
testing: conditions, comparisons, Boolean and arithmetic operators, constants, return values, arguments and statements.
Annotations, docstrings, `assert` and `if TYPE_CHECKING` are left alone, because no run can tell. So are the texts of `raise`
and of messages: their wording is held by tests of their own.
"""

import ast
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, TypeAlias

from attrs import frozen

_COMPARISONS: Final[Mapping[type[ast.cmpop], str]] = MappingProxyType(
    {
        ast.Lt: "<=",
        ast.LtE: "<",
        ast.Gt: ">=",
        ast.GtE: ">",
        ast.Eq: "!=",
        ast.NotEq: "==",
        ast.Is: "is not",
        ast.IsNot: "is",
        ast.In: "not in",
        ast.NotIn: "in",
    }
)
_ARITHMETIC: Final[Mapping[type[ast.operator], str]] = MappingProxyType(
    {
        ast.Add: "-",
        ast.Sub: "+",
        ast.Mult: "//",
        ast.FloorDiv: "*",
        ast.Div: "*",
        ast.BitOr: "&",
        ast.BitAnd: "|",
    }
)
_BRACKETS: Final[Mapping[type[ast.expr], tuple[str, str]]] = MappingProxyType(
    {ast.Tuple: ("(", ")"), ast.List: ("[", "]"), ast.Set: ("{", "}")}
)


@frozen(kw_only=True, order=True)
class Mutation:
    """One replacement in a file.

    Attributes:
        line: Number of the first line that changes, from 1.
        start: Offset of the replaced text, in bytes of UTF-8.
        end: Offset of its end.
        new: Replacement.
        operator: Name of the operator.
    """

    line: int
    start: int
    end: int
    new: str
    operator: str

    def apply(self, source: str) -> str:
        """Return the source with this bug."""
        encoded = source.encode()
        return (encoded[: self.start] + self.new.encode() + encoded[self.end :]).decode()


def mutations(source: str) -> tuple[Mutation, ...]:
    """Return every mutation of a module, in the order of its syntax tree.

    Args:
        source: Text of the module.

    Raises:
        SyntaxError: The module does not parse.
    """
    maker = _Maker(source)
    maker.visit(ast.parse(source))
    return tuple(maker.made)


_Node: TypeAlias = ast.expr | ast.stmt


class _Maker(ast.NodeVisitor):
    """Walks a module and collects its mutations."""

    def __init__(self, source: str) -> None:
        self.made: list[Mutation] = []
        self._encoded = source.encode()
        self._starts = [0]
        for line in self._encoded.splitlines(keepends=True):
            self._starts.append(self._starts[-1] + len(line))

    # --- what is left alone

    def visit_Assert(self, node: ast.Assert) -> None:
        """Leave it alone: its failure is a bug in any case."""

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        """Skip the annotation."""
        if node.value is not None:
            self.visit(node.value)

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        """Leave it alone: it is a message."""

    def _visit_function(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        for default in (*node.args.defaults, *node.args.kw_defaults):
            if default is not None:
                self.visit(default)
        self._visit_body(node.body)

    visit_FunctionDef = _visit_function  # noqa: N815 - ast's name
    visit_AsyncFunctionDef = _visit_function  # noqa: N815 - ast's name

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        """Skip decorators and bases."""
        self._visit_body(node.body)

    def visit_Module(self, node: ast.Module) -> None:
        """Skip the docstring."""
        self._visit_body(node.body)

    def _visit_body(self, body: list[ast.stmt]) -> None:
        for statement in body:
            self.visit(statement)

    # --- statements

    def visit_Expr(self, node: ast.Expr) -> None:
        """Remove a call; docstrings are left alone."""
        if not isinstance(node.value, ast.Constant):
            self._replace(node, "pass", "remove statement")
            self.visit(node.value)

    def visit_Assign(self, node: ast.Assign) -> None:
        """Remove what changes an object; a name that is never bound would only be a NameError."""
        if all(isinstance(target, ast.Attribute | ast.Subscript) for target in node.targets):
            self._replace(node, "pass", "remove statement")
        self.visit(node.value)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        """Remove it."""
        self._replace(node, "pass", "remove statement")
        self.visit(node.value)

    def visit_Delete(self, node: ast.Delete) -> None:
        """Remove it."""
        self._replace(node, "pass", "remove statement")

    def visit_Raise(self, node: ast.Raise) -> None:
        """Remove it, with its message."""
        self._replace(node, "pass", "remove raise")

    def visit_Break(self, node: ast.Break) -> None:
        """Continue in its place."""
        self._replace(node, "continue", "break or continue")

    def visit_Continue(self, node: ast.Continue) -> None:
        """Break in its place."""
        self._replace(node, "break", "break or continue")

    def visit_Return(self, node: ast.Return) -> None:
        """Return nothing, or an empty value of the same kind."""
        value = node.value
        if value is not None and not isinstance(value, ast.Constant):
            empty = {ast.Tuple: "()", ast.List: "[]", ast.Dict: "{}"}.get(type(value), "None")
            if self._text(value) != empty:
                self._replace(value, empty, "return nothing")
        self.generic_visit(node)

    def visit_If(self, node: ast.If) -> None:
        """Decide the condition; `if TYPE_CHECKING` is left alone."""
        if self._text(node.test) != "TYPE_CHECKING":
            self._decide(node.test)
            self.generic_visit(node)

    def visit_While(self, node: ast.While) -> None:
        """Never enter the loop."""
        if not isinstance(node.test, ast.Constant):
            self._replace(node.test, "False", "decide condition")
        self.generic_visit(node)

    # --- expressions

    def visit_IfExp(self, node: ast.IfExp) -> None:
        """Take one branch always."""
        for branch in (node.body, node.orelse):
            self._replace(node, f"({self._text(branch)})", "take branch")
        self.generic_visit(node)

    def visit_comprehension(self, node: ast.comprehension) -> None:
        """Take every element, or none."""
        for test in node.ifs:
            self._decide(test)
        self.generic_visit(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        """Leave one operand out."""
        word = " and " if isinstance(node.op, ast.And) else " or "
        texts = [self._text(value) for value in node.values]
        for place in range(len(texts)):
            rest = word.join(texts[:place] + texts[place + 1 :])
            self._replace(node, f"({rest})", "remove operand")
        self.generic_visit(node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> None:
        """Leave `not` and the sign out."""
        self._replace(node, f"({self._text(node.operand)})", "remove not")
        self.generic_visit(node)

    def visit_Compare(self, node: ast.Compare) -> None:
        """Compare by another operator."""
        if len(node.ops) == 1:
            left, right = self._text(node.left), self._text(node.comparators[0])
            self._replace(node, f"({left} {_COMPARISONS[type(node.ops[0])]} {right})", "compare otherwise")
        self.generic_visit(node)

    def visit_BinOp(self, node: ast.BinOp) -> None:
        """Calculate with another operator, or leave it and an operand out."""
        left, right = self._text(node.left), self._text(node.right)
        other = _ARITHMETIC.get(type(node.op))
        is_text = any(
            isinstance(side, ast.JoinedStr)
            or (isinstance(side, ast.Constant) and isinstance(side.value, str | bytes))
            for side in (node.left, node.right)
        )
        if other is not None and not is_text:
            self._replace(node, f"({left} {other} {right})", "calculate otherwise")
            self._replace(node, f"({left})", "remove operand")
        self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        """Turn a flag, count one more, empty a text."""
        match node.value:
            case bool():
                self._replace(node, f"{not node.value}", "change constant")
            case int():
                self._replace(node, f"{node.value + 1}", "change constant")
            case str() if node.value:
                self._replace(node, "''", "change constant")
            case bytes() if node.value:
                self._replace(node, "b''", "change constant")
            case _:
                pass

    def visit_Call(self, node: ast.Call) -> None:
        """Leave a keyword argument out, or take the first argument for the result."""
        if (
            len(node.args) == 1
            and not node.keywords
            and not isinstance(node.args[0], ast.Starred | ast.GeneratorExp)
        ):
            self._replace(node, f"({self._text(node.args[0])})", "remove call")
        for keyword in node.keywords:
            if keyword.arg is not None:
                others = [
                    f"{one.arg}={self._text(one.value)}" if one.arg else f"**{self._text(one.value)}"
                    for one in node.keywords
                    if one is not keyword
                ]
                arguments = ", ".join([*map(self._text, node.args), *others])
                self._replace(node, f"{self._text(node.func)}({arguments})", "remove argument")
        self.generic_visit(node)

    def _visit_collection(self, node: ast.Tuple | ast.List | ast.Set) -> None:
        """Leave one element out; targets of an assignment are left alone."""
        is_target = not isinstance(node, ast.Set) and not isinstance(node.ctx, ast.Load)
        if len(node.elts) > 1 and not is_target:
            left, right = _BRACKETS[type(node)]
            texts = [self._text(one) for one in node.elts]
            for place in range(len(texts)):
                rest = "".join(f"{text}, " for text in texts[:place] + texts[place + 1 :])
                self._replace(node, f"{left}{rest}{right}", "remove element")
        self.generic_visit(node)

    visit_Tuple = _visit_collection  # noqa: N815 - ast's name
    visit_List = _visit_collection  # noqa: N815 - ast's name
    visit_Set = _visit_collection  # noqa: N815 - ast's name

    # --- edits

    def _decide(self, test: ast.expr) -> None:
        if not isinstance(test, ast.Constant):
            for decided in ("True", "False"):
                self._replace(test, decided, "decide condition")

    def _replace(self, node: _Node, new: str, operator: str) -> None:
        start, end = self._span(node)
        self.made.append(Mutation(line=node.lineno, start=start, end=end, new=new, operator=operator))

    def _span(self, node: _Node) -> tuple[int, int]:
        start = self._starts[node.lineno - 1] + node.col_offset
        return start, self._starts[(node.end_lineno or node.lineno) - 1] + (node.end_col_offset or 0)

    def _text(self, node: _Node) -> str:
        start, end = self._span(node)
        return self._encoded[start:end].decode()
