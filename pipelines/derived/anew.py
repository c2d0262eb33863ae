"""All rows of a derived table, of the snapshots that one of its commits names."""

from collections.abc import Mapping

from pyspark.sql import SparkSession

from pipelines.derived.compare import Computed, computed
from pipelines.derived.inputs import Origin, show
from pipelines.derived.windows import WindowRules
from pipelines.lake.table import LakeTable
from pipelines.protection.columns import ProtectedColumns
from pipelines.specs.derived import DerivedSpec
from pipelines.sql import quote


def computed_anew(
    session: SparkSession, spec: DerivedSpec, inputs: Mapping[str, LakeTable], origin: Origin,
    protected: ProtectedColumns,
) -> Computed:  # fmt: skip
    """Return what the query gives of an origin's snapshots. Raises StopPipeline."""
    windows, only = WindowRules.of(spec, inputs), {}
    if windows is not None:
        show(session, inputs, origin.snapshots, {})
        only[windows.window.input] = windows.counted(windows.watermark(session, quote(windows.window.input)))
    show(session, inputs, origin.snapshots, only)
    return computed(session, spec, protected)
