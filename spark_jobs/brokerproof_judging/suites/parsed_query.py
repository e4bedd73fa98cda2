"""Checks the SQL of a user's suite in the form in which Spark itself parses it, before Spark runs the same text.

`brokerproof.suites.query_rules` has the rules and checks them with another parser, before anything starts. Two parsers
can read one text differently, and Spark's reading is the one that runs. So this check walks Spark's unresolved plan. It
accepts only the kinds of nodes that are listed here, the table of the expectation, and the functions of the rules.

The walk visits the fields of every node. `toJSON` of a plan is shorter to read, but leaves out the definitions of named
windows and the options of a table.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from brokerproof.errors import InputError
from brokerproof.suites.query_rules import FUNCTIONS, GENERATORS, HIDDEN_FUNCTIONS, ONE_TABLE, PAGE, VIEW, list_words
from py4j.java_gateway import JavaObject
from pyspark.sql import SparkSession

_PACKAGE = "org.apache.spark.sql.catalyst."
# The names, without packages, of Spark's classes that a query may consist of.
_NODES = list_words(
    """
    Aggregate Distinct Except Filter Generate GlobalLimit Intersect Join LateralJoin LocalLimit LocalRelation Offset
    OneRowRelation Pivot Project Sort SubqueryAlias Union Unpivot UnresolvedHaving UnresolvedInlineTable
    UnresolvedQualify UnresolvedRelation UnresolvedSubqueryColumnAliases UnresolvedTVFAliases
    UnresolvedTableValuedFunction UnresolvedWith WithWindowDefinition Add AggregateExpression Alias And AnyValue
    BitwiseAnd BitwiseNot BitwiseOr BitwiseXor CaseWhen Cast Coalesce Collate Concat CreateNamedStruct Cube
    CurrentRow$ Divide EqualNullSafe EqualTo Exists First GreaterThan GreaterThanOrEqual GroupingSets ILike In
    InSubquery IntegralDivide IsNotNull IsNull LambdaFunction Last LateralSubquery LessThan LessThanOrEqual Like
    LikeAll LikeAny ListQuery Literal Multiply MultiAlias Not NotLikeAll NotLikeAny Or Overlay RLike Remainder
    Rollup ScalarSubquery ShiftLeft ShiftRight ShiftRightUnsigned SortOrder SpecifiedWindowFrame StringLocate
    StringTrim StringTrimBoth StringTrimLeft StringTrimRight Substring Subtract TimestampAdd TimestampDiff
    UnaryMinus UnaryPositive UnboundedFollowing$ UnboundedPreceding$ UnresolvedAlias UnresolvedAttribute
    UnresolvedCollation UnresolvedExtractValue UnresolvedFunction UnresolvedGenerator UnresolvedNamedLambdaVariable
    UnresolvedOrdinal UnresolvedStar UnresolvedStarExcept UnresolvedStarExceptOrReplace
    UnresolvedSubqueryColumnAliases UnresolvedWindowExpression UnspecifiedFrame$ WindowExpression
    WindowSpecDefinition WindowSpecReference
    """
)
# Spark's classes of values that are no nodes, and have no nodes in them.
_VALUES = list_words(
    """
    AliasIdentifier Ascending$ AttributeReference Complete$ Cross$ Descending$ ExprId FullOuter$ Inner$ LeftAnti$
    LeftOuter$ LeftSemi$ NullsFirst$ NullsLast$ NumericEvalContext RangeFrame$ RightOuter$ RowFrame$
    """
)
# Spark's classes of values with other values in them.
_RECORDS = frozenset({"FunctionIdentifier", "JoinHint", "NaturalJoin", "UsingJoin"})
_SCALA_VALUES = ("scala.None$", "scala.Enumeration$Val")
_VALUE_PACKAGES = ("java.lang.", "java.math.", "org.apache.spark.sql.types.", "org.apache.spark.unsafe.types.")


def check_parsed_query(spark: SparkSession, text: str) -> None:
    """Raises InputError for the first rule that the SQL breaks, and PySparkException if Spark cannot parse it."""
    check_plan(spark._jsparkSession.sessionState().sqlParser().parsePlan(text))


def check_plan(plan: Any) -> None:
    """Raises InputError for the first rule that an unresolved plan of Spark breaks."""
    for mistake in _list_mistakes(plan, frozenset()):
        raise mistake


def _list_mistakes(value: Any, visible: frozenset[str]) -> Iterator[InputError]:
    """Yield what breaks a rule in a field of a plan. `visible` has the names of common table expressions (WITH)."""
    if not isinstance(value, JavaObject):
        return
    full_name: str = value.getClass().getName()
    name = full_name.removeprefix(_PACKAGE).rsplit(".", 1)[-1]
    if full_name.startswith("scala.collection."):
        for item in _iterate(value.iterator()):
            yield from _list_mistakes(item, visible)
    elif full_name.startswith(("scala.Some", "scala.Tuple")) or (_is_own(full_name) and name in _RECORDS):
        yield from _list_field_mistakes(value, visible)
    elif full_name.startswith((*_SCALA_VALUES, *_VALUE_PACKAGES)) or (_is_own(full_name) and name in _VALUES):
        return
    elif not _is_own(full_name) or name not in _NODES:
        yield InputError(f"is read by Spark as `{name}`, which a suite must not use", remedy="leave the clause out")
    elif name == "UnresolvedWith":
        yield from _list_with_mistakes(value, visible)
    else:
        yield from _list_node_mistakes(name, value, visible)
        # The data type of a literal and of a cast is a value. Spark's evaluation modes are no classes of Catalyst.
        if name not in ("Literal", "LocalRelation", "UnresolvedRelation"):
            yield from _list_field_mistakes(value, visible)


def _is_own(full_name: str) -> bool:
    return full_name.startswith(_PACKAGE)


def _iterate(iterator: Any) -> Iterator[Any]:
    while iterator.hasNext():
        yield iterator.next()


def _list_field_mistakes(value: Any, visible: frozenset[str]) -> Iterator[InputError]:
    for field in _iterate(value.productIterator()):
        yield from _list_mistakes(field, visible)


def _list_with_mistakes(plan: Any, visible: frozenset[str]) -> Iterator[InputError]:
    for relation in _iterate(plan.cteRelations().iterator()):
        name, query = relation._1().lower(), relation._2()
        yield from _list_mistakes(query, visible | {name} if plan.allowRecursion() else visible)
        visible |= {name}
    yield from _list_mistakes(plan.child(), visible)


def _list_node_mistakes(name: str, node: Any, visible: frozenset[str]) -> Iterator[InputError]:
    if name == "UnresolvedRelation":
        parts = _read_names(node.multipartIdentifier())
        if len(parts) != 1 or parts[0] not in visible | {VIEW}:
            yield InputError(f"reads the table `{'.'.join(parts)}`", remedy=ONE_TABLE)
        if not node.options().isEmpty() or node.isStreaming():
            yield InputError("reads a table with options", remedy=ONE_TABLE)
    elif name == "UnresolvedFunction":
        yield from _list_function_mistakes(_read_names(node.nameParts()))
    elif name == "UnresolvedTableValuedFunction":
        yield from _list_function_mistakes(_read_names(node.name()), GENERATORS)
    elif name == "UnresolvedGenerator":
        yield from _list_function_mistakes([node.name().unquotedString().lower()], GENERATORS)
    elif name == "UnresolvedAttribute":
        parts = _read_names(node.nameParts())
        if len(parts) == 1 and parts[0] in HIDDEN_FUNCTIONS:
            yield from _list_function_mistakes(parts)


def _read_names(names: Any) -> list[str]:
    return [name.lower() for name in _iterate(names.iterator())]


def _list_function_mistakes(parts: list[str], allowed: frozenset[str] = FUNCTIONS) -> Iterator[InputError]:
    if len(parts) != 1 or parts[0] not in allowed:
        problem = f"calls the function `{'.'.join(parts)}`, which a suite must not call"
        yield InputError(problem, remedy=f"{PAGE} lists those allowed")
