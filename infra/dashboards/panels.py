"""What the dashboards show: each panel's title, unit and queries. `$table` is chosen on the dashboard."""

from dataclasses import dataclass
from typing import Literal

Kind = Literal["timeseries", "stat"]


@dataclass(frozen=True)
class Panel:
    """One panel. ``queries``: legend to query. ``quiet``: why it may have no data on a stack that is well."""

    title: str
    unit: str
    queries: dict[str, str]
    kind: Kind = "timeseries"
    quiet: str | None = None


@dataclass(frozen=True)
class Dashboard:
    """One dashboard. ``variables``: name to the query of its values."""

    uid: str
    title: str
    panels: tuple[Panel, ...]
    variables: dict[str, str]


TABLE = {"table": "label_values(lakehouse_table_rows, table)"}
DASHBOARDS = (
    Dashboard("lakehouse-overview", "Lakehouse: overview", (
        Panel("Tables held", "short", {"held": "sum(lakehouse_table_held)"}, "stat"),
        Panel("Rows that differ", "short", {"differ": "sum(lakehouse_table_differences)"}, "stat",
              "the verifier hasn't ended its first look at any table"),
        Panel("Dead letters", "short", {"open": "sum(lakehouse_dead_letters) or vector(0)"}, "stat"),
        Panel("Services that answer", "short", {"up": "sum(up)"}, "stat"),
        Panel("Freshness by table", "s", {"{{table}}": "lakehouse_table_freshness_seconds"}),
        Panel("Source to readers, newest commit", "s", {"{{table}}": "lakehouse_table_visible_lag_seconds"}),
        Panel("Records a second", "short", {"{{table}}": "sum by (table) (rate(lakehouse_table_records_total[1m]))"}),
        Panel("Offsets behind", "short", {"{{table}}": "lakehouse_table_behind_offsets"}),
        Panel("Memory by service", "bytes", {"{{job}}": "lakehouse_service_memory_bytes"}),
        Panel("CPU by service", "short", {"{{job}}": "rate(lakehouse_service_cpu_seconds_total[1m])"}),
        Panel("Free disk", "percentunit", {"free": "lakehouse_disk_free_bytes / lakehouse_disk_size_bytes"}),
    ), {}),
    Dashboard("lakehouse-table", "Lakehouse: a table", (
        Panel("Freshness", "s", {"is": 'lakehouse_table_freshness_seconds{table="$table"}',
                                 "asked for": 'lakehouse_table_freshness_asked_seconds{table="$table"}'}),
        Panel("Where a batch's time goes", "s",
              {"{{stage}}": 'sum by (stage) (rate(lakehouse_table_stage_seconds_total{table="$table"}[1m]))'}),
        Panel("What became of records", "short",
              {"{{outcome}}": 'sum by (outcome) (rate(lakehouse_table_changes_total{table="$table"}[1m]))'}),
        Panel("Commits by writer", "short",
              {"{{writer}}": 'sum by (writer) (rate(lakehouse_table_commits_total{table="$table"}[5m]))'}),
        Panel("Files", "short", {"{{content}}": 'lakehouse_table_files{table="$table"}',
                                 "fullest partition": 'lakehouse_table_fullest_partition_files{table="$table"}'}),
        Panel("Rows", "short", {"rows": 'lakehouse_table_rows{table="$table"}'}),
        Panel("Bytes", "bytes", {"data": 'lakehouse_table_bytes{table="$table"}',
                                 "metadata": 'lakehouse_table_metadata_bytes{table="$table"}'}),
        Panel("Snapshots", "short", {"snapshots": 'lakehouse_table_snapshots{table="$table"}'}),
        Panel("Bytes written", "Bps", {"files": 'rate(lakehouse_table_added_bytes_total{table="$table"}[5m])'},
              quiet="nothing was committed since the console began to look"),
        Panel("A scan's cost, of a rewritten table's", "short", {"times": 'lakehouse_table_scan_cost{table="$table"}'}),
        Panel("Since the last compaction", "s",
              {"ago": 'time() - lakehouse_table_last_compaction_timestamp_seconds{table="$table"}'}),
        Panel("Another engine finds its files", "s", {"PyIceberg": 'lakehouse_table_query_seconds{table="$table"}'}),
    ), TABLE),
    Dashboard("lakehouse-kafka", "Lakehouse: Kafka and Connect", (
        Panel("Bytes into topics", "Bps", {"{{topic}}": "rate(kafka_topic_bytesin_total[1m])"}),
        Panel("Messages into topics", "short", {"{{topic}}": "rate(kafka_topic_messagesin_total[1m])"}),
        Panel("Log by topic", "bytes", {"{{topic}}": "sum by (topic) (kafka_log_size_bytes)"}),
        Panel("Partitions that lack a replica or a leader", "short", {
            "under-replicated": "kafka_under_replicated_partitions", "offline": "kafka_offline_partitions"}),
        Panel("Debezium behind its source", "ms", {"{{context}}": "debezium_millisecondsbehindsource"}),
        Panel("Room in Debezium's queue", "short", {"{{context}}": "debezium_queueremainingcapacity"}),
        Panel("Records that Connect writes", "short", {"{{task}}": "connect_task_source_record_write_rate"}),
        Panel("Log that the slot holds back", "bytes", {
            "held": "lakehouse_slot_held_bytes", "at most": "lakehouse_slot_bound_bytes"}),
        Panel("Connector and slot", "short", {"running": "lakehouse_connector_running"}, "stat"),
        Panel("Heap", "bytes", {"{{job}}": 'jvm_memory_used_bytes{area="heap"}'}),
    ), {}),
    Dashboard("lakehouse-spark", "Lakehouse: Spark drivers", (
        Panel("Heap of the drivers", "bytes", {"{{job}} {{area}}": "lakehouse_jvm_heap_bytes"}),
        Panel("Memory, workers included", "bytes", {
            "{{job}}": 'lakehouse_service_memory_bytes{job=~"mirror|streams"}'}),
        Panel("CPU", "short", {"{{job}}": 'rate(lakehouse_service_cpu_seconds_total{job=~"mirror|streams"}[1m])'}),
        Panel("Batches a second", "short", {"batches": "rate(lakehouse_batches_total[1m])"}),
        Panel("A batch takes", "s", {
            "mean": "rate(lakehouse_batch_seconds_total[5m]) / rate(lakehouse_batches_total[5m])"}),
        Panel("Commits a second by writer", "short", {
            "{{writer}}": "sum by (writer) (rate(lakehouse_table_commits_total[1m]))"}),
        Panel("Times that a table couldn't be brought on", "short", {
            "{{table}}": "rate(lakehouse_table_retries_total[5m])"}, quiet="no table ever failed"),
        Panel("Commits of which nobody could say whether they were done", "short", {
            "{{table}}": "increase(lakehouse_table_unknown_commits_total[1h])"}, quiet="there was none"),
        Panel("Time that upkeep takes, of all time", "percentunit", {
            "{{task}}": "sum by (task) (rate(lakehouse_upkeep_seconds_total[5m]))"}, quiet="nothing was due yet"),
        Panel("Tasks of upkeep that failed", "short", {
            "{{table}} {{task}}": 'increase(lakehouse_upkeep_tasks_total{outcome="failed"}[1h])'}, quiet="none did"),
    ), {}),
    Dashboard("lakehouse-quality", "Lakehouse: quality", (
        Panel("Promises", "short", {
            "{{outcome}}": "sum by (outcome) (lakehouse_table_promises)"}, quiet="no contract was checked yet"),
        Panel("Broken promises by table", "short", {
            "{{table}}": 'lakehouse_table_promises{outcome="broken"} > 0'}, quiet="none is broken"),
        Panel("Rows that broke a promise as they came", "short", {
            "{{table}} {{promise}}": "increase(lakehouse_table_broken_rows_total[1h])"}, quiet="none did"),
        Panel("Dead letters by reason", "short", {
            "{{topic}} {{reason}}": "lakehouse_dead_letters"}, quiet="there is none"),
        Panel("Since a table was verified", "s", {
            "{{table}}": "time() - lakehouse_table_verified_timestamp_seconds"},
            quiet="the verifier hasn't ended its first round"),
        Panel("Datasets behind their tables", "s", {
            "{{table}} for {{role}}": "lakehouse_dataset_behind_seconds"}, quiet="no contract shows a role anything"),
        Panel("Lineage was looked at", "s", {"ago": "time() - lineage_looked_timestamp_seconds"}),
    ), {}),
)  # fmt: skip
