"""Python code in which what it does is charged: calls, loops, comparisons, displays and operators, wrapped.

Only what stands in functions; what a module does once when it is imported is not charged.
"""

import ast
import types
from typing import Any

PREFIX = "_growth_"
"""Of the names of the functions of `tests.lab.growth.operations` that charge, among the builtins."""


def compiled(source: str | bytes, path: str) -> types.CodeType:
    """A module the functions of which are counted."""
    tree = ast.fix_missing_locations(_Bodies().visit(ast.parse(source, path)))
    code: types.CodeType = compile(tree, path, "exec", dont_inherit=True)
    return code


class _Bodies(ast.NodeTransformer):
    """Wraps what stands in functions; what a module does once when it is imported is not counted."""

    def visit_ImportFrom(self, node: ast.ImportFrom) -> Any:
        if node.module == "functools" and any(alias.name == "lru_cache" for alias in node.names):
            return [node, ast.Assign([ast.Name("lru_cache", ast.Store())], ast.Name(f"{PREFIX}forgetful", ast.Load()))]
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        wrap = _Wrap()
        node.body = [one for statement in node.body for one in _as_list(wrap.visit(statement))]
        return node


def _as_list(found: Any) -> list[ast.stmt]:
    return found if isinstance(found, list) else [found]


def _to(name: str, *args: ast.expr) -> ast.Call:
    return ast.Call(ast.Name(PREFIX + name, ast.Load()), list(args), [])


class _Wrap(ast.NodeTransformer):
    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        return _Bodies().visit_FunctionDef(node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        node.value = self.visit(node.value) if node.value else None
        return node

    def visit_Call(self, node: ast.Call) -> ast.AST:
        if isinstance(node.func, ast.Name) and node.func.id == "super":
            return node
        self.generic_visit(node)
        return ast.Call(ast.Name(PREFIX + "call", ast.Load()), [node.func, *node.args], node.keywords)

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        self.generic_visit(node)
        if len(node.ops) > 1:
            return node
        operator, (right,) = node.ops[0], node.comparators
        if isinstance(operator, (ast.In, ast.NotIn)):
            found: ast.expr = _to("contains", node.left, right)
        elif isinstance(operator, (ast.Eq, ast.NotEq)):
            found = _to("equal", node.left, right)
        else:
            return node
        return ast.UnaryOp(ast.Not(), found) if isinstance(operator, (ast.NotIn, ast.NotEq)) else found

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        self.generic_visit(node)
        return _to("sized", node)

    def visit_JoinedStr(self, node: ast.JoinedStr) -> ast.AST:
        for part in node.values:
            if isinstance(part, ast.FormattedValue):
                part.value = self.visit(part.value)
        return _to("sized", node)

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        self.generic_visit(node)
        if not isinstance(node.slice, ast.Slice):
            node.slice = _to("key", node.slice)
            return node
        return _to("sized", node) if isinstance(node.ctx, ast.Load) else node

    def _display(self, node: Any) -> ast.AST:
        self.generic_visit(node)
        starred = any(isinstance(one, ast.Starred) for one in getattr(node, "elts", ()))
        is_read = isinstance(getattr(node, "ctx", ast.Load()), ast.Load)
        return _to("sized", node) if is_read and (starred or None in getattr(node, "keys", ())) else node

    visit_Tuple = visit_List = visit_Set = visit_Dict = _display  # noqa: N815  # names of ast

    def visit_comprehension(self, node: ast.comprehension) -> ast.AST:
        self.generic_visit(node)
        node.ifs.insert(0, _to("tick"))
        return node

    def visit_DictComp(self, node: ast.DictComp) -> ast.AST:
        self.generic_visit(node)
        node.key = _to("key", node.key)
        return node

    def visit_SetComp(self, node: ast.SetComp) -> ast.AST:
        self.generic_visit(node)
        node.elt = _to("key", node.elt)
        return node

    def _loop(self, node: Any) -> ast.AST:
        self.generic_visit(node)
        node.body.insert(0, ast.Expr(_to("tick")))
        return node

    visit_For = visit_While = _loop  # noqa: N815  # names of ast

    def visit_YieldFrom(self, node: ast.YieldFrom) -> ast.AST:
        self.generic_visit(node)
        node.value = _to("consumed", node.value)
        return node

    def visit_AugAssign(self, node: ast.AugAssign) -> Any:
        self.generic_visit(node)
        node.value = _to("sized", node.value)
        if not isinstance(node.target, ast.Name):
            return node
        return [node, ast.Expr(_to("grown", ast.Name(node.target.id, ast.Load())))]

    def visit_match_case(self, node: ast.match_case) -> ast.AST:
        node.guard = self.visit(node.guard) if node.guard else None
        node.body = [one for statement in node.body for one in _as_list(self.visit(statement))]
        return node
