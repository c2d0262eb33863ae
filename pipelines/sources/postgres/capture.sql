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
INSERT INTO lakehouse.heartbeat DEFAULT VALUES ON CONFLICT DO NOTHING;
CREATE TABLE IF NOT EXISTS lakehouse.signal (
  id varchar(42) PRIMARY KEY,
  type varchar(32) NOT NULL,
  data varchar(2048)
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
-- A usable identity is FULL, or a primary key or chosen index that is valid and not deferrable. FULL it has to be where
-- a long value that an update leaves alone would reach the events as null, which can't be told from a real null: Debezium
-- (3.6) marks an absent value only for the types named here. Numbers of at most 38 digits and
-- addresses are never stored apart from their row (they are shorter than a pointer to such a value).
DROP VIEW IF EXISTS lakehouse.unprepared;
CREATE VIEW lakehouse.unprepared AS
SELECT c.oid AS relation, n.nspname AS schema_name, c.relname AS table_name,
       CASE WHEN hidden.value OR NOT keys.primary_usable THEN 'FULL' ELSE 'DEFAULT' END AS identity,
       NOT (c.relreplident = 'f'
            OR NOT hidden.value AND (c.relreplident = 'd' AND keys.primary_usable OR c.relreplident = 'i' AND keys.chosen_usable))
         AS without_identity,
       NOT has_table_privilege(${role_literal}, c.oid, 'SELECT') AS unreadable
FROM pg_publication p
JOIN pg_publication_namespace pn ON pn.pnpubid = p.oid
JOIN pg_namespace n ON n.oid = pn.pnnspid
JOIN pg_class c ON c.relnamespace = n.oid AND c.relkind IN ('r', 'p') AND c.relpersistence = 'p'
CROSS JOIN LATERAL (
  SELECT coalesce(bool_or(x.indisprimary), false) AS primary_usable, coalesce(bool_or(x.indisreplident), false) AS chosen_usable
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

-- In the transaction that makes a table, or takes its key away, so that there is no moment in which it can't be updated.
-- What it does fires it again; by then there is nothing left to do. A table of one session only needs no look.
CREATE OR REPLACE FUNCTION lakehouse.on_ddl() RETURNS event_trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $function$
BEGIN
  IF TG_TAG LIKE 'DROP%' OR EXISTS (
    SELECT FROM pg_event_trigger_ddl_commands() d WHERE d.schema_name IS DISTINCT FROM 'pg_temp'
  ) THEN
    PERFORM lakehouse.prepare_tables();
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
SELECT lakehouse.prepare_tables();

COMMIT;
