-- What capture needs in a source database. Repeatable: run it again after a change of settings; nothing is lost.
-- Run by an administrator in the source database (`python -m services.capture sql` prints it, filled in, to run by hand).
--
-- The words in $-braces are filled in by capture.py: quoted names, and the same names as quoted literals. The password may be
-- its SCRAM verifier. The schemas are comma-separated, and `lakehouse` is one of them.
--
-- On a managed database whose administrator is no superuser, FOR TABLES IN SCHEMA and CREATE EVENT TRIGGER may be
-- refused. Then publish tables by name (CREATE PUBLICATION … FOR TABLE …), grant SELECT on them, and give each table
-- without a primary key REPLICA IDENTITY FULL *before* it is published: PostgreSQL refuses updates and deletes of a
-- published table that has no replica identity.

-- Waiting for a lock holds up everyone who comes after: rather give up and be tried again.
SET lock_timeout = '5s';
SET client_min_messages = warning;

BEGIN;

-- Two captures that start together take turns.
SELECT pg_advisory_xact_lock(hashtext('lakehouse.capture'));

-- The role that Debezium logs in with: it reads the captured schemas and the log, and writes only the heartbeat and signals.
DO $lakehouse$
BEGIN
  IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = ${role_literal}) THEN
    CREATE ROLE ${role};
  END IF;
END
$lakehouse$;
ALTER ROLE ${role} LOGIN REPLICATION NOSUPERUSER NOCREATEDB NOCREATEROLE PASSWORD ${password};

-- Row-level security would hide rows from the snapshot, though not from the log: fail rather than miss rows silently.
ALTER ROLE ${role} SET row_security = off;
DO $lakehouse$
BEGIN
  ALTER ROLE ${role} BYPASSRLS;
EXCEPTION WHEN insufficient_privilege THEN
  NULL;
END
$lakehouse$;
DO $lakehouse$
BEGIN
  EXECUTE format('GRANT CONNECT ON DATABASE %I TO %I', current_database(), ${role_literal});
END
$lakehouse$;

-- Capture's own tables. The heartbeat is one row whose update moves the slot on while the captured tables rest, and by
-- which `lakehouse wait` marks a position. A row inserted into `signal` starts an incremental snapshot.
CREATE SCHEMA IF NOT EXISTS lakehouse;
CREATE TABLE IF NOT EXISTS lakehouse.heartbeat (
  id smallint PRIMARY KEY DEFAULT 1 CHECK (id = 1),
  beat_at timestamptz NOT NULL DEFAULT clock_timestamp()
) WITH (fillfactor = 50);
-- What capture left here last, by which it knows the source again (a restored one doesn't know it).
ALTER TABLE lakehouse.heartbeat ADD COLUMN IF NOT EXISTS mark uuid, ADD COLUMN IF NOT EXISTS mark_before uuid;
INSERT INTO lakehouse.heartbeat DEFAULT VALUES ON CONFLICT DO NOTHING;
CREATE TABLE IF NOT EXISTS lakehouse.signal (
  id varchar(42) PRIMARY KEY,
  type varchar(32) NOT NULL,
  data varchar(2048)
);

-- The history of the captured tables' columns, a row a change, in the transaction of the change. The mirror reads it
-- beside the rows, because their events don't say enough: attnum tells a rename from a drop and an add, and `missing`
-- is what rows from before a column show in it. `reread`: values of older rows are new, and no event tells them.
CREATE TABLE IF NOT EXISTS lakehouse.schema_changes (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  changed_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  lsn bigint NOT NULL,
  relation bigint NOT NULL,
  filenode bigint,
  schema_name text NOT NULL,
  table_name text NOT NULL,
  key_columns text NOT NULL,
  columns text NOT NULL,
  reread boolean NOT NULL
);

GRANT USAGE ON SCHEMA ${schemas} TO ${role};
GRANT SELECT ON ALL TABLES IN SCHEMA ${schemas} TO ${role};
GRANT UPDATE ON lakehouse.heartbeat TO ${role};
GRANT INSERT ON lakehouse.signal TO ${role};

-- Who works with the source may see these tables, mark a position and ask for a snapshot.
GRANT USAGE ON SCHEMA lakehouse TO ${owner};
GRANT SELECT ON ALL TABLES IN SCHEMA lakehouse TO ${owner};
GRANT UPDATE ON lakehouse.heartbeat TO ${owner};
GRANT INSERT ON lakehouse.signal TO ${owner};

-- The publication. Its schemas are the one list of what is captured; the functions below read it from there.
-- Partitions are published as their partitioned table.
DO $lakehouse$
DECLARE
  wanted text[] := ARRAY[${schema_literals}];
  published text[];
BEGIN
  IF NOT EXISTS (SELECT FROM pg_publication WHERE pubname = ${publication_literal}) THEN
    CREATE PUBLICATION ${publication} FOR TABLES IN SCHEMA ${schemas}
      WITH (publish = 'insert, update, delete, truncate', publish_via_partition_root = true);
  END IF;
  SELECT array_agg(n.nspname::text) INTO published
    FROM pg_publication p JOIN pg_publication_namespace pn ON pn.pnpubid = p.oid JOIN pg_namespace n ON n.oid = pn.pnnspid
    WHERE p.pubname = ${publication_literal};
  -- Setting what is set already would make every session plan anew.
  IF NOT (published @> wanted AND published <@ wanted) THEN
    ALTER PUBLICATION ${publication} SET TABLES IN SCHEMA ${schemas};
  END IF;
END
$lakehouse$;

-- Published tables that aren't safe yet: PostgreSQL would refuse their updates, or an update would hide a value from
-- capture, or the role can't read them in a snapshot. What can't be published is none of these: unlogged, temporary and
-- foreign tables, views.
--
-- A usable identity is FULL, or a primary key or chosen index that is valid and not deferrable; the chosen index only if
-- it is the one by which Debezium keys the events, for a delete tells no other columns. FULL it has to be where
-- a long value that an update leaves alone would reach the events as null, which can't be told from a real null: Debezium
-- (3.6) marks an absent value only for the types named here. Numbers of at most 38 digits and
-- addresses are never stored apart from their row (they are shorter than a pointer to such a value).
DROP VIEW IF EXISTS lakehouse.unprepared;
CREATE VIEW lakehouse.unprepared AS
SELECT c.oid AS relation, n.nspname AS schema_name, c.relname AS table_name,
       CASE WHEN hidden.value OR NOT keys.primary_usable OR c.relreplident = 'i' THEN 'FULL' ELSE 'DEFAULT' END AS identity,
       NOT (c.relreplident = 'f'
            OR NOT hidden.value AND (c.relreplident = 'd' AND keys.primary_usable OR c.relreplident = 'i' AND keys.chosen_usable))
         AS without_identity,
       NOT has_table_privilege(${role_literal}, c.oid, 'SELECT') AS unreadable
FROM pg_publication p
JOIN pg_publication_namespace pn ON pn.pnpubid = p.oid
JOIN pg_namespace n ON n.oid = pn.pnnspid
JOIN pg_class c ON c.relnamespace = n.oid AND c.relkind IN ('r', 'p') AND c.relpersistence = 'p'
CROSS JOIN LATERAL (
  SELECT coalesce(bool_or(x.indisprimary), false) AS primary_usable,
         coalesce(bool_or(x.indisreplident AND x.indexrelid = (
           SELECT i.indexrelid FROM pg_index i JOIN pg_class named ON named.oid = i.indexrelid
           WHERE i.indrelid = c.oid AND i.indisunique AND i.indexprs IS NULL ORDER BY i.indisprimary DESC, named.relname LIMIT 1
         )), false) AS chosen_usable
  FROM pg_index x WHERE x.indrelid = c.oid AND x.indisvalid AND x.indimmediate
) keys
CROSS JOIN LATERAL (
  SELECT EXISTS (
    SELECT FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid
    WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped AND a.attgenerated = ''
      AND a.attlen = -1 AND a.attstorage <> 'p'
      AND t.typname NOT IN ('text', 'varchar', 'bpchar', 'json', 'jsonb', 'xml', 'citext', 'tsvector', 'bytea', 'inet', 'cidr',
                            '_text', '_varchar', '_bpchar', '_json', '_jsonb', '_bytea', '_int4', '_int8', '_date')
      AND NOT (t.typname = 'numeric' AND a.atttypmod >= 4 AND (a.atttypmod - 4) >> 16 <= 38)
      AND NOT (t.typname IN ('bit', 'varbit') AND a.atttypmod BETWEEN 1 AND 128)
  ) AS value
) hidden
WHERE p.pubname = ${publication_literal};

-- Makes every table of the captured schemas safe to publish and readable, and says how many it changed.
CREATE OR REPLACE FUNCTION lakehouse.prepare_tables() RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $function$
DECLARE
  found record;
  changed integer := 0;
BEGIN
  FOR found IN SELECT * FROM lakehouse.unprepared u WHERE u.without_identity OR u.unreadable LOOP
    IF found.unreadable THEN
      EXECUTE format('GRANT SELECT ON TABLE %I.%I TO %I', found.schema_name, found.table_name, ${role_literal});
    END IF;
    IF found.without_identity THEN
      EXECUTE format('ALTER TABLE %I.%I REPLICA IDENTITY %s', found.schema_name, found.table_name, found.identity);
    END IF;
    changed := changed + 1;
  END LOOP;
  RETURN changed;
END
$function$;
REVOKE ALL ON FUNCTION lakehouse.prepare_tables() FROM PUBLIC;

-- The columns and keys of the captured tables as they are now. Partitions are told by their partitioned table.
CREATE OR REPLACE VIEW lakehouse.current_schemas AS
SELECT c.oid::bigint AS relation, pg_relation_filenode(c.oid)::bigint AS filenode, n.nspname::text AS schema_name,
       c.relname::text AS table_name,
       coalesce((SELECT jsonb_agg(a.attname ORDER BY array_position(i.indkey::int2[], a.attnum))
                 FROM pg_index i JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = ANY (i.indkey)
                 WHERE i.indrelid = c.oid AND i.indisprimary), '[]')::text AS key_columns,
       (SELECT coalesce(jsonb_agg(jsonb_build_object(
          'attnum', a.attnum, 'name', a.attname, 'type', CASE WHEN t.typtype = 'e' THEN 'enum' ELSE t.typname END,
          'typmod', a.atttypmod, 'declared', format_type(a.atttypid, a.atttypmod), 'not_null', a.attnotnull,
          'generated', a.attgenerated <> '', 'default', pg_get_expr(d.adbin, d.adrelid),
          'missing', CASE WHEN a.atthasmissing THEN (a.attmissingval::text::text[])[1] END
        ) ORDER BY a.attnum), '[]')
        FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid
        LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
        WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped)::text AS columns
FROM pg_publication p
JOIN pg_publication_namespace pn ON pn.pnpubid = p.oid
JOIN pg_namespace n ON n.oid = pn.pnnspid AND n.nspname <> 'lakehouse'
JOIN pg_class c ON c.relnamespace = n.oid AND c.relkind IN ('r', 'p') AND c.relpersistence = 'p' AND NOT c.relispartition
WHERE p.pubname = ${publication_literal};

-- A table as a signal names it: by its name, which Debezium also finds in the source where it hasn't met the table yet;
-- only where that isn't a regular expression of itself, by one that is.
CREATE OR REPLACE FUNCTION lakehouse.only(schema_name text, table_name text) RETURNS text
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $function$
  SELECT CASE WHEN schema_name || table_name ~ '^[[:alnum:]_ ]+$' THEN schema_name || '.' || table_name
              ELSE regexp_replace(schema_name || '.' || table_name, '([^[:alnum:]_])', '\\\1', 'g') END
$function$;

-- Asks for the rows that a table has, read beside the stream of changes.
CREATE OR REPLACE FUNCTION lakehouse.ask_for_rows(schema_name text, table_name text) RETURNS void
LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $function$
  INSERT INTO lakehouse.signal (id, type, data)
  VALUES (gen_random_uuid()::text, 'execute-snapshot', jsonb_build_object('type', 'incremental', 'data-collections',
    jsonb_build_array(lakehouse.only(schema_name, table_name)))::text)
$function$;
REVOKE ALL ON FUNCTION lakehouse.ask_for_rows(text, text) FROM PUBLIC;

-- Writes down what has changed of the captured tables' columns and keys, and says of how many tables. Where a change
-- gave older rows new values (a type rewritten, a default that each row computes for itself), asks for their snapshot.
-- `by_ddl`: a statement has just been run, so that a table that is new to capture is so by that statement; the rows that
-- it brought along (it was renamed, or was a partition, or had another schema) are asked for as well.
DROP FUNCTION IF EXISTS lakehouse.log_schemas();
CREATE OR REPLACE FUNCTION lakehouse.log_schemas(by_ddl boolean DEFAULT false) RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
SET datestyle = 'ISO, YMD' SET timezone = 'UTC' SET bytea_output = 'hex' SET extra_float_digits = 1 AS $function$
DECLARE
  now_is record;
  was record;
  again boolean;
  moved boolean;
  has_rows boolean;
  changed integer := 0;
BEGIN
  FOR now_is IN SELECT * FROM lakehouse.current_schemas LOOP
    SELECT * INTO was FROM lakehouse.schema_changes s WHERE s.relation = now_is.relation ORDER BY s.id DESC LIMIT 1;
    CONTINUE WHEN was.columns = now_is.columns AND was.key_columns = now_is.key_columns
      AND was.schema_name = now_is.schema_name AND was.table_name = now_is.table_name;
    again := was.relation IS NOT NULL AND (
      SELECT coalesce(bool_or(
        CASE WHEN o.c IS NULL THEN
          n.c ->> 'missing' IS NULL AND n.c ->> 'default' IS NOT NULL AND was.filenode IS DISTINCT FROM now_is.filenode
          OR n.c ->> 'missing' IS NOT NULL AND (n.c ->> 'type' LIKE '\_%' OR n.c ->> 'type' = 'bytea')
        ELSE
          was.filenode IS DISTINCT FROM now_is.filenode
          AND (o.c -> 'type', o.c -> 'typmod') IS DISTINCT FROM (n.c -> 'type', n.c -> 'typmod')
          AND (o.c ->> 'type') || '>' || (n.c ->> 'type')
              NOT IN ('int2>int4', 'int2>int8', 'int4>int8', 'float4>float8', 'varchar>varchar', 'varchar>text')
        END), false)
      FROM jsonb_array_elements(now_is.columns::jsonb) AS n(c)
      LEFT JOIN jsonb_array_elements(was.columns::jsonb) AS o(c) ON o.c -> 'attnum' = n.c -> 'attnum'
      WHERE NOT (n.c ->> 'generated')::boolean
    );
    moved := (was.schema_name, was.table_name) IS DISTINCT FROM (now_is.schema_name, now_is.table_name);
    IF moved AND was.columns <> '[]' THEN
      -- The name is free: another table may take it.
      INSERT INTO lakehouse.schema_changes (lsn, relation, schema_name, table_name, key_columns, columns, reread)
      VALUES ((pg_current_wal_insert_lsn() - '0/0')::bigint, was.relation, was.schema_name, was.table_name, '[]', '[]', false);
    END IF;
    has_rows := false;
    IF by_ddl AND (moved OR was.columns = '[]') THEN
      EXECUTE format('SELECT EXISTS (SELECT FROM %I.%I)', now_is.schema_name, now_is.table_name) INTO has_rows;
    END IF;
    INSERT INTO lakehouse.schema_changes
      (lsn, relation, filenode, schema_name, table_name, key_columns, columns, reread)
    VALUES ((pg_current_wal_insert_lsn() - '0/0')::bigint, now_is.relation, now_is.filenode, now_is.schema_name,
            now_is.table_name, now_is.key_columns, now_is.columns, again);
    IF (again OR has_rows) AND now_is.key_columns <> '[]' THEN
      PERFORM lakehouse.ask_for_rows(now_is.schema_name, now_is.table_name);
    END IF;
    changed := changed + 1;
  END LOOP;
  -- A table that is gone has no columns: another one may take its name, and none of its rows.
  FOR was IN SELECT DISTINCT ON (s.relation) s.* FROM lakehouse.schema_changes s ORDER BY s.relation, s.id DESC LOOP
    CONTINUE WHEN was.columns = '[]' OR EXISTS (SELECT FROM lakehouse.current_schemas c WHERE c.relation = was.relation);
    INSERT INTO lakehouse.schema_changes (lsn, relation, schema_name, table_name, key_columns, columns, reread)
    VALUES ((pg_current_wal_insert_lsn() - '0/0')::bigint, was.relation, was.schema_name, was.table_name, '[]', '[]', false);
    -- A table that became a partition brings its rows along.
    PERFORM lakehouse.ask_for_rows(s.schema_name, s.table_name) FROM pg_class c, lakehouse.current_schemas s
      WHERE c.oid = was.relation AND c.relispartition AND s.relation = pg_partition_root(c.oid) AND s.key_columns <> '[]';
    changed := changed + 1;
  END LOOP;
  RETURN changed;
END
$function$;
REVOKE ALL ON FUNCTION lakehouse.log_schemas(boolean) FROM PUBLIC;

-- Refuses what would end capture of every table for good: Debezium (3.7) stops at the mere mention in the log of a table
-- with columns whose names differ only by case, whether it is to read the table or not.
CREATE OR REPLACE FUNCTION lakehouse.refuse_unreadable() RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $function$
DECLARE
  twins record;
BEGIN
  SELECT s.schema_name, s.table_name, string_agg(quote_ident(c ->> 'name'), ' and ') AS names INTO twins
    FROM lakehouse.current_schemas s, jsonb_array_elements(s.columns::jsonb) c
    GROUP BY s.schema_name, s.table_name, lower(c ->> 'name') HAVING count(*) > 1 LIMIT 1;
  IF FOUND THEN
    RAISE EXCEPTION 'the columns % of %.% differ only by case, and the lakehouse''s connector can''t read such a table',
      twins.names, quote_ident(twins.schema_name), quote_ident(twins.table_name)
      USING HINT = 'Rename one of them, or keep the table in a schema that isn''t captured.';
  END IF;
END
$function$;
REVOKE ALL ON FUNCTION lakehouse.refuse_unreadable() FROM PUBLIC;

-- In the transaction that makes a table, or takes its key away, so that there is no moment in which it can't be updated.
-- What it does fires it again; by then there is nothing left to do. A table of one session only needs no look.
CREATE OR REPLACE FUNCTION lakehouse.on_ddl() RETURNS event_trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $function$
BEGIN
  IF TG_TAG LIKE 'DROP%' OR EXISTS (
    SELECT FROM pg_event_trigger_ddl_commands() d WHERE d.schema_name IS DISTINCT FROM 'pg_temp'
  ) THEN
    PERFORM lakehouse.refuse_unreadable();
    PERFORM lakehouse.prepare_tables();
    PERFORM lakehouse.log_schemas(by_ddl => true);
  END IF;
END
$function$;
REVOKE ALL ON FUNCTION lakehouse.on_ddl() FROM PUBLIC;

DROP EVENT TRIGGER IF EXISTS lakehouse_capture;
CREATE EVENT TRIGGER lakehouse_capture ON ddl_command_end
  WHEN TAG IN ('CREATE TABLE', 'CREATE TABLE AS', 'SELECT INTO', 'ALTER TABLE', 'CREATE SCHEMA', 'CREATE EXTENSION',
               'ALTER EXTENSION', 'DROP INDEX', 'DROP TABLE', 'DROP TYPE', 'DROP DOMAIN', 'DROP EXTENSION', 'DROP OWNED')
  EXECUTE FUNCTION lakehouse.on_ddl();

-- The tables that are there already, before the publication shows them to anyone.
SELECT lakehouse.refuse_unreadable();
SELECT lakehouse.prepare_tables();
SELECT lakehouse.log_schemas();

COMMIT;
