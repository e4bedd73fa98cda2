"""Makes mutants of a SQL file: copies with one small change each, which the tests of judging should notice.

The operators are those of mutation testing for SQL (Tuya, Suárez-Cabal, de la Riva: "Mutating database queries", 2007),
for the parts of a query that decide which rows are found: conditions, joins, groups, windows and aggregates. Texts for
people are not changed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import sqlglot
from sqlglot import exp

_DIALECT = "duckdb"

_COMPARISONS: dict[type[exp.Binary], type[exp.Binary]] = {
    exp.EQ: exp.NEQ,
    exp.NEQ: exp.EQ,
    exp.LT: exp.LTE,
    exp.LTE: exp.LT,
    exp.GT: exp.GTE,
    exp.GTE: exp.GT,
    exp.NullSafeEQ: exp.NullSafeNEQ,
    exp.NullSafeNEQ: exp.NullSafeEQ,
}
_AGGREGATES: dict[type[exp.Expression], type[exp.Expression]] = {
    exp.Min: exp.Max,
    exp.Max: exp.Min,
    exp.LogicalAnd: exp.LogicalOr,
    exp.LogicalOr: exp.LogicalAnd,
    exp.Least: exp.Greatest,
    exp.Greatest: exp.Least,
}
_SIDES = {"LEFT": "", "FULL": "LEFT", "RIGHT": ""}
_KINDS = {"SEMI": "ANTI", "ANTI": "SEMI"}


@dataclass(frozen=True, kw_only=True)
class Mutant:
    """A changed copy of a SQL file. `before` and `after` are the changed part in the original and in the copy."""

    operator: str
    before: str
    after: str
    sql: str

    def __str__(self) -> str:
        return f"{self.operator}: {self.before} → {self.after or '(nothing)'}"


# A change of a node in place, with the name of its operator.
_Change = tuple[str, Callable[[exp.Expression], None]]


def make_mutants(sql: str) -> Iterator[Mutant]:
    """Yield each mutant of a file's SQL once, in the order of the file. Raises ParseError if it is no DuckDB SQL."""
    statements = [statement for statement in sqlglot.parse(sql, dialect=_DIALECT) if statement is not None]
    original = _write(statements)
    seen = {original}
    for place, statement in enumerate(statements):
        for number, node in enumerate(statement.walk()):
            for operator, change in _list_changes(node):
                copy = statement.copy()
                change(next(each for at, each in enumerate(copy.walk()) if at == number))
                mutated = _write([*statements[:place], copy, *statements[place + 1 :]])
                if mutated not in seen:
                    seen.add(mutated)
                    before, after = find_difference(original, mutated)
                    yield Mutant(operator=operator, before=before, after=after, sql=mutated)


def rewrite(sql: str) -> str:
    """Return the SQL as a mutant without a change would have it: parsed and written again."""
    return _write([statement for statement in sqlglot.parse(sql, dialect=_DIALECT) if statement is not None])


def _write(statements: list[exp.Expression]) -> str:
    return ";\n".join(statement.sql(_DIALECT) for statement in statements)


def find_difference(before: str, after: str) -> tuple[str, str]:
    """Return the words in which two texts differ, each with the word before and after them."""
    one, other = before.split(), after.split()
    least = min(len(one), len(other))
    start = next((at for at in range(least) if one[at] != other[at]), least)
    end = next((at for at in range(least - start) if one[-1 - at] != other[-1 - at]), least - start)
    return tuple(" ".join(words[max(0, start - 1) : len(words) - end + 1]) for words in (one, other))


def _list_changes(node: exp.Expression) -> Iterator[_Change]:
    """Yield the changes that apply to a node."""
    if (other := _COMPARISONS.get(type(node))) is not None:
        yield "comparison", lambda target: _become(target, other)
    if (aggregate := _AGGREGATES.get(type(node))) is not None:
        yield "aggregate", lambda target: _become(target, aggregate)
    if isinstance(node, exp.Connector):
        yield "connector", lambda target: _become(target, exp.Or if isinstance(target, exp.And) else exp.And)
        yield "condition dropped", lambda target: _replace(target, target.expression)
        yield "condition dropped", lambda target: _replace(target, target.this)
    match node:
        case exp.Not():
            yield "negation", lambda target: _replace(target, target.this)
        case exp.Is() | exp.Exists():
            yield "negation", lambda target: _replace(target, exp.Not(this=target.copy()))
        case exp.In():
            yield "negation", lambda target: _replace(target, exp.Not(this=target.copy()))
        case exp.Boolean():
            yield "constant", lambda target: _replace(target, exp.Boolean(this=not target.this))
        case exp.Literal(is_string=False):
            yield "constant", lambda target: _replace(target, exp.Literal.number(int(target.this) + 1))
        case exp.Coalesce() if not _is_text(node):
            yield "default dropped", lambda target: _replace(target, target.this)
        case exp.Case():
            for number in range(len(node.args["ifs"])) if len(node.args["ifs"]) > 1 else ():
                yield "branch dropped", _drop_from("ifs", number)
        case exp.Where() | exp.Having():
            yield "condition dropped", lambda target: target.pop()
        case exp.Filter():
            yield "filter dropped", lambda target: _replace(target, target.this)
        case exp.Distinct(parent=exp.Select()):
            yield "distinct dropped", lambda target: target.pop()
        case exp.Distinct(expressions=[_]):
            yield "distinct dropped", lambda target: _replace(target, target.expressions[0])
        case exp.Join():
            yield from _list_join_changes(node)
        case exp.Union():
            yield "union", lambda target: _replace(target, target.this)
            yield "union", lambda target: _replace(target, target.expression)
        case exp.Window():
            for number in range(len(node.args.get("partition_by") or ())):
                yield "window", _drop_from("partition_by", number)
        case exp.Ordered():
            yield "order", lambda target: target.set("desc", not target.args.get("desc"))
        case exp.WindowSpec():
            yield from _list_frame_changes(node)


def _list_join_changes(node: exp.Join) -> Iterator[_Change]:
    if (side := node.side) in _SIDES:
        yield "join", lambda target: target.set("side", _SIDES[side] or None)
    elif (kind := node.kind) in _KINDS:
        yield "join", lambda target: target.set("kind", _KINDS[kind])
    elif node.args.get("on") or node.args.get("using"):
        yield "join", lambda target: target.set("side", "LEFT")
    for number in range(len(node.args.get("using") or ())) if len(node.args.get("using") or ()) > 1 else ():
        yield "join column dropped", _drop_from("using", number)
    on = node.args.get("on")
    if isinstance(on, exp.EQ) and isinstance(on.this, exp.Tuple) and isinstance(on.expression, exp.Tuple):
        for number in range(len(on.this.expressions)):
            yield "join column dropped", _drop_pair(number)


def _list_frame_changes(node: exp.WindowSpec) -> Iterator[_Change]:
    if node.args.get("kind") in ("ROWS", "RANGE"):
        other = "RANGE" if node.args["kind"] == "ROWS" else "ROWS"
        yield "frame", lambda target: target.set("kind", other)
    end = node.args.get("end")
    if end == "CURRENT ROW":
        yield "frame", lambda target: (target.set("end", exp.Literal.number(1)), target.set("end_side", "PRECEDING"))
    elif end is not None and end != "UNBOUNDED":
        yield "frame", lambda target: (target.set("end", "CURRENT ROW"), target.set("end_side", None))
    if node.args.get("start") == "UNBOUNDED":
        yield "frame", lambda target: target.set("start", exp.Literal.number(1))


def _become(target: exp.Expression, kind: type[exp.Expression]) -> None:
    _replace(target, kind(**target.copy().args))


def _replace(target: exp.Expression, by: exp.Expression) -> None:
    target.replace(by.copy() if by.parent is not None else by)


def _drop_from(name: str, number: int) -> Callable[[exp.Expression], None]:
    return lambda target: target.set(name, [each for at, each in enumerate(target.args[name]) if at != number] or None)


def _drop_pair(number: int) -> Callable[[exp.Expression], None]:
    def drop(target: exp.Expression) -> None:
        for tuple_ in (target.args["on"].this, target.args["on"].expression):
            tuple_.set("expressions", [each for at, each in enumerate(tuple_.expressions) if at != number])

    return drop


def _is_text(node: exp.Coalesce) -> bool:
    return any(isinstance(each, exp.Literal) and each.is_string for each in node.expressions)
