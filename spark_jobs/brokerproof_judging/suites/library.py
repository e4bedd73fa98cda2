"""Great Expectations for the suites: it runs the expectations of a file on a frame, and builds Data Docs.

The evaluation knows only the protocol `Library`, so that a test can give it a faulty library.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol, TypeAlias

import pandas as pd
from brokerproof.suites.suite_file import SuiteFile
from pyspark.sql import DataFrame

from brokerproof_judging.suites.tally import MOST_SAMPLES

_SITE = "brokerproof"
# The class that renders each page of Data Docs.
_VIEW = {"module_name": "brokerproof_judging.suites.data_docs_view", "class_name": "EscapingPageView"}

# The library shows some of the rows that a standard expectation counts. It takes at most 200 of them from Spark.
_RESULT_FORMAT = {
    "result_format": "COMPLETE",
    "include_unexpected_rows": True,
    "partial_unexpected_count": MOST_SAMPLES,
}

# The rows to evaluate, in memory or in Spark.
Frame: TypeAlias = pd.DataFrame | DataFrame


@dataclass(frozen=True, kw_only=True)
class Validation:
    """The result of Great Expectations for the expectations of one `SuiteFile`."""

    # The number of the file's expectations that the library took. It drops expectations of an unknown kind.
    taken: int
    success: bool
    # The library's own results, one for each expectation.
    results: list[Any]


class Library(Protocol):
    """Runs expectations, and builds pages about the results."""

    def validate(self, file: SuiteFile, frame: Frame) -> Validation:
        """Run the expectations of a suite's file on the rows of a frame, and return their results."""

    @property
    def validated(self) -> Mapping[str, bool]:
        """{title of a validated file: whether all its expectations hold according to the library}."""

    def build_data_docs(self) -> None:
        """Build pages about all validations so far."""


class GreatExpectations:
    """Great Expectations, in a context of its own without analytics and progress bars.

    It builds Data Docs (pages about the results) in the directory `site`. On these pages, the run is called `run_name`.
    """

    def __init__(self, site: str, run_name: str = "") -> None:
        os.environ["GX_ANALYTICS_ENABLED"] = "false"
        import great_expectations as gx
        from great_expectations.data_context.types.base import (
            DataContextConfig,
            InMemoryStoreBackendDefaults,
            ProgressBarsConfig,
        )

        # The library drops an expectation of an unregistered kind from a suite, and only logs that.
        from brokerproof_judging.suites import measurement_expectation, message_expectation  # noqa: F401 (registers)

        docs = {
            "class_name": "SiteBuilder",
            "store_backend": {"class_name": "TupleFilesystemStoreBackend", "base_directory": site},
            "site_index_builder": {"class_name": "DefaultSiteIndexBuilder"},
            "site_section_builders": {section: {"view": _VIEW} for section in ("expectations", "validations")},
        }
        # All settings are made at once, because the context writes its whole configuration again for each later change.
        configuration = DataContextConfig(
            store_backend_defaults=InMemoryStoreBackendDefaults(init_temp_docs_sites=False),
            analytics_enabled=False,
            progress_bars=ProgressBarsConfig(globally=False),
            data_docs_sites={_SITE: docs},
        )
        self._context: Any = gx.get_context(mode="ephemeral", project_config=configuration)
        self._run_name = run_name
        self.validated: dict[str, bool] = {}

    def validate(self, file: SuiteFile, frame: Frame) -> Validation:
        import great_expectations as gx

        suite = self._context.suites.add(gx.ExpectationSuite(**file.content))
        batches = self._rows_in_memory if isinstance(frame, pd.DataFrame) else self._rows_on_spark
        definition = self._context.validation_definitions.add(
            gx.ValidationDefinition(name=file.title, data=batches, suite=suite)
        )
        outcome = definition.run(
            batch_parameters={"dataframe": frame},
            result_format=_RESULT_FORMAT,
            run_id=gx.RunIdentifier(run_name=self._run_name or None),
        )
        self.validated[file.title] = bool(outcome.success)
        return Validation(taken=len(suite.expectations), success=bool(outcome.success), results=list(outcome.results))

    # Made once for all suites, because the context writes its whole configuration again for each addition.
    @cached_property
    def _rows_in_memory(self) -> Any:
        return _define_all_rows(self._context.data_sources.add_pandas("memory"))

    @cached_property
    def _rows_on_spark(self) -> Any:
        # Spark reads only the few columns that it needs from Parquet. Keeping the whole table costs more than it saves.
        return _define_all_rows(self._context.data_sources.add_spark("spark", persist=False))

    def build_data_docs(self) -> None:
        self._context.build_data_docs(site_names=[_SITE])


def _define_all_rows(source: Any) -> Any:
    """Return Great Expectations' batch definition for all rows of the frame that a validation is given."""
    return source.add_dataframe_asset("rows").add_batch_definition_whole_dataframe("all")
