"""The rules for the SQL of a user's suite: one SELECT on the expectation's own table, with functions of a closed list.

Spark's driver runs this SQL. Without the rules, a suite could read files, run programs and load code there. The rules
are checked twice. This module reads the SQL with sqlglot when a suite's file is read, before anything starts. Before
Spark runs the SQL, `brokerproof_judging.suites.parsed_query` checks what Spark's own parser makes of the same text.

Spark gets the user's text. SQL that sqlglot writes from its tree is not always equal: it turns `percentile_disc` into
an approximation, and `to_char(seq, '999')` into a cast.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from itertools import pairwise
from string import Formatter
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from brokerproof.errors import InputError

if TYPE_CHECKING:
    from sqlglot import exp

# The only keyword of an expectation whose value is SQL.
QUERY_KEYWORD = "unexpected_rows_query"
# The name that Great Expectations gives to the table.
VIEW = "tmp_view"
PAGE = "docs/sql-functions.md"
# A function's literal argument, such as the end of `range`, is at most this number. It is a number of rows, or of
# characters or items in one value.
MOST_ITEMS = 1_000_000
# In characters.
LONGEST_QUERY = 20_000
# sqlglot's time doubles with each JOIN that has no condition, and with each STRUCT in another one: it needs 22 s for 18
# of them. It needs 10 s for 200 data types in each other.
MOST_JOINS = 10
MOST_TYPES = 40
MOST_NESTED = 8
_NESTED_TYPES = frozenset({"ARRAY", "MAP", "STRUCT"})


def list_words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# The functions that a query may call, by what they are about. Each gives the same result for the same rows, except
# those of the current time. None reads anything but its arguments.
FUNCTION_GROUPS: Mapping[str, str] = MappingProxyType(
    {
        "Counts and other aggregates": """
            any any_value approx_count_distinct approx_percentile array_agg avg bit_and bit_or bit_xor bool_and bool_or
            collect_list collect_set corr count count_if covar_pop covar_samp every first first_value grouping
            grouping_id histogram_numeric kurtosis last last_value listagg max max_by mean median min min_by mode
            percentile percentile_approx percentile_cont percentile_disc regr_avgx regr_avgy regr_count regr_intercept
            regr_r2 regr_slope regr_sxx regr_sxy regr_syy skewness some std stddev stddev_pop stddev_samp string_agg sum
            try_avg try_sum var_pop var_samp variance
            """,
        "Windows": "cume_dist dense_rank lag lead nth_value ntile percent_rank rank row_number",
        "Conditions": """
            between coalesce equal_null if ifnull ilike isnan isnotnull isnull like nanvl not nullif nullifzero nvl nvl2
            regexp regexp_like rlike when zeroifnull
            """,
        "Numbers": """
            abs acos acosh asin asinh atan atan2 atanh bin bit_count bit_get bround cbrt ceil ceiling conv cos cosh cot
            csc degrees div e exp expm1 factorial floor getbit greatest hex hypot least ln log log10 log1p log2 mod
            negative pi pmod positive pow power radians rint round sec shiftleft shiftright shiftrightunsigned sign
            signum sin sinh sqrt tan tanh try_add try_divide try_mod try_multiply try_subtract unhex width_bucket
            """,
        "Times": """
            add_months convert_timezone curdate current_date current_time current_timestamp date_add date_diff
            date_format date_from_unix_date date_part date_sub date_trunc dateadd datediff datepart day dayname
            dayofmonth dayofweek dayofyear extract from_unixtime from_utc_timestamp hour last_day localtime
            localtimestamp make_date make_dt_interval make_interval make_time make_timestamp make_timestamp_ltz
            make_timestamp_ntz make_ym_interval minute month monthname months_between next_day now quarter second
            session_window time_bucket time_diff time_from_micros time_from_millis time_from_seconds time_to_micros
            time_to_millis time_to_seconds time_trunc timestamp_micros timestamp_millis timestamp_nanos
            timestamp_seconds timestampadd timestampdiff to_date to_time to_timestamp to_timestamp_ltz to_timestamp_ntz
            to_unix_timestamp to_utc_timestamp trunc try_make_interval try_make_timestamp try_make_timestamp_ltz
            try_make_timestamp_ntz try_to_date try_to_time try_to_timestamp unix_date unix_micros unix_millis unix_nanos
            unix_seconds unix_timestamp weekday weekofyear window window_time year
            """,
        "Texts": """
            ascii base64 bit_length btrim char char_length character_length chr collate collation concat concat_ws
            contains crc32 decode elt encode endswith find_in_set format_number format_string hash initcap instr
            is_valid_utf8 jaro_winkler_similarity lcase left len length levenshtein locate lower lpad ltrim luhn_check
            make_valid_utf8 mask md5 octet_length overlay parse_url position printf quote regexp_count regexp_extract
            regexp_extract_all regexp_instr regexp_replace regexp_substr repeat replace right rpad rtrim sentences sha
            sha1 sha2 soundex space split split_part startswith substr substring substring_index to_binary to_char
            to_number to_varchar translate trim try_parse_url try_to_binary try_to_number try_url_decode
            try_validate_utf8 ucase unbase64 upper url_decode url_encode validate_utf8 xxhash64
            """,
        "Arrays, maps and structs": """
            aggregate array array_append array_compact array_contains array_distinct array_except array_insert
            array_intersect array_join array_max array_min array_position array_prepend array_remove array_repeat
            array_size array_sort array_union arrays_overlap arrays_zip cardinality element_at exists filter flatten
            forall get map map_concat map_contains_key map_entries map_filter map_from_arrays map_from_entries map_keys
            map_values map_zip_with named_struct reduce reverse sequence size slice sort_array str_to_map struct
            transform transform_keys transform_values try_element_at zip_with
            """,
        "JSON and CSV": """
            from_csv from_json get_json_object is_valid_variant is_variant_null json_array_length json_object_keys
            parse_json schema_of_csv schema_of_json schema_of_variant to_csv to_json to_variant_object try_parse_json
            try_variant_get variant_get
            """,
        "Types": """
            bigint binary boolean cast date decimal double float int smallint string time timestamp tinyint try_cast
            typeof
            """,
        "Rows from a value (also after FROM and LATERAL)": """
            explode explode_outer inline inline_outer json_tuple posexplode posexplode_outer range stack
            variant_explode variant_explode_outer
            """,
    }
)
GENERATORS = list_words(FUNCTION_GROUPS["Rows from a value (also after FROM and LATERAL)"])
FUNCTIONS = list_words(" ".join(FUNCTION_GROUPS.values()))
# In Spark, these names are functions even without parentheses, if no column has the name.
HIDDEN_FUNCTIONS = list_words(
    "current_catalog current_database current_path current_schema current_user session_user user"
)
# A literal argument of these functions can make a value of any size.
_COUNTED = frozenset({"array_repeat", "lpad", "range", "repeat", "rpad", "sequence", "space"})

# sqlglot's classes of what a query may contain beside functions.
_NODES = list_words(
    """
    Add Alias Aliases All Any Between BitwiseAnd BitwiseLeftShift BitwiseNot BitwiseOr BitwiseRightShift BitwiseXor
    Boolean Bracket CTE Column ColumnDef Cube DPipe DataType DataTypeParam Distinct Div Dot EQ Escape Except Filter
    From GT GTE Group GroupingSets Having HexString ILike Identifier IgnoreNulls In IntDiv Intersect Interval
    IntervalSpan Is JSONPath JSONPathKey JSONPathRoot JSONPathSubscript JSONPathWildcard Join LT LTE Lambda Lateral
    Like Limit Literal Mod Mul NEQ Neg Not Null NullSafeEQ NullSafeNEQ Offset Order Ordered Paren Pivot PivotAlias
    PropertyEQ Qualify RawString RespectNulls Rollup Select Sort Star Sub Subquery Table TableAlias Tuple Union
    Values Var Where Window WindowSpec With WithinGroup
    """
)
# sqlglot's classes of functions that it makes from other syntax or by a parser of their own, without a name in the SQL.
_UNNAMED_FUNCTIONS = list_words(
    """
    And ApproxQuantile ArgMax ArgMin Array Case Cast Ceil Chr Collate Concat CurrentDate CurrentTime
    CurrentTimestamp Exists Extract First FirstValue Floor GroupConcat If JSONExtract Last LastValue Localtime
    Localtimestamp Map Or Overlay Quantile RegexpLike StrPosition StrToMap Struct Substring TimeStrToTime Transform
    Trim TryCast TsOrDsToDate Xor
    """
)
# How a user knows the clause behind a class of sqlglot.
_CLAUSES = MappingProxyType(
    {
        "Cluster": "CLUSTER BY",
        "Distribute": "DISTRIBUTE BY",
        "Hint": "a hint, /*+ … */",
        "JoinHint": "a hint, /*+ … */",
        "Parameter": "a variable",
        "Placeholder": "a parameter, `:name` or ?",
        "QueryTransform": "TRANSFORM … USING",
        "SessionParameter": "a variable",
        "TableSample": "TABLESAMPLE",
        "Version": "time travel, … AS OF",
    }
)
ONE_TABLE = "an expectation can read only one table, which is called `{batch}` in it"


def fill_in_batch(query: str) -> str:
    """Return the SQL that Great Expectations evaluates for `query`. Raises ValueError if `{batch}` has a bad format."""
    return query.rstrip("; \t\r\n\v\f").format(batch=VIEW)


def list_query_mistakes(query: str) -> list[InputError]:
    """Return an error for each rule that an SQL query of a user's suite breaks."""
    if len(query) > LONGEST_QUERY:
        problem = f"has {len(query):,} characters, and a query may have {LONGEST_QUERY:,}"
        return [InputError(problem, remedy="write several expectations")]
    if mistake := _find_placeholder_mistake(query):
        return [mistake]
    text = fill_in_batch(query)
    if "${" in text:
        problem = "has a `${`, which Spark would replace by a value of its configuration or environment"
        return [InputError(problem, remedy="write the value itself")]
    try:
        return _list_mistakes(text)
    except InputError as error:
        return [error]
    except RecursionError:
        return [InputError("is nested too deeply", remedy="write several expectations")]


def _find_placeholder_mistake(query: str) -> InputError | None:
    """Return what is wrong with the placeholders of a query. It must have `{batch}`, and no other."""
    try:
        fields = [(field, spec, conversion) for _, field, spec, conversion in Formatter().parse(query)]
    except ValueError as error:
        problem = f"has a brace that is no `{{batch}}` ({error}); a brace of SQL is written twice"
        return InputError(problem, remedy="correct the value")
    for field, spec, conversion in fields:
        if field is not None and (field, spec, conversion) != ("batch", "", None):
            written = field + (f"!{conversion}" if conversion else "") + (f":{spec}" if spec else "")
            problem = (
                f"has the placeholder `{{{written}}}`; only `{{batch}}` is filled in, and a brace of SQL is doubled"
            )
            return InputError(problem, remedy="correct the value")
    return None if any(field for field, *_ in fields) else _make_mistake_of_no_table()


def _make_mistake_of_no_table() -> InputError:
    return InputError("does not ask the table, which is called `{batch}` in it", remedy="correct the value")


def _list_mistakes(text: str) -> list[InputError]:
    from sqlglot import exp

    root = _parse(text)
    mistakes = [mistake for node in root.walk() for mistake in _list_node_mistakes(node)]
    if not mistakes and not any(_is_view(table) for table in root.find_all(exp.Table)):
        mistakes = [_make_mistake_of_no_table()]
    # A mistake that the query makes twice is one sentence.
    return list({str(mistake): mistake for mistake in mistakes}.values())


def _parse(text: str) -> exp.Expr:
    """Return the query as sqlglot's tree. Raises InputError if the text is not one query."""
    from sqlglot import exp
    from sqlglot.tokenizer_core import TokenType

    dialect = _load_dialect()
    try:
        tokens = dialect.tokenize(text)
        _check_begin(next((token.text.upper() for token in tokens if token.text != "("), ""))
        _check_size([token.text.upper() for token in tokens])
        for token, following in pairwise(tokens):
            # sqlglot takes the function `window` after GROUP BY for the clause WINDOW.
            if token.token_type is TokenType.WINDOW and following.token_type is TokenType.L_PAREN:
                token.token_type = TokenType.VAR
        statements = [each for each in dialect.parser().parse(tokens, text) if each is not None]
    except (InputError, RecursionError):
        raise
    except Exception as error:
        # sqlglot raises IndexError for `map('a')`, and ValueError for `date_trunc()`.
        raise InputError(f"cannot be parsed: {_explain(error)}", remedy="correct the SQL") from None
    if any(token.token_type is TokenType.PIPE_GT for token in tokens):
        # sqlglot's tree has a clause in its place.
        raise InputError("has the operator `|>`", remedy="write the query as a SELECT")
    if len(statements) != 1:
        raise InputError(f"has {len(statements)} statements", remedy="write one SELECT")
    if not isinstance(statements[0], exp.Select | exp.SetOperation | exp.Subquery):
        raise _make_mistake_of_no_query(statements[0].key.upper())
    return statements[0]


def _check_begin(word: str) -> None:
    """Raises InputError if a query does not begin with `word`. sqlglot cannot parse every other statement of Spark."""
    if word not in ("SELECT", "WITH", "FROM"):
        raise _make_mistake_of_no_query(word)


def _make_mistake_of_no_query(name: str) -> InputError:
    return InputError(f"is the statement `{name}`, and no query that selects rows", remedy="begin it with SELECT")


def _explain(error: Exception) -> str:
    from sqlglot.errors import ParseError, TokenError

    if isinstance(error, TokenError):
        return "a quote or a comment has no end"
    if not isinstance(error, ParseError) or not error.errors:
        return "a function has wrong arguments"
    first: Mapping[str, Any] = error.errors[0]
    before = str(first.get("start_context") or "").replace(VIEW, "{batch}").strip()[-40:]
    return str(first["description"]).rstrip(".") + (f", after `{before}`" if before else "")


def _check_size(words: Sequence[str]) -> None:
    """Raises InputError for SQL that sqlglot would need seconds for."""
    joins, types, deepest = words.count("JOIN"), 0, 0
    # For each open parenthesis, whether it belongs to a nested type or to the function that makes one.
    opened: list[bool] = []
    for before, word in pairwise(words):
        is_nested = before in _NESTED_TYPES
        types += is_nested and word == "<"
        if word == "(":
            opened.append(is_nested)
            deepest = max(deepest, sum(opened))
        elif word == ")" and opened:
            opened.pop()
    for count, most, problem in (
        (joins, MOST_JOINS, "joins"),
        (types, MOST_TYPES, "nested types"),
        (deepest, MOST_NESTED, "arrays, maps and structs in each other"),
    ):
        if count > most:
            raise InputError(f"has {count} {problem}, and may have {most}", remedy="write several expectations")


@cache
def _load_dialect() -> Any:
    """Return Spark's dialect. The functions in its trees keep their names of the SQL."""
    from sqlglot.dialects.spark import Spark

    # It warns of each statement that it cannot parse, and these are refused with a sentence.
    logging.getLogger("sqlglot").setLevel(logging.ERROR)

    class SparkOfSuites(Spark):
        ORIGINAL_NAME_META_KEY = "name"

    return SparkOfSuites()


def _list_node_mistakes(node: exp.Expr) -> Iterator[InputError]:
    from sqlglot import exp

    kind = type(node).__name__
    if isinstance(node, exp.Table):
        yield from _list_table_mistakes(node)
    elif isinstance(node, exp.Lateral) and not isinstance(node.this, exp.Subquery):
        yield from _list_generator_mistakes(node.this)
    elif isinstance(node, exp.Func):
        yield from _list_function_mistakes(node)
    elif kind not in _NODES:
        clause = _CLAUSES.get(kind, f"`{node.key.upper()}`")
        yield InputError(f"has {clause}, which a suite must not use", remedy="leave it out")
    elif isinstance(node, exp.Dot) and isinstance(node.expression, exp.Func):
        yield InputError(
            f"calls the function `{_find_name(node.expression)}` of a database", remedy="write its name alone"
        )
    elif isinstance(node, exp.Column) and not node.table and node.name.lower() in HIDDEN_FUNCTIONS:
        yield _make_function_mistake(node.name.lower())


def _list_table_mistakes(table: exp.Table) -> Iterator[InputError]:
    from sqlglot import exp

    if table.args.get("db") or table.args.get("catalog"):
        named = ".".join(part.name for part in table.parts)
        yield InputError(f"reads `{named}`, a file or a table elsewhere", remedy=ONE_TABLE)
    elif isinstance(table.this, exp.Func):
        yield from _list_generator_mistakes(table.this)
    elif not _is_view(table) and table.name.lower() not in _list_visible(table):
        yield InputError(f"reads the table `{table.name}`", remedy=ONE_TABLE)


def _list_generator_mistakes(rows: exp.Expr) -> Iterator[InputError]:
    """Yield an error if `rows` is no function that makes rows from its arguments."""
    from sqlglot import exp

    if not isinstance(rows, exp.Func):
        # sqlglot takes the name of a table after LATERAL for a column.
        named = ".".join(part.name for part in rows.find_all(exp.Identifier, bfs=False))
        yield InputError(f"reads the table `{named}`", remedy=ONE_TABLE)
    elif (name := _find_name(rows)) not in GENERATORS:
        yield InputError(f"reads rows from the function `{name}`", remedy=ONE_TABLE)


def _is_view(table: exp.Table) -> bool:
    return table.name.lower() == VIEW and VIEW not in _list_visible(table)


def _list_visible(table: exp.Table) -> set[str]:
    """Return the names of the common table expressions (WITH) that can be meant by the table's name, in lower case."""
    from sqlglot import exp

    names: set[str] = set()
    node: exp.Expr = table
    while (parent := node.parent) is not None:
        if isinstance(parent, exp.With):
            place = next(index for index, each in enumerate(parent.expressions) if each is node)
            names |= {each.alias.lower() for each in parent.expressions[: place + bool(parent.recursive)]}
            # The query that the WITH belongs to comes next, and all its names are not visible in here.
            node = parent.parent or parent
            continue
        if (above := parent.args.get("with_")) is not None:
            names |= {each.alias.lower() for each in above.expressions}
        node = parent
    return names


def _list_function_mistakes(function: exp.Func) -> Iterator[InputError]:
    from sqlglot import exp

    name = _find_name(function)
    if name == "identifier":
        yield InputError("has the clause IDENTIFIER(…), which hides a name", remedy="write the name itself")
    elif not (name in FUNCTIONS if name else type(function).__name__ in _UNNAMED_FUNCTIONS):
        yield _make_function_mistake(name or function.sql_name().lower())
    if name in _COUNTED:
        for number in function.find_all(exp.Literal):
            if not number.is_string and not _read_number(number) <= MOST_ITEMS:
                problem = f"calls `{name}` with {number.this}, and at most {MOST_ITEMS:,} is allowed"
                yield InputError(problem, remedy="write a smaller number")
    if name == "range" and not all(map(_is_number, function.expressions)):
        yield InputError("calls `range` with an argument that is no number", remedy="write numbers")


def _read_number(literal: exp.Literal) -> float:
    """Return the value of a number; infinity for `1e`, which sqlglot takes for a number."""
    try:
        return float(literal.this)
    except ValueError:
        return math.inf


def _is_number(argument: exp.Expr) -> bool:
    from sqlglot import exp

    number = argument.this if isinstance(argument, exp.Neg) else argument
    return isinstance(number, exp.Literal) and not number.is_string


def _find_name(function: exp.Func) -> str:
    """Return a function's name in the SQL, in lower case; empty if the SQL has other syntax for it."""
    from sqlglot import exp

    name = function.name if isinstance(function, exp.Anonymous) else function.meta.get("name")
    return str(name or "").lower()


def _make_function_mistake(name: str) -> InputError:
    return InputError(f"calls the function `{name}`, which a suite must not call", remedy=f"{PAGE} lists those allowed")
