# A tour of the lake: `marimo edit docs/notebooks/tour.py`, or, without a browser, `python docs/notebooks/tour.py`.
# It takes a running stack with the shop in it (`make up`, `make demo`), and the environment of checks and tests
# (`make dev`). It changes one row of the shop, and changes it back.
import marimo

app = marimo.App(width="medium")


@app.cell
def intro():
    import time
    from datetime import UTC, datetime
    from pathlib import Path

    import marimo as mo

    from services.stack.endpoints import StackSettings

    stack = StackSettings.load()
    pictures = Path(".lakehouse/tour")
    pictures.mkdir(parents=True, exist_ok=True)
    mo.md(
        """
        # From a row in PostgreSQL to three engines
        A row is changed in the source. Seconds later DuckDB, PyIceberg and Spark see it in the lake, by files that none
        of them has written.
        """
    )
    return UTC, datetime, mo, pictures, stack, time


@app.cell
def change(datetime, stack, time, UTC):
    import psycopg

    from services.stack.lake import open_catalog

    with psycopg.connect(stack.source_dsn.get_secret_value(), autocommit=True) as source:
        order = source.execute("SELECT order_id, note FROM orders ORDER BY order_id DESC LIMIT 1").fetchone()
        assert order is not None, "the shop is empty: make demo"
        key, before = order
        word = f"touched by the tour at {datetime.now(UTC):%H:%M:%S.%f}"
        source.execute("UPDATE orders SET note = %s WHERE order_id = %s", (word, key))
        changed = time.monotonic()

    def in_lake():
        rows = open_catalog(stack).load_table("shop.orders").scan(f"order_id = {key}", selected_fields=("note",))
        return rows.to_arrow()["note"].to_pylist()

    while in_lake() != [word]:
        assert time.monotonic() - changed < 120, f"order {key} hasn't come within two minutes: make status"
        time.sleep(0.2)
    print(f"order {key} was visible {time.monotonic() - changed:.1f} s after its commit")
    return before, key, open_catalog, psycopg, word


@app.cell
def pyiceberg_reads(key, open_catalog, stack):
    lake = open_catalog(stack)
    orders = lake.load_table("shop.orders")
    by_pyiceberg = orders.scan(f"order_id = {key}", selected_fields=("order_id", "status", "total", "note"))
    print("PyIceberg:", by_pyiceberg.to_arrow().to_pylist()[0])
    return lake, orders


@app.cell
def duckdb_reads(key, stack, word):
    import duckdb

    from services.stack.duckdb_session import load_extension, s3_secret

    engine = duckdb.connect()
    for extension in ("httpfs", "avro", "iceberg"):
        load_extension(engine, extension)
    engine.execute(s3_secret(stack, stack.operator_s3_access_key, stack.operator_s3_secret_key))
    engine.execute(
        f"ATTACH 'lake' AS lake (TYPE iceberg, ENDPOINT '{stack.catalog_uri}', AUTHORIZATION_TYPE 'none',"
        " ACCESS_DELEGATION_MODE 'none')"
    )
    seen = engine.execute(f"SELECT note FROM lake.shop.orders WHERE order_id = {key}").fetchone()
    assert seen == (word,)
    by_status = engine.execute("SELECT status, count(*) AS orders FROM lake.shop.orders GROUP BY 1 ORDER BY 2 DESC")
    print("DuckDB:", dict(by_status.fetchall()))
    return (engine,)


@app.cell
def spark_reads(folder_of, key, stack, word):
    import os

    from pyspark.sql import SparkSession

    # The jars of the platform's own Spark; any other Spark with Iceberg would do.
    jars = ":".join(str(jar.resolve()) for jar in sorted(folder_of(".lakehouse/toolchain/jars/spark").glob("*.jar")))
    os.environ["AWS_ACCESS_KEY_ID"] = stack.operator_s3_access_key.get_secret_value()
    os.environ["AWS_SECRET_ACCESS_KEY"] = stack.operator_s3_secret_key.get_secret_value()
    os.environ["AWS_REGION"] = stack.s3_region
    conf = {
        "spark.driver.extraClassPath": jars, "spark.ui.enabled": "false", "spark.log.level": "ERROR",
        "spark.sql.catalog.lake": "org.apache.iceberg.spark.SparkCatalog", "spark.sql.catalog.lake.type": "rest",
        "spark.sql.catalog.lake.uri": stack.catalog_uri,
        "spark.sql.catalog.lake.io-impl": "org.apache.iceberg.aws.s3.S3FileIO",
        "spark.sql.catalog.lake.s3.endpoint": stack.s3_endpoint, "spark.sql.catalog.lake.s3.path-style-access": "true",
    }  # fmt: skip
    builder = SparkSession.builder.master("local[1]").appName("tour")
    for name, value in conf.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    assert [row.note for row in spark.sql(f"SELECT note FROM lake.shop.orders WHERE order_id = {key}").collect()] == [
        word
    ]
    print("Spark:", spark.sql("SELECT count(*) AS orders FROM lake.shop.orders").collect()[0].asDict())
    spark.stop()
    return


@app.cell
def helpers():
    from pathlib import Path as folder_of

    return (folder_of,)


@app.cell
def time_travel(datetime, engine, key, mo, orders, UTC):
    mo.md("## As it was")
    history = sorted(orders.snapshots(), key=lambda snapshot: snapshot.timestamp_ms)
    first = history[0]
    then = engine.execute(f"SELECT count(*) FROM lake.shop.orders AT (VERSION => {first.snapshot_id})").fetchone()[0]
    now = engine.execute("SELECT count(*) FROM lake.shop.orders").fetchone()[0]
    at = datetime.fromtimestamp(first.timestamp_ms / 1000, UTC)
    print(f"{then:,} orders at {at:%H:%M:%S}, {now:,} now; {len(history):,} snapshots; order {key} is one of them")
    return


@app.cell
def dead_letters(lake):
    from services.facts.letters import open_letters

    for group in open_letters(lake).counts:
        print(f"{group['letters']:,} dead letters of {group['topic']}: {group['reason']}")
    return


@app.cell
def lineage(stack):
    from services.lineage.ask import Asking
    from services.lineage.draw import DOWNSTREAM, UPSTREAM, indexed, reached
    from services.lineage.settings import LineageEndpoint

    with Asking(LineageEndpoint.load()) as asking:
        found = asking.find("shop.orders")
        nodes = indexed(asking.graph(found))
    for direction in (UPSTREAM, DOWNSTREAM):
        print(f"{direction}: {', '.join(reached(nodes, found.node, direction)) or 'nothing'}")
    return


@app.cell
def freshness(datetime, orders, pictures, stack, UTC):
    from datetime import timedelta

    from services.demo.freshness import measured
    from services.demo.pictures import draw, sizes_of
    from services.stack.lake import open_catalog as opened
    from services.stack.lake import tables

    known = list(tables(opened(stack), stack))
    lately = datetime.now(UTC) - timedelta(hours=1)
    ages = measured(known, lately, datetime.now(UTC))
    paths = draw(pictures, ages, {table.name()[-1]: sizes_of(table) for table in known}, None)
    print(f"{len(ages):,} rows of the last hour; pictures: {', '.join(map(str, paths))}")
    del orders
    return


@app.cell
def undo(before, key, psycopg, stack):
    with psycopg.connect(stack.source_dsn.get_secret_value(), autocommit=True) as again:
        again.execute("UPDATE orders SET note = %s WHERE order_id = %s", (before, key))
    print(f"order {key} is as it was")
    return


if __name__ == "__main__":
    app.run()
