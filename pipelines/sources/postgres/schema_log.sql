-- The second part of capture.sql, in its transaction: what of the captured tables is written down when it changes, and
-- which of their rows are read again because of it.

-- What values of a type look like beyond its name, by object: the labels of enums, the attributes of composite types.
-- Whoever changes one changes what older rows read as. Types that come with PostgreSQL have nothing of the kind.
CREATE OR REPLACE FUNCTION lakehouse.type_contents(type oid) RETURNS jsonb
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $function$
DECLARE
  kind record;
  found jsonb := '{}';
  attribute record;
BEGIN
  IF type < 16384 THEN
    RETURN found;
  END IF;
  SELECT t.typtype, t.typrelid, t.typelem, t.typbasetype, r.rngsubtype INTO kind
    FROM pg_type t LEFT JOIN pg_range r ON t.oid IN (r.rngtypid, r.rngmultitypid) WHERE t.oid = type;
  IF kind.typtype = 'e' THEN
    SELECT coalesce(jsonb_object_agg('label ' || e.oid, e.enumlabel), '{}') INTO found FROM pg_enum e WHERE e.enumtypid = type;
  ELSIF kind.typtype = 'c' THEN
    FOR attribute IN SELECT a.atttypid FROM pg_attribute a WHERE a.attrelid = kind.typrelid AND a.attnum > 0 AND NOT a.attisdropped LOOP
      found := found || lakehouse.type_contents(attribute.atttypid);
    END LOOP;
    found := found || jsonb_build_object('attributes ' || type, (
      SELECT jsonb_agg(jsonb_build_array(a.attnum, format_type(a.atttypid, a.atttypmod)) ORDER BY a.attnum)
      FROM pg_attribute a WHERE a.attrelid = kind.typrelid AND a.attnum > 0 AND NOT a.attisdropped));
  ELSE
    found := lakehouse.type_contents(coalesce(nullif(kind.typelem, 0), nullif(kind.typbasetype, 0), kind.rngsubtype, 0));
  END IF;
  RETURN found;
END
$function$;

-- The type that a type's values are of, where its name doesn't say it: what a domain stands for, by way of others, or
-- `printed` for what the connector doesn't know and sends as PostgreSQL prints it (composite types, ranges of users'
-- own, types of extensions; `_printed`: arrays of them or of domains). Of some types it is their own name: an earlier
-- release didn't have their values.
CREATE OR REPLACE FUNCTION lakehouse.base_of(type oid) RETURNS text
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $function$
DECLARE
  known CONSTANT text[] := '{bool,char,name,int2,int4,int8,float4,float8,numeric,text,varchar,bpchar,bytea,oid,date,time,timetz,
    timestamp,timestamptz,interval,json,jsonb,xml,uuid,inet,cidr,macaddr,macaddr8,money,bit,varbit,tsvector,int2vector,oidvector,
    refcursor,int4range,int8range,numrange,daterange,tsrange,tstzrange,point,box,lseg,path,polygon,circle,line,citext,hstore,
    ltree,isbn,geometry,geography,vector,halfvec,sparsevec}';
  new CONSTANT text[] := '{point,box,lseg,path,polygon,circle,line,_point,_box,_lseg,_path,_polygon,_circle,_line,int2vector,
    oidvector,_money,_name,_interval,_bit,_varbit,_xml}';
  root pg_type;
  element pg_type;
BEGIN
  SELECT * INTO root FROM pg_type t WHERE t.oid = type;
  WHILE root.typtype = 'd' LOOP
    SELECT * INTO root FROM pg_type t WHERE t.oid = root.typbasetype;
  END LOOP;
  IF root.typcategory = 'A' AND root.typlen = -1 AND root.typname <> ALL (known) THEN
    SELECT * INTO element FROM pg_type t WHERE t.oid = root.typelem;
    RETURN CASE
      WHEN element.typtype = 'e' THEN CASE WHEN root.oid <> type THEN '_enum' END
      WHEN element.typtype = 'd' OR element.typname <> ALL (known) THEN '_printed'
      WHEN root.oid <> type OR root.typname = ANY (new) THEN root.typname END;
  END IF;
  RETURN CASE
    WHEN root.typtype = 'e' THEN CASE WHEN root.oid <> type THEN 'enum' END
    WHEN root.typname <> ALL (known) THEN 'printed'
    WHEN root.oid <> type OR root.typname = ANY (new) THEN root.typname END;
END
$function$;

DROP VIEW IF EXISTS lakehouse.compared;
DROP VIEW IF EXISTS lakehouse.current_schemas;
-- The columns of a table's primary key, as JSON. Or `null`, where that key, or without one the index that the connector
-- takes for it (the first unique one by name), doesn't tell rows apart: then whole rows do.
CREATE OR REPLACE FUNCTION lakehouse.key_of(relation oid) RETURNS text
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $function$
  SELECT coalesce((
    SELECT CASE WHEN NOT lakehouse.tells_rows_apart(i.indexrelid) THEN 'null' WHEN i.indisprimary THEN (
        SELECT jsonb_agg(a.attname ORDER BY array_position(i.indkey::int2[], a.attnum))::text
        FROM pg_attribute a WHERE a.attrelid = i.indrelid AND a.attnum = ANY (i.indkey)) END
    FROM pg_index i JOIN pg_class x ON x.oid = i.indexrelid
    WHERE i.indrelid = relation AND i.indisunique AND i.indexprs IS NULL
    ORDER BY i.indisprimary DESC, x.relname LIMIT 1
  ), '[]')
$function$;

-- The partitions of a table that hold rows. Unlike pg_partition_tree it locks none of them.
CREATE OR REPLACE FUNCTION lakehouse.leaves(relation oid) RETURNS SETOF oid
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $function$
  WITH RECURSIVE tree AS (
    SELECT i.inhrelid FROM pg_inherits i WHERE i.inhparent = relation AND NOT i.inhdetachpending
    UNION ALL SELECT i.inhrelid FROM tree t JOIN pg_inherits i ON i.inhparent = t.inhrelid AND NOT i.inhdetachpending
  )
  SELECT c.oid FROM tree t JOIN pg_class c ON c.oid = t.inhrelid WHERE c.relkind <> 'p'
$function$;

-- The captured tables as they are now. Partitions are told by their partitioned table. An excluded column counts as
-- generated: neither is in any event. Looking at them takes no lock that a change of a table would conflict with: a
-- default is printed without its table, which only a generated column's expression needs.
CREATE VIEW lakehouse.current_schemas AS
SELECT c.oid::bigint AS relation, n.nspname::text AS schema_name, c.relname::text AS table_name,
       lakehouse.key_of(c.oid) AS key_columns,
       (SELECT coalesce(jsonb_agg(jsonb_build_object(
          'attnum', a.attnum, 'name', a.attname, 'type', CASE WHEN t.typtype = 'e' THEN 'enum' ELSE t.typname END,
          'typmod', a.atttypmod, 'declared', format_type(a.atttypid, a.atttypmod), 'not_null', a.attnotnull,
          'generated', a.attgenerated <> '' OR EXISTS (
            SELECT FROM lakehouse.exclusions e
            WHERE (e.schema_name, e.table_name, e.column_name) = (n.nspname, c.relname, a.attname)),
          'default', CASE WHEN a.attgenerated = '' THEN pg_get_expr(d.adbin, 0) END,
          'missing', CASE WHEN a.atthasmissing THEN (a.attmissingval::text::text[])[1]
                          -- A partitioned table has no rows, and so nothing that older ones show: its partitions do,
                          -- all the same.
                          WHEN c.relkind = 'p' THEN (
                            SELECT min((l.attmissingval::text::text[])[1])
                            FROM lakehouse.leaves(c.oid) p(leaf)
                            JOIN pg_attribute l ON l.attrelid = p.leaf AND l.attname = a.attname
                            HAVING bool_and(l.atthasmissing) AND count(DISTINCT (l.attmissingval::text::text[])[1]) = 1
                          ) END
        ) || CASE WHEN b.base IS NULL THEN '{}' ELSE jsonb_build_object('base', b.base) END ORDER BY a.attnum), '[]')
        FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid
        LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
        CROSS JOIN LATERAL (
          -- Of the usual types it is known without a look at them, which takes the longest of all this.
          SELECT CASE WHEN a.atttypid <> ALL ('{int2,int4,int8,float4,float8,numeric,bool,text,varchar,bpchar,bytea,uuid,
            date,time,timestamp,timestamptz,json,jsonb}'::regtype[]) THEN lakehouse.base_of(a.atttypid) END AS base
        ) b
        WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped)::text AS columns,
       c.xmin::text AS catalog_row,
       CASE c.relkind
         WHEN 'p' THEN (SELECT coalesce(jsonb_object_agg(p.leaf, pg_relation_filenode(p.leaf)), '{}')
                        FROM lakehouse.leaves(c.oid) p(leaf))
         ELSE jsonb_build_object(c.oid, pg_relation_filenode(c.oid))
       END AS storage,
       (SELECT coalesce(jsonb_object_agg(a.attnum, lakehouse.type_contents(a.atttypid)), '{}') FROM pg_attribute a
        WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped AND a.atttypid >= 16384) AS contents
FROM pg_publication p
JOIN pg_publication_namespace pn ON pn.pnpubid = p.oid
JOIN pg_namespace n ON n.oid = pn.pnnspid AND n.nspname <> 'lakehouse'
JOIN pg_class c ON c.relnamespace = n.oid AND c.relkind IN ('r', 'p') AND c.relpersistence = 'p' AND NOT c.relispartition
WHERE p.pubname = ${publication_literal} AND NOT EXISTS (
  SELECT FROM lakehouse.exclusions e WHERE (e.schema_name, e.table_name, e.column_name) = (n.nspname, c.relname, ''));

-- The captured tables as they are now beside what was written down of them last, of one moment.
CREATE VIEW lakehouse.compared AS
SELECT c.*, s.relation IS NOT NULL AS logged, s.schema_name AS schema_was, s.table_name AS table_was,
       s.columns AS columns_were, k.relation IS NOT NULL AS seen, k.rewritten, k.storage AS storage_was,
       k.contents AS contents_were, (k.catalog_row, k.storage) IS DISTINCT FROM (c.catalog_row, c.storage) AS touched,
       same.columns AS same,
       same.columns AND k.rewritten IS FALSE
         AND (k.catalog_row, k.storage, k.contents) IS NOT DISTINCT FROM (c.catalog_row, c.storage, c.contents) AS settled
FROM lakehouse.current_schemas c
LEFT JOIN LATERAL (
  SELECT * FROM lakehouse.schema_changes l WHERE l.relation = c.relation ORDER BY l.id DESC LIMIT 1
) s ON true
LEFT JOIN LATERAL (SELECT * FROM lakehouse.seen l WHERE l.relation = c.relation ORDER BY l.id DESC LIMIT 1) k ON true
CROSS JOIN LATERAL (
  SELECT (s.columns, s.key_columns, s.schema_name, s.table_name)
    IS NOT DISTINCT FROM (c.columns, c.key_columns, c.schema_name, c.table_name) AS columns
) same;

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

-- Keeps a table from being changed until the transaction ends, unless it is being changed now; whether it does.
CREATE OR REPLACE FUNCTION lakehouse.holds_still(relation regclass) RETURNS boolean
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $function$
BEGIN
  EXECUTE format('LOCK TABLE %s IN ACCESS SHARE MODE NOWAIT', relation);
  RETURN true;
EXCEPTION WHEN lock_not_available OR undefined_table THEN
  RETURN false;
END
$function$;
REVOKE ALL ON FUNCTION lakehouse.holds_still(regclass) FROM PUBLIC;

-- Whether any of these tables has a row. It waits for nobody: one that somebody is changing may have some.
CREATE OR REPLACE FUNCTION lakehouse.has_rows(relations oid[]) RETURNS boolean
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $function$
DECLARE
  relation regclass;
  found boolean := false;
BEGIN
  FOREACH relation IN ARRAY coalesce(relations, '{}') LOOP
    CONTINUE WHEN NOT EXISTS (SELECT FROM pg_class c WHERE c.oid = relation);
    found := NOT lakehouse.holds_still(relation);
    IF NOT found THEN
      EXECUTE format('SELECT EXISTS (SELECT FROM %s)', relation) INTO found;
    END IF;
    EXIT WHEN found;
  END LOOP;
  RETURN found;
END
$function$;
REVOKE ALL ON FUNCTION lakehouse.has_rows(oid[]) FROM PUBLIC;

-- Whether what older rows show in a column can be made of the text that PostgreSQL prints of it, exactly as events have
-- it (see column_default in types.py): not where the lake has another form, or can't hold it and says so of each row.
CREATE OR REPLACE FUNCTION lakehouse.is_told(added jsonb) RETURNS boolean
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $function$
  SELECT added ->> 'base' IS NULL AND CASE
    WHEN added ->> 'type' IN ('int2', 'int4', 'int8', 'float4', 'float8', 'bool', 'uuid', 'bit', 'enum', 'text', 'varchar',
      'bpchar', 'json', 'jsonb', 'inet', 'cidr', 'macaddr', 'macaddr8') THEN true
    WHEN added ->> 'type' = 'numeric' THEN added ->> 'missing' ~ '^[-.0-9]+$'
    WHEN added ->> 'type' = 'time' THEN added ->> 'missing' ~ '^[.:0-9]+$'
    WHEN added ->> 'type' IN ('date', 'timestamp', 'timestamptz') THEN added ->> 'missing' ~ '^[0-9]{4}-[-+.: 0-9]+$'
    ELSE false END
$function$;

-- Whether two versions of a table's columns differ so that older rows read differently. `rewritten`: its files are new.
-- A type is widened without a new value, but some are changed without new files, and the lake has them in another form:
-- a timestamp that gets a zone, a number that gets more than 38 digits, or any number of them. A default that each row
-- computes for itself, and one that the schema log can't tell, is in no event. Nor is what becomes a text in the lake,
-- which it wasn't by an earlier release.
CREATE OR REPLACE FUNCTION lakehouse.new_values(was jsonb, now_is jsonb, rewritten boolean) RETURNS boolean
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $function$
  SELECT coalesce(bool_or(
    CASE WHEN o.c IS NULL THEN
      n.c ->> 'missing' IS NULL AND n.c ->> 'default' IS NOT NULL AND rewritten
      OR n.c ->> 'missing' IS NOT NULL AND NOT lakehouse.is_told(n.c)
    WHEN (o.c ->> 'generated')::boolean THEN
      true
    WHEN o.c -> 'type' <> n.c -> 'type' THEN
      (o.c ->> 'type') || '>' || (n.c ->> 'type') NOT IN (
        'int2>int4', 'int2>int8', 'int4>int8', 'float4>float8', 'varchar>text', 'text>varchar', 'cidr>inet')
    WHEN o.c ->> 'base' IS DISTINCT FROM n.c ->> 'base' THEN
      n.c ->> 'base' IN (n.c ->> 'type', 'printed', '_printed', 'bit', 'varbit')
    WHEN n.c ->> 'type' = 'varchar' THEN
      false
    WHEN o.c -> 'typmod' <> n.c -> 'typmod' THEN
      rewritten OR n.c ->> 'type' = 'numeric' AND (
        (n.c ->> 'typmod')::int < 4 OR ((n.c ->> 'typmod')::int - 4) >> 16 > 38)
    END), false)
  FROM jsonb_array_elements(now_is) AS n(c)
  LEFT JOIN jsonb_array_elements(was) AS o(c) ON o.c -> 'attnum' = n.c -> 'attnum'
  WHERE NOT (n.c ->> 'generated')::boolean
$function$;

-- Writes down what has changed of the captured tables, and says of how many. Where rows read differently since and no
-- event tells them, they are asked for. `how`: `prepare`, capture begins, and copies tables that are new to it by
-- itself; `look`, a look from time to time, which finds what no trigger saw; `ddl`, a statement has just been run, which
-- has `made` tables, so that all their rows are in events, and `touched` tables, and can have changed no others than
-- `only_these`, if there are any named.
--
-- It waits for no other session, so that two changes that don't conflict by themselves don't by being written down: what
-- is written is new rows alone, and a look leaves a table that is being changed to whoever changes it, and to the next
-- look. A look may therefore keep tables from being changed, which is for its own time.
DROP FUNCTION IF EXISTS lakehouse.log_schemas();
DROP FUNCTION IF EXISTS lakehouse.log_schemas(boolean);
DROP FUNCTION IF EXISTS lakehouse.log_schemas(text, oid[], oid[]);
CREATE OR REPLACE FUNCTION lakehouse.log_schemas(
  how text DEFAULT 'look', made oid[] DEFAULT '{}', touched oid[] DEFAULT '{}', only_these oid[] DEFAULT NULL
) RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
SET datestyle = 'ISO, YMD' SET timezone = 'UTC' SET bytea_output = 'hex' SET extra_float_digits = 1
SET intervalstyle = 'postgres' AS $function$
DECLARE
  -- The text of the statement, if it is one: a function's or a block's own text says nothing of what it runs.
  plain boolean := how = 'ddl' AND current_query() ~* '^\s*alter\s+table\M' AND current_query() !~* '\musing\M';
  t record;
  was record;
  moved boolean;
  back boolean;
  gone_parts oid[];
  new_parts oid[];
  why text[];
  ask text;
  keyed boolean;
  changed integer := 0;
BEGIN
  IF how = 'look' THEN
    -- As many at a time as fit into any server's table of locks.
    only_these := ARRAY(SELECT c.relation::oid FROM (
      SELECT d.relation FROM lakehouse.compared d WHERE NOT d.settled LIMIT 1000
    ) c WHERE lakehouse.holds_still(c.relation::oid::regclass));
  END IF;
  FOR t IN
    SELECT * FROM lakehouse.compared c WHERE (only_these IS NULL OR c.relation::oid = ANY (only_these)) AND NOT c.settled
  LOOP
    moved := NOT t.logged OR (t.schema_was, t.table_was) <> (t.schema_name, t.table_name);
    back := t.logged AND t.columns_were = '[]';
    keyed := t.key_columns NOT IN ('[]', 'null');
    SELECT array_agg(o.key::oid) INTO gone_parts FROM jsonb_object_keys(t.storage_was) o(key)
      WHERE NOT t.storage ? o.key;
    SELECT array_agg(n.key::oid) INTO new_parts FROM jsonb_object_keys(t.storage) n(key)
      WHERE NOT t.storage_was ? n.key AND n.key::oid <> ALL (made);
    why := '{}';
    ask := NULL;
    IF how <> 'prepare' OR t.logged THEN
      IF moved OR back THEN
        IF t.relation::oid <> ALL (made) AND lakehouse.has_rows(ARRAY[t.relation::oid]) THEN
          why := why || CASE WHEN back THEN 'it is captured again' ELSE 'it has come with its rows' END;
        END IF;
      ELSIF lakehouse.new_values(t.columns_were::jsonb, t.columns::jsonb, NOT t.seen OR EXISTS (
        SELECT FROM jsonb_each(t.storage_was) o JOIN jsonb_each(t.storage) n USING (key) WHERE o.value <> n.value
      )) THEN
        why := why || 'its columns were changed'::text;
      ELSIF t.rewritten AND NOT (plain AND NOT t.same) THEN
        why := why || 'its rows were computed anew'::text;
      END IF;
      IF EXISTS (
        SELECT FROM jsonb_each(t.contents_were) o JOIN jsonb_each(t.contents) n USING (key),
          jsonb_each(o.value) p JOIN jsonb_each(n.value) q USING (key) WHERE p.value <> q.value
      ) THEN
        why := why || 'a type of its columns was changed'::text;
      END IF;
      IF lakehouse.has_rows(new_parts) THEN
        why := why || 'a partition has come with its rows'::text;
      END IF;
      ask := CASE WHEN why <> '{}' THEN CASE WHEN keyed AND NOT back THEN 'rows' ELSE 'table' END END;
      -- A partition that is dropped is gone; whether it had rows can only be told of one that was detached.
      IF EXISTS (
        SELECT FROM unnest(gone_parts) g(part)
        WHERE NOT EXISTS (SELECT FROM pg_class c WHERE c.oid = g.part) OR lakehouse.has_rows(ARRAY[g.part])
      ) THEN
        why := why || 'a partition is gone'::text;
        ask := 'table';
      END IF;
      IF ask IS NULL AND t.same AND t.seen AND t.touched AND t.relation::oid <> ALL (touched) THEN
        why := ARRAY['its entry in the catalog, or its files, changed for no known reason'];
        ask := 'verify';
      END IF;
    END IF;

    IF moved AND NOT back AND t.logged THEN
      -- The name is free: another table may take it.
      INSERT INTO lakehouse.schema_changes (lsn, relation, schema_name, table_name, key_columns, columns, reread)
      VALUES ((pg_current_wal_insert_lsn() - '0/0')::bigint, t.relation, t.schema_was, t.table_was, '[]', '[]', false);
    END IF;
    IF NOT t.same OR (ask <> 'verify' AND NOT keyed) THEN
      INSERT INTO lakehouse.schema_changes (lsn, relation, schema_name, table_name, key_columns, columns, reread)
      VALUES ((pg_current_wal_insert_lsn() - '0/0')::bigint, t.relation, t.schema_name, t.table_name,
              t.key_columns, t.columns, coalesce(ask <> 'verify', false));
      changed := changed + 1;
    END IF;
    IF ask = 'rows' THEN
      PERFORM lakehouse.ask_for_rows(t.schema_name, t.table_name);
    END IF;
    IF ask IS NOT NULL AND NOT (ask = 'verify' AND EXISTS (
      SELECT FROM lakehouse.rereads r WHERE r.relation = t.relation AND r.done_at IS NULL
    )) THEN
      INSERT INTO lakehouse.rereads (relation, schema_name, table_name, how, why)
      VALUES (t.relation, t.schema_name, t.table_name, ask, array_to_string(why, '; '));
    END IF;
    INSERT INTO lakehouse.seen (relation, catalog_row, storage, contents)
    VALUES (t.relation, t.catalog_row, t.storage, t.contents);
  END LOOP;

  -- A table that is gone has no columns: another one may take its name, and none of its rows.
  FOR was IN
    SELECT * FROM (
      SELECT DISTINCT ON (s.relation) s.* FROM lakehouse.schema_changes s ORDER BY s.relation, s.id DESC
    ) newest
    WHERE newest.columns <> '[]' AND (how <> 'ddl' OR only_these IS NULL OR newest.relation::oid = ANY (only_these))
      AND NOT EXISTS (SELECT FROM lakehouse.current_schemas c WHERE c.relation = newest.relation)
  LOOP
    INSERT INTO lakehouse.schema_changes (lsn, relation, schema_name, table_name, key_columns, columns, reread)
    VALUES ((pg_current_wal_insert_lsn() - '0/0')::bigint, was.relation, was.schema_name, was.table_name, '[]', '[]', false);
    changed := changed + 1;
  END LOOP;
  IF how = 'look' THEN
    -- Nobody else takes any of it away.
    DELETE FROM lakehouse.seen s
      WHERE EXISTS (SELECT FROM lakehouse.seen newer WHERE newer.relation = s.relation AND newer.id > s.id)
      OR NOT EXISTS (SELECT FROM lakehouse.current_schemas c WHERE c.relation = s.relation);
  END IF;
  RETURN changed;
END
$function$;
REVOKE ALL ON FUNCTION lakehouse.log_schemas(text, oid[], oid[], oid[]) FROM PUBLIC;

-- Refuses what would end capture of every table for good: Debezium (3.7) stops at the mere mention in the log of a table
-- with columns whose names differ only by case, whether it is to read the table or not.
DROP FUNCTION IF EXISTS lakehouse.refuse_unreadable();
CREATE OR REPLACE FUNCTION lakehouse.refuse_unreadable(only_these oid[] DEFAULT NULL) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $function$
DECLARE
  twins record;
BEGIN
  SELECT s.schema_name, s.table_name, string_agg(quote_ident(a.attname), ' and ' ORDER BY a.attnum) AS names INTO twins
    FROM lakehouse.current_schemas s
    JOIN pg_attribute a ON a.attrelid = s.relation::oid AND a.attnum > 0 AND NOT a.attisdropped
    WHERE only_these IS NULL OR s.relation::oid = ANY (only_these)
    GROUP BY s.schema_name, s.table_name, lower(a.attname) HAVING count(*) > 1 LIMIT 1;
  IF FOUND THEN
    RAISE EXCEPTION 'the columns % of %.% differ only by case, and the lakehouse''s connector can''t read such a table',
      twins.names, quote_ident(twins.schema_name), quote_ident(twins.table_name)
      USING HINT = 'Rename one of them, or keep the table in a schema that isn''t captured.';
  END IF;
END
$function$;
REVOKE ALL ON FUNCTION lakehouse.refuse_unreadable(oid[]) FROM PUBLIC;

-- In the transaction that makes a table, or takes its key away, so that there is no moment in which it can't be updated.
-- A table of one session only needs no look.
CREATE OR REPLACE FUNCTION lakehouse.on_ddl() RETURNS event_trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $function$
DECLARE
  here oid[];
  whose oid[];
  made oid[];
  touched oid[];
BEGIN
  IF current_setting('lakehouse.preparing', true) = 'yes' THEN
    RETURN;
  END IF;
  IF TG_TAG LIKE 'DROP%' OR EXISTS (
    SELECT FROM pg_event_trigger_ddl_commands() d WHERE d.schema_name IS DISTINCT FROM 'pg_temp'
  ) THEN
    -- What is done concurrently ends without its locks, and in no transaction that could hold others.
    here := CASE WHEN current_query() !~* '\mconcurrently\M' THEN lakehouse.changed_here() END;
    -- A statement about tables changes those that it locks. One about types, schemas or extensions may change any.
    whose := CASE WHEN TG_TAG ~ ' (TABLE|INDEX|TABLE AS|INTO)$' THEN here END;
    PERFORM lakehouse.refuse_unreadable(whose);
    PERFORM lakehouse.prepare_tables(here);
    WITH commands AS (SELECT * FROM pg_event_trigger_ddl_commands() d WHERE d.classid = 'pg_class'::regclass),
      tables AS (SELECT coalesce(i.indrelid, d.objid) AS table FROM commands d LEFT JOIN pg_index i ON i.indexrelid = d.objid)
    SELECT ARRAY(SELECT objid FROM commands WHERE command_tag IN ('CREATE TABLE', 'CREATE TABLE AS', 'SELECT INTO')),
           ARRAY(SELECT unnest(ARRAY[t.table, pg_partition_root(t.table)::oid]) FROM tables t)
      INTO made, touched;
    PERFORM lakehouse.log_schemas('ddl', made, array_remove(touched, NULL), whose);
  END IF;
END
$function$;
REVOKE ALL ON FUNCTION lakehouse.on_ddl() FROM PUBLIC;

-- A table whose rows a statement computes anew, for a default (2) or a column's new type (4). One that is only written
-- to other files (1: SET LOGGED, 8: SET ACCESS METHOD) has the rows that it had.
CREATE OR REPLACE FUNCTION lakehouse.on_rewrite() RETURNS event_trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $function$
BEGIN
  IF pg_event_trigger_table_rewrite_reason() & 6 <> 0 THEN
    INSERT INTO lakehouse.seen (relation, catalog_row, storage, contents, rewritten)
      SELECT s.relation, s.catalog_row, s.storage, s.contents, true FROM lakehouse.seen s
      WHERE s.relation = coalesce(pg_partition_root(pg_event_trigger_table_rewrite_oid()), pg_event_trigger_table_rewrite_oid())::oid
      ORDER BY s.id DESC LIMIT 1;
  END IF;
END
$function$;
REVOKE ALL ON FUNCTION lakehouse.on_rewrite() FROM PUBLIC;

-- The tables that are there already, before the publication shows them to anyone.
SELECT lakehouse.refuse_unreadable();
SELECT lakehouse.prepare_tables();
DO $lakehouse$
DECLARE
  busy text;
BEGIN
  SELECT min(format('%I.%I', u.schema_name, u.table_name)) INTO busy
    FROM lakehouse.unprepared u WHERE u.without_identity OR u.unreadable;
  IF busy IS NOT NULL THEN
    RAISE lock_not_available USING MESSAGE = 'the table ' || busy || ' stays locked by somebody else';
  END IF;
END
$lakehouse$;
SELECT lakehouse.log_schemas('prepare');

CREATE EVENT TRIGGER lakehouse_capture ON ddl_command_end
  WHEN TAG IN ('CREATE TABLE', 'CREATE TABLE AS', 'SELECT INTO', 'ALTER TABLE', 'CREATE SCHEMA', 'ALTER SCHEMA',
               'CREATE EXTENSION', 'ALTER EXTENSION', 'ALTER TYPE', 'ALTER DOMAIN', 'CREATE INDEX', 'ALTER INDEX',
               'DROP INDEX', 'DROP TABLE', 'DROP SCHEMA', 'DROP TYPE', 'DROP DOMAIN', 'DROP EXTENSION', 'DROP OWNED')
  EXECUTE FUNCTION lakehouse.on_ddl();
CREATE EVENT TRIGGER lakehouse_rewrite ON table_rewrite EXECUTE FUNCTION lakehouse.on_rewrite();
-- In a session that replays what another one did (session_replication_role = replica), too.
ALTER EVENT TRIGGER lakehouse_capture ENABLE ALWAYS;
ALTER EVENT TRIGGER lakehouse_rewrite ENABLE ALWAYS;

COMMIT;
