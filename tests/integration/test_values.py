"""Whatever a source holds: odd names, families of tables, all types, records that nobody should send."""

from io import BytesIO

import duckdb
import fastavro
import httpx
import psycopg
import pytest
from confluent_kafka import Consumer
from psycopg import sql

from services.stack.records import Decoder
from tests.integration.stack import Stack, wait_until

pytestmark = pytest.mark.process

# Table: its key column and the others.
NAMES = {
    "My Orders": (
        "id", ["my col", "größe", "select", "op", "row", "key", "_x", "partition", "offset", "$a", 'q"`', "1st"],
    ),
    "na-me.with$all`ticks\"q'": ("id", ["value"]),
    "žena5": ("klíč č", ["名前", "住所"]),
    "注文": ("id", ["v"]),
    "顧客": ("id", ["v"]),
    "Select": ("id", ["v"]),
    "select": ("id", ["v"]),
    "n" * 63: ("k" * 63, ["c" * 63]),
}  # fmt: skip


def _write(source: psycopg.Connection, table: str) -> None:
    """Rows that are inserted, updated, given another key and deleted."""
    key, columns = NAMES[table]
    names = {"t": sql.Identifier(table), "k": sql.Identifier(key), "c": sql.Identifier(columns[-1])}
    definitions = sql.SQL(", ").join(sql.SQL("{} text").format(sql.Identifier(name)) for name in columns)
    long = "(SELECT string_agg(md5(i::text), '') FROM generate_series(1, 300) i)"
    statements = (
        "CREATE TABLE {t} ({k} int PRIMARY KEY, {d})",
        f"INSERT INTO {{t}} ({{k}}, {{c}}) SELECT g, g || {long} FROM generate_series(1, 4) g",
        "UPDATE {t} SET {c} = 'changed' WHERE {k} = 1",
        "UPDATE {t} SET {k} = 12 WHERE {k} = 2",
        "DELETE FROM {t} WHERE {k} = 3",
    )
    for statement in statements:
        source.execute(sql.SQL(statement).format(d=definitions, **names))


@pytest.mark.slow
def test_names_of_every_kind(stack: Stack) -> None:
    with stack.source() as source:
        for table in NAMES:
            _write(source, table)
        with pytest.raises(psycopg.errors.RaiseException, match=r"the columns .* of public\.twins differ only"):
            source.execute('CREATE TABLE twins (id int PRIMARY KEY, "Id" int)')
        source.execute('CREATE TABLE dotted (id int PRIMARY KEY, "a.b" int)')
        source.execute("CREATE TABLE reserved (id int PRIMARY KEY, _lsn int)")
        source.execute('CREATE TABLE "1st" (id int PRIMARY KEY)')
        source.execute('INSERT INTO "1st" VALUES (1)')
    wait_until(lambda: "the column a.b has a dot in its name" in stack.status())
    assert "the column _lsn has a name that the lake uses itself" in stack.status()
    report = stack.assert_equal(*NAMES)
    assert [table["rows_lake"] for table in report["tables"]] == [3] * len(NAMES)
    for table, (key, columns) in NAMES.items():
        shown = stack.lakehouse("table", "show", table)
        assert [column["name"] for column in shown["columns"]][: 1 + len(columns)] == [key, *columns]
    with stack.source() as source:
        source.execute('ALTER TABLE "žena5" RENAME COLUMN "名前" TO "a b"')
        source.execute('ALTER TABLE "žena5" ADD COLUMN "a_b" uuid DEFAULT gen_random_uuid()')
    wait_until(lambda: bool(stack.lakehouse("verify", "žena5", ok=(0, 1))["equal"]))
    assert stack.lakehouse("schema", "history", "žena5")["changes"][0]["done"][0] == "rename 名前 to a b"
    stack.sql("DROP TABLE dotted", "DROP TABLE reserved", *(f'DROP TABLE "{n}"' for n in ("注文", "顧客", "1st")))


EARLY_MOMENTS = '{"1582-10-10 00:00:00.123456","1000-02-28 12:00:00","0044-03-15 00:00:00 BC"}'
VALUES = {
    "whole": ("numeric(10,2)", ["1.50", "-0.01", "99999999.99", None]),
    "endless": ("numeric", ["12345678901234567890.123456789", "NaN", "-Infinity", "1e-30", "1e40"]),
    "long": ("numeric(50,3)", ["1e40", "NaN", "0"]),
    "rounded": ("numeric(4,-2)", ["1234", "-100", "0"]),
    "amounts": ("numeric(10,2)[]", ["{2.5,NULL}", "{}"]),
    "day": ("date", ["2026-03-29", "0001-01-01", "4713-01-01 BC", "9999-12-31", "5874897-12-31"]),
    "days": ("date[]", ['{2026-03-29,NULL,1582-10-10,1582-10-04,1000-02-28,"0044-03-15 BC"}', "{}"]),
    "moment": ("timestamp", ["2026-03-29 02:30:00.123456", "0001-01-01", "200000-01-01"]),
    "zoned": ("timestamptz", ["2026-03-29 02:30:00.123456+01", "0001-01-01 00:00Z", "9999-12-31 23:59:59.999999Z"]),
    "zoneds": ("timestamptz[]", ["{2026-03-29 02:30:00.123456+01,NULL}", EARLY_MOMENTS]),
    "clock": ("time", ["23:59:59.999999", "24:00:00", "00:00:00"]),
    "clock_there": ("timetz", ["12:00+02", "23:59:59.5-11:30", "00:00:01.000001Z"]),
    "spell": ("interval", ["1 day", "-1 mon +2 days -03:04:05.678901", "0", "100 years 250:00:07", "-00:00:00.5"]),
    "single": ("real", ["NaN", "-0", "Infinity", "1e-45"]),
    "double_one": ("double precision", ["NaN", "-0", "-Infinity", "5e-324"]),
    "words": ("text", ["", "\\\\N", "žlutý 🐎", "a\ttab"]),
    "padded": ("char(5)", ["ab", ""]),
    "address": ("inet", ["10.0.0.1/8", "::1"]),
    "picture": ("bytea", ["\\x00ff", ""]),
    "flag": ("bit(1)", ["1", "0"]),
    "flags": ("bit(70)", ["1" * 69 + "0", "0" * 69 + "1"]),
    "varying": ("varbit", ["101", "1" * 70]),
    "range": ("int4range", ["[1,5)", "empty", "(,3)"]),
    "ranges": ("numrange[]", ['{"[1.50,2]",NULL}']),
    "spans": ("datemultirange", ["{[2026-01-01,2026-02-01)}", "{}"]),
    "cash": ("money", ["1234.50", "-0.01"]),
    "markup": ("xml", ["<a>&lt;</a>"]),
    "device": ("macaddr", ["08:00:2b:01:02:03"]),
    "network": ("cidr", ["10.0.0.0/8"]),
    "vector": ("tsvector", ["'a':1A 'b':2"]),
    "position": ("pg_lsn", ["16/B374D848"]),
    "pairs": ("hstore", ["a=>1, b=>NULL", "", '"=>k"=>"x\\"=>\\\\", é=>"1, \\"z\\"=>2"', '"n\nl"=>NULL', "n=>NULL"]),
    "document": ("json", ['{"a": null, "b":1.0}', "null"]),
    "binary_document": ("jsonb", ["null", '{"a": [1e400]}']),
    "positive": ("positive", ["7"]),
    "price": ("price", ["1.50"]),
    "pair": ("pair", ['(1,"a ""b"" \\\\ c")', "(,)"]),
    "couples": ("pair[]", ['{"(1,\\"a b\\")",NULL,"(2,\\"\\"\\"\\")"}', "{}"]),
    "mood": ("mood", ["glad", "worn"]),
    "numbers": ("int[]", ["{1,NULL}", "{}"]),
    "texts": ("text[]", ['{a,NULL,"","x,y"}']),
    "moments": ("timestamp[]", ["{2026-01-01 00:00:00.123456}", EARLY_MOMENTS]),
    "clocks": ("time[]", ["{12:00,24:00:00,00:00:00.5,NULL}"]),
    "clocks_there": ("timetz[]", ["{12:00+02,00:00:00.5Z}"]),
    "spells": ("interval[]", ["{1 day,NULL,-00:00:00.5}"]),
    "cashes": ("money[]", ["{1234.50,NULL,-0.01}"]),
    "moods": ("mood[]", ["{glad,NULL}"]),
    "endlesses": ("numeric[]", ["{NaN,1e-30,NULL,Infinity}"]),
    "bitses": ("bit(3)[]", ["{101,NULL,001}"]),
    "markups": ("xml[]", ['{"<a b=\\"1\\"/>",NULL}']),
    "titles": ("name[]", ["{a,NULL}"]),
    "numbered": ("int2vector", ["1 2 3", ""]),
    "identified": ("oidvector", ["4294967295 1"]),
    "mails": ("mail[]", ["{a@b,NULL}"]),
    "mail": ("mail", ["A@b"]),
    "octets": ("octets", ["\\x00ff", ""]),
    "mask": ("mask", ["011"]),
    "strings": ("octets[]", ['{"\\\\x00ff",NULL}']),
    "class": ("regclass", ["pg_class"]),
    "spread": ("int4multirange[]", ['{"{[1,3),[5,8)}"}']),
    "place": ("point", ["(1.5,-2e30)", "(-0,1e-5)", "(Infinity,NaN)", "(0.1,1e15)", "(123456789012345.6,5e-324)"]),
    "places": ("point[]", ['{"(1.5,-2e-30)",NULL}']),
    "plot": ("box", ["(0,0),(1.25,1)"]),
    "plots": ("box[]", ["{(0,0),(1,1);(2,2),(3,3)}"]),
    "edge": ("lseg", ["[(0,0),(1,1)]"]),
    "way": ("path", ["[(0,0),(1,1)]", "((0,0),(1,1))"]),
    "area": ("polygon", ["((0,0),(1,1),(2,0))"]),
    "round": ("circle", ["<(1,2),3>"]),
    "straight": ("line", ["{1,2,3}"]),
}  # fmt: skip
# Types of which older rows are told by what PostgreSQL prints; rows with others are read again.
TOLD = {"whole", "endless", "long", "rounded", "day", "moment", "zoned", "clock", "single", "double_one", "words",
        "padded", "address", "flag", "flags", "device", "network", "document", "binary_document", "mood"}  # fmt: skip
BEYOND = {
    "whole": "NaN", "day": "infinity", "days": "{-infinity}", "moment": "294276-12-31 23:59:59.999999",
    "zoned": "infinity",
}  # fmt: skip


TYPES = {
    "hstore": "CREATE EXTENSION hstore", "citext": "CREATE EXTENSION citext", "mail": "CREATE DOMAIN mail AS citext",
    "positive": "CREATE DOMAIN positive AS int CHECK (VALUE > 0)", "price": "CREATE DOMAIN price AS numeric(10,2)",
    "octets": "CREATE DOMAIN octets AS bytea", "mask": "CREATE DOMAIN mask AS bit(3)",
    "pair": "CREATE TYPE pair AS (a int, b text)", "mood": "CREATE TYPE mood AS ENUM ('glad')",
}  # fmt: skip


def _make_types(stack: Stack) -> None:
    with stack.source() as source:
        for name, statement in TYPES.items():
            if source.execute("SELECT to_regtype(%s) IS NULL", (name,)).fetchone() == (True,):
                source.execute(statement.encode())
        source.execute("ALTER TYPE mood ADD VALUE IF NOT EXISTS 'worn'")


def test_values_are_exact_or_dead_letters(stack: Stack) -> None:
    _make_types(stack)
    columns = ", ".join(f"{name} {kind}" for name, (kind, _) in VALUES.items())
    stack.sql(f"CREATE TABLE exact (id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, {columns})")
    with stack.source() as source:
        for name, (_, values) in VALUES.items():
            for value in values:
                source.execute(f"INSERT INTO exact ({name}) VALUES (%s)".encode(), (value,))
    report = stack.assert_equal("exact")["tables"][0]
    assert (report["not_compared"], report["columns_compared"]) == ({}, 1 + len(VALUES))
    with stack.source() as source:
        for name, value in BEYOND.items():
            source.execute(f"INSERT INTO exact ({name}) VALUES (%s)".encode(), (value,))
    stack.lakehouse("wait")
    letters = stack.lakehouse("dlq", "list", "--topic", "shop.public.exact")["letters"]
    assert sorted(letter["message"].rsplit(" ", 1)[1] for letter in letters) == sorted(BEYOND)
    shown = {column["name"]: column["doc"] for column in stack.lakehouse("table", "show", "exact")["columns"]}
    assert (shown["varying"], shown["flags"]) == ("not exact; lost: leading zeros", None)
    # The same rows, read again.
    stack.lakehouse("resync", "exact")
    again = stack.lakehouse("verify", "exact", ok=(1,))["tables"][0]
    assert (again["missing"], again["differing"], again["extra"]) == (len(BEYOND), 0, 0)
    stack.sql("DROP TABLE exact")


# What users set for everybody, and which texts depend on.
PRINTED_OTHERWISE = {"datestyle": "'SQL, DMY'", "intervalstyle": "sql_standard", "timezone": "'Asia/Kolkata'",
                     "extra_float_digits": "-10", "bytea_output": "escape", "xmloption": "document",
                     "search_path": "nowhere", "statement_timeout": "'50ms'",
                     "idle_in_transaction_session_timeout": "'50ms'",
                     "default_transaction_isolation": "serializable"}  # fmt: skip


@pytest.mark.slow
def test_a_value_has_one_form_whichever_way_it_came(stack: Stack) -> None:
    _make_types(stack)
    with stack.source() as source:
        for name, value in PRINTED_OTHERWISE.items():
            source.execute(f"ALTER DATABASE shop SET {name} = {value}".encode())
    restart = f"{stack.endpoints['connect_url']}/connectors/shop/restart?includeTasks=true"
    httpx.post(restart, timeout=60).raise_for_status()
    first = {name: (kind, values[0]) for name, (kind, values) in VALUES.items()}
    first |= {"single": ("real", "NaN"), "double_one": ("double precision", "-Infinity"),
              "ancient": ("date", "0044-03-15 BC"), "ancient_moment": ("timestamp", "0044-03-15 BC")}  # fmt: skip
    tables = {"told": TOLD, "formed": first.keys() - TOLD}
    with stack.source() as source:
        for table, names in tables.items():
            added = [
                sql.SQL("ADD {} {} DEFAULT {}").format(sql.Identifier(name), sql.SQL(kind), sql.Literal(value))
                for name, (kind, value) in first.items()
                if name in names
            ]
            source.execute(f"CREATE TABLE {table} (id int PRIMARY KEY)".encode())
            source.execute(f"INSERT INTO {table} VALUES (1)".encode())
            source.execute(sql.SQL("ALTER TABLE {} {}").format(sql.Identifier(table), sql.SQL(", ").join(added)))
    # Before any row says how it has them.
    wait_until(lambda: bool(stack.lakehouse("verify", *tables, ok=(0, 1))["equal"]))
    stack.sql(*(f"INSERT INTO {table} VALUES (2)" for table in tables))
    stack.assert_equal(*tables)
    for table in tables:
        rows = stack.catalog().load_table(f"shop.{table}").scan().to_arrow()
        values = [name for name in rows.column_names if name in first]
        with duckdb.connect() as connection:
            connection.register("rows", rows.select(values))
            assert connection.execute("SELECT count(*), count(DISTINCT rows) FROM rows").fetchone() == (2, 1)
    with stack.source() as source:
        asked = source.execute("SELECT DISTINCT table_name FROM lakehouse.rereads").fetchall()
        for name in PRINTED_OTHERWISE:
            source.execute(f"ALTER DATABASE shop RESET {name}".encode())
    assert {("formed",)} <= set(asked)
    assert ("told",) not in asked
    stack.sql("DROP TABLE told, formed")


def test_what_the_lake_cannot_hold_is_a_dead_letter_in_older_rows_too(stack: Stack) -> None:
    for name in ("whole", "day", "moment", "zoned"):
        kind, value = VALUES[name][0], "NaN" if name == "whole" else "infinity"
        stack.sql(f"CREATE TABLE beyond_{name} (id int PRIMARY KEY)", f"INSERT INTO beyond_{name} VALUES (1)",
                  f"ALTER TABLE beyond_{name} ADD v {kind} DEFAULT '{value}'",
                  f"INSERT INTO beyond_{name} VALUES (2)")  # fmt: skip
    for name in ("whole", "day", "moment", "zoned"):

        def is_told(key: str, topic: str = f"shop.public.beyond_{name}") -> bool:
            letters = stack.lakehouse("dlq", "list", "--topic", topic, "--key", key)["letters"]
            return any(letter["message"].endswith("can hold: v") for letter in letters)

        wait_until(lambda is_told=is_told: is_told("1") and is_told("2"))
        stack.sql(f"DROP TABLE beyond_{name}")


def test_a_column_that_cannot_be_held_is_left_out(stack: Stack) -> None:
    # The connector goes by the name, and makes records of such a type's values.
    stack.sql("CREATE TYPE geometry AS (x int)", "CREATE TABLE placed (id int PRIMARY KEY, shape geometry, note text)",
              "INSERT INTO placed VALUES (1, NULL, 'a')", "UPDATE placed SET note = 'b'")  # fmt: skip
    assert stack.assert_equal("placed")["tables"][0]["not_compared"].keys() == {"shape"}
    assert "without shape (geometry), which the lake has no type for" in stack.status()
    stack.sql("DROP TABLE placed", "DROP TYPE geometry")


def test_a_table_without_columns_is_read_once_it_has_one(stack: Stack) -> None:
    stack.sql("CREATE TABLE bare ()", "INSERT INTO bare DEFAULT VALUES", "INSERT INTO bare DEFAULT VALUES")
    wait_until(lambda: "it has no columns" in stack.status(), 120)
    # Nobody waits for it, and the others go on.
    stack.sql("CREATE TABLE beside_bare (id int PRIMARY KEY)", "INSERT INTO beside_bare VALUES (1)")
    stack.assert_equal("beside_bare")
    stack.sql("ALTER TABLE bare ADD COLUMN id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY",
              "INSERT INTO bare DEFAULT VALUES", "DELETE FROM bare WHERE id = 1")  # fmt: skip
    # Until capture has noticed, the table is in no topic.
    wait_until(lambda: bool(stack.lakehouse("verify", "bare", ok=(0, 1, 2)).get("equal")))
    assert "it has no columns" not in stack.status()
    stack.assert_equal("bare")
    stack.sql("DROP TABLE bare, beside_bare")


KEYS = {
    "date": ["0001-01-01", "2026-03-29", "20000-01-01"],
    "timestamptz": ["0001-01-01 00:00Z", "2026-03-29 02:30:00.123456+01", "12000-01-01 00:00Z"],
    "numeric(30,2)": ["-0.01", "1234567890123456789012345678.90", "0"],
    "float8": ["-0", "0.1", "-Infinity"],
    "boolean": ["true", "false"],
    "bytea": ["\\x00", "\\xff", ""],
    "text[]": ["{a,b}", "{}", '{""}'],
    "uuid": ["00000000-0000-0000-0000-000000000001", "ffffffff-ffff-ffff-ffff-ffffffffffff"],
    "inet": ["10.0.0.1/8", "::1"],
}  # fmt: skip


def test_keys_of_every_kind(stack: Stack) -> None:
    tables = {f"by_{number}": (kind, values) for number, (kind, values) in enumerate(KEYS.items())}
    with stack.source() as source:
        for table, (kind, values) in tables.items():
            source.execute(f"CREATE TABLE {table} (k {kind}, n int, note text, PRIMARY KEY (k, n))".encode())
            for value in values:
                rows = f"INSERT INTO {table} SELECT %s::{kind}, g, 'a' FROM generate_series(1, 3) g"
                source.execute(rows.encode(), (value,))
        stack.lakehouse("wait")
        for table in tables:
            source.execute(f"UPDATE {table} SET note = 'b' WHERE n < 3".encode())
            source.execute(f"DELETE FROM {table} WHERE n = 1".encode())
    stack.assert_equal(*tables)
    stack.sql("DROP TABLE " + ", ".join(tables))


@pytest.mark.slow
def test_what_the_connector_loses_is_shown(stack: Stack) -> None:
    stack.sql(
        "CREATE TABLE lossy (id int PRIMARY KEY, bits varbit, clock timetz, nested int[], spell interval)",
        "INSERT INTO lossy VALUES (1, '0011', NULL, '{1}', NULL), (2, '1', NULL, '{{1,2},{3,4}}', NULL),"
        " (3, NULL, '12:00+02', NULL, '1 day')",
    )
    stack.lakehouse("wait")
    report = stack.lakehouse("verify", "lossy", ok=(1,))["tables"][0]
    assert {next(iter(example["values"])) for example in report["examples"]} == {"bits", "(beyond the lake's type)"}
    assert report["not_compared"] == {}
    docs = {column["name"]: column["doc"] for column in stack.lakehouse("table", "show", "lossy")["columns"]}
    assert "the offset" in docs["clock"]
    assert "more than one dimension" in docs["nested"]
    stack.sql("DROP TABLE lossy")


def test_partitions_and_inheritance(stack: Stack) -> None:
    stack.sql(
        "CREATE TABLE parted (id int, part int, note text, PRIMARY KEY (id, part)) PARTITION BY LIST (part)",
        *(f"CREATE TABLE parted_{n} PARTITION OF parted FOR VALUES IN ({n})" for n in (1, 2)),
        "CREATE TABLE parted_3 (id int, part int, note text, PRIMARY KEY (id, part))",
        "INSERT INTO parted SELECT g, 1 + g % 2, 'a' FROM generate_series(1, 20) g",
        "INSERT INTO parted_3 VALUES (100, 3, 'older than its partition')",
        "UPDATE parted SET part = 2, note = 'moved' WHERE id = 2",
        "CREATE TABLE loose (id int, note text) PARTITION BY RANGE (id)",
        "CREATE TABLE loose_1 PARTITION OF loose FOR VALUES FROM (0) TO (100)",
        "INSERT INTO loose VALUES (1, 'a'), (1, 'a'), (2, 'b')",
        "CREATE TABLE parent (id int PRIMARY KEY, note text)",
        "CREATE TABLE child (more text, PRIMARY KEY (id)) INHERITS (parent)",
        "INSERT INTO parent VALUES (1, 'parent')",
        "INSERT INTO child VALUES (2, 'child', 'more')",
        "UPDATE parent SET note = note || '!'",
        "ALTER TABLE parted ATTACH PARTITION parted_3 FOR VALUES IN (3)",
        "INSERT INTO parted VALUES (101, 3, 'newer')",
    )
    wait_until(lambda: bool(stack.lakehouse("verify", "parted", ok=(0, 1))["equal"]))
    report = stack.assert_equal("parted", "loose", "parent", "child")
    assert {t["table"]: t["rows_lake"] for t in report["tables"]} == {
        "public.parted": 22, "public.loose": 3, "public.parent": 1, "public.child": 1,
    }  # fmt: skip
    # Nor does an event tell that a partition was emptied by itself.
    stack.sql("TRUNCATE parted_1", "INSERT INTO parted VALUES (102, 1, 'after it')")
    wait_until(lambda: bool(stack.lakehouse("verify", "parted", ok=(0, 1))["equal"]))
    # A connector that is registered now is told not to read the partitions.
    stack.make("kill", "s=capture")
    connector = f"{stack.endpoints['connect_url']}/connectors/shop/config"
    wait_until(lambda: "parted_2" in httpx.get(connector, timeout=60).json().get("table.exclude.list", ""))
    stack.sql("ALTER TABLE parted DETACH PARTITION parted_2", "UPDATE parted_2 SET note = 'alone' WHERE id = 2")
    # Until capture has noticed, the table is in no topic.
    wait_until(lambda: bool(stack.lakehouse("verify", "parted_2", ok=(0, 1, 2)).get("equal")))
    # Nothing in the log tells that these rows have left the parent; the catalog does.
    wait_until(lambda: bool(stack.lakehouse("verify", "parted", ok=(0, 1))["equal"]))
    stack.sql("DROP TABLE parted, loose, child, parent, parted_2")


def test_a_renamed_table_is_mirrored_under_its_new_name(stack: Stack) -> None:
    stack.sql("CREATE TABLE before (id int PRIMARY KEY, note text)",
              "INSERT INTO before SELECT g, 'a' FROM generate_series(1, 50) g")  # fmt: skip
    stack.assert_equal("before")
    stack.sql("ALTER TABLE before RENAME TO after", "UPDATE after SET note = 'b' WHERE id < 10",
              "CREATE TABLE before (id int PRIMARY KEY)", "INSERT INTO before VALUES (7)")  # fmt: skip
    wait_until(lambda: bool(stack.lakehouse("verify", "before", "after", ok=(0, 1))["equal"]))
    report = stack.assert_equal("before", "after")
    assert [table["rows_lake"] for table in report["tables"]] == [50, 1]
    stack.sql("DROP TABLE before, after")
    stack.lakehouse("wait")
    assert {"lake.shop.before", "lake.shop.after"} <= set(stack.lakehouse("verify", ok=(0, 1))["only_in_lake"])


def test_values_that_must_be_there_are_not_in_the_row_before_a_change(stack: Stack) -> None:
    """The log has the key only, and events need something in their place."""
    stack.sql(
        "CREATE TABLE required (id int PRIMARY KEY, day date NOT NULL, days date[] NOT NULL, place point NOT NULL)",
        "INSERT INTO required VALUES (1, '2026-05-01', '{1582-10-10}', '(1,2)'), (2, '2026-05-02', '{}', '(0,0)')",
        "UPDATE required SET id = 3 WHERE id = 1",
        "DELETE FROM required WHERE id = 2",
    )
    stack.assert_equal("required")


def test_a_row_of_many_megabytes(stack: Stack) -> None:
    big = "(SELECT string_agg(md5(i::text), '') FROM generate_series(1, 640000) i)"
    stack.sql(
        "CREATE TABLE heavy (id int PRIMARY KEY, note text, doc jsonb)",
        f"INSERT INTO heavy VALUES (1, 'a', to_jsonb({big})), (2, 'b', '1')",
        "UPDATE heavy SET note = 'the document stays' WHERE id = 1",
    )
    stack.assert_equal("heavy")
    stack.sql("DROP TABLE heavy")


@pytest.mark.slow
def test_a_forged_log_position_is_named_and_a_resync_repairs_it(stack: Stack) -> None:
    stack.sql("CREATE TABLE forged (id int PRIMARY KEY, note text)", "INSERT INTO forged VALUES (1, 'a')")
    stack.assert_equal("forged")
    consumer = Consumer({"bootstrap.servers": stack.endpoints["kafka_bootstrap"], "group.id": "forger",
                         "auto.offset.reset": "earliest"})  # fmt: skip
    consumer.subscribe(["shop.public.forged"])
    (record,) = consumer.consume(1, 60)
    consumer.close()
    value = record.value() or b""
    event, schema = Decoder(stack.endpoints["schema_registry_url"]).decode(value)
    event["source"]["lsn"] = 1 << 60
    body = BytesIO()
    fastavro.schemaless_writer(body, fastavro.parse_schema(schema), event)
    forged = value[:5] + body.getvalue()
    stack.produce("forged", forged, key=bytes(record.key() or b""), partition=record.partition() or 0)
    stack.lakehouse("wait")
    stack.sql("UPDATE forged SET note = 'b'")
    stack.lakehouse("wait")
    report = stack.lakehouse("verify", "forged", ok=(1,))["tables"][0]
    assert "1 rows come from records with a log position that the source hasn't reached" in report["problems"][0]
    assert [each["cause"] for each in report["explanation"]] == ["unexplained"]
    stack.lakehouse("resync", "forged")
    stack.sql("UPDATE forged SET note = 'c'")
    stack.lakehouse("wait")
    # Not assert_equal, to which the way back from the forged position is a step back.
    assert stack.lakehouse("verify", "forged")["equal"]
    stack.sql("DROP TABLE forged")
