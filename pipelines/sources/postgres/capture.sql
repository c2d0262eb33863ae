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

${give_way}
SET client_min_messages = warning;

BEGIN;

DROP EVENT TRIGGER IF EXISTS lakehouse_capture;
DROP EVENT TRIGGER IF EXISTS lakehouse_rewrite;

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

-- What it reads is text, whose form settings decide, and what it does takes its time: it has its own, whatever the
-- database's are (ALTER DATABASE … SET).
ALTER ROLE ${role} SET bytea_output = 'hex';
ALTER ROLE ${role} SET datestyle = 'ISO, MDY';
ALTER ROLE ${role} SET intervalstyle = 'postgres';
ALTER ROLE ${role} SET timezone = 'UTC';
ALTER ROLE ${role} SET extra_float_digits = 1;
ALTER ROLE ${role} SET lc_monetary = 'C';
ALTER ROLE ${role} SET xmloption = 'content';
ALTER ROLE ${role} SET search_path = "$user", public;
ALTER ROLE ${role} SET statement_timeout = 0;
ALTER ROLE ${role} SET lock_timeout = 0;
ALTER ROLE ${role} SET idle_in_transaction_session_timeout = 0;
ALTER ROLE ${role} SET idle_session_timeout = 0;
ALTER ROLE ${role} SET default_transaction_isolation = 'read committed';
ALTER ROLE ${role} SET default_transaction_read_only = off;

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
  schema_name text NOT NULL,
  table_name text NOT NULL,
  key_columns text NOT NULL,
  columns text NOT NULL,
  reread boolean NOT NULL
);
ALTER TABLE lakehouse.schema_changes DROP COLUMN IF EXISTS filenode;
CREATE INDEX IF NOT EXISTS schema_changes_by_relation ON lakehouse.schema_changes (relation, id);

-- What else of each table was seen last that tells whether rows may read differently: its row of pg_class, the files of
-- its partitions, what its columns' types hold (an enum's labels, a composite's attributes). `rewritten`: within a
-- statement, that it has computed rows anew. The newest row of a table counts: a row that is updated would be waited for
-- by whoever changes what it is about.
CREATE TABLE IF NOT EXISTS lakehouse.seen (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  relation bigint NOT NULL,
  catalog_row text NOT NULL,
  storage jsonb NOT NULL,
  contents jsonb NOT NULL,
  rewritten boolean NOT NULL DEFAULT false
);
DO $lakehouse$
BEGIN
  -- An earlier release had one row of each table.
  IF NOT EXISTS (SELECT FROM pg_attribute WHERE attrelid = 'lakehouse.seen'::regclass AND attname = 'id') THEN
    ALTER TABLE lakehouse.seen DROP CONSTRAINT seen_pkey, ADD id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY;
  END IF;
END
$lakehouse$;
CREATE INDEX IF NOT EXISTS seen_by_relation ON lakehouse.seen (relation, id);

-- Tables whose rows changed, or may have, without events. `how`: `rows`, the connector was asked to read them again;
-- `table`, rows may be gone as well, or have no key, so that a resync is needed; `verify`, nobody knows.
CREATE TABLE IF NOT EXISTS lakehouse.rereads (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  asked_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  relation bigint NOT NULL,
  schema_name text NOT NULL,
  table_name text NOT NULL,
  how text NOT NULL CHECK (how IN ('verify', 'rows', 'table')),
  why text NOT NULL,
  done_at timestamptz,
  outcome text
);

-- What a person has excluded from capture: whole tables (no `column_name`), or columns.
CREATE TABLE IF NOT EXISTS lakehouse.exclusions (
  schema_name text NOT NULL,
  table_name text NOT NULL,
  column_name text NOT NULL DEFAULT '',
  because text NOT NULL,
  at timestamptz NOT NULL DEFAULT clock_timestamp(),
  PRIMARY KEY (schema_name, table_name, column_name)
);

GRANT USAGE ON SCHEMA ${schemas} TO ${role};
GRANT UPDATE ON lakehouse.heartbeat TO ${role};
GRANT INSERT ON lakehouse.signal TO ${role};

-- Who works with the source may see these tables, mark a position and ask for a snapshot.
GRANT USAGE ON SCHEMA lakehouse TO ${owner};
GRANT SELECT ON ALL TABLES IN SCHEMA lakehouse TO ${owner};
GRANT UPDATE ON lakehouse.heartbeat TO ${owner};
GRANT INSERT ON lakehouse.signal TO ${owner};
GRANT UPDATE (done_at, outcome) ON lakehouse.rereads TO ${owner};
GRANT INSERT, DELETE ON lakehouse.exclusions TO ${owner};

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

-- Whether an index's columns tell rows apart in events. Not where two rows may have one key for a moment (a deferrable
-- constraint: the delete of one row is then taken for the other's), and not where a column of it is generated, which is
-- in no event.
CREATE OR REPLACE FUNCTION lakehouse.tells_rows_apart(index oid) RETURNS boolean
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $function$
  SELECT i.indimmediate AND NOT EXISTS (
    SELECT FROM pg_attribute a WHERE a.attrelid = i.indrelid AND a.attnum = ANY (i.indkey) AND a.attgenerated <> '')
  FROM pg_index i WHERE i.indexrelid = index
$function$;

-- Published tables that aren't safe yet: PostgreSQL would refuse their updates, or an update would hide a value from
-- capture, or the role can't read them in a snapshot. What can't be published is none of these: unlogged, temporary and
-- foreign tables, views.
--
-- A usable identity is FULL, or a primary key or chosen index that is valid and tells rows apart; the chosen index only if
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
  FROM pg_index x WHERE x.indrelid = c.oid AND x.indisvalid AND lakehouse.tells_rows_apart(x.indexrelid)
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

-- The tables that this transaction has locked so that nobody else changes them, with those of their indexes and partitions.
CREATE OR REPLACE FUNCTION lakehouse.changed_here() RETURNS oid[]
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $function$
  SELECT ARRAY(
    SELECT DISTINCT named.relation
    FROM pg_locks l LEFT JOIN pg_index i ON i.indexrelid = l.relation
    CROSS JOIN LATERAL (VALUES (l.relation), (i.indrelid), (pg_partition_root(l.relation)::oid)) AS named(relation)
    WHERE l.pid = pg_backend_pid() AND l.locktype = 'relation' AND l.granted AND named.relation IS NOT NULL
      AND l.mode IN ('ShareUpdateExclusiveLock', 'ShareLock', 'ShareRowExclusiveLock', 'ExclusiveLock', 'AccessExclusiveLock'))
$function$;

-- Makes every table of the captured schemas, or only those, safe to publish and readable, and says how many it changed.
-- What is so already is left alone, since a grant that changes nothing still changes the table in the catalog. A table
-- that stays locked is left for the next time. The event trigger leaves its own statements alone.
DROP FUNCTION IF EXISTS lakehouse.prepare_tables();
CREATE OR REPLACE FUNCTION lakehouse.prepare_tables(only_these oid[] DEFAULT NULL) RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lakehouse.preparing = 'yes' AS $function$
DECLARE
  found record;
  changed integer := 0;
BEGIN
  FOR found IN
    SELECT * FROM lakehouse.unprepared u
    WHERE (u.without_identity OR u.unreadable) AND (only_these IS NULL OR u.relation = ANY (only_these))
  LOOP
    BEGIN
      IF found.unreadable THEN
        EXECUTE format('GRANT SELECT ON TABLE %I.%I TO %I', found.schema_name, found.table_name, ${role_literal});
      END IF;
      IF found.without_identity THEN
        EXECUTE format('ALTER TABLE %I.%I REPLICA IDENTITY %s', found.schema_name, found.table_name, found.identity);
      END IF;
      changed := changed + 1;
    EXCEPTION WHEN lock_not_available THEN
      NULL;
    END;
  END LOOP;
  RETURN changed;
END
$function$;
REVOKE ALL ON FUNCTION lakehouse.prepare_tables(oid[]) FROM PUBLIC;
