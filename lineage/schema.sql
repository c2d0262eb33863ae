-- The lineage store. Repeatable: run at each start.
CREATE TABLE IF NOT EXISTS dataset (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  namespace text NOT NULL,
  name text NOT NULL,
  facets jsonb NOT NULL DEFAULT '{}',
  created_at timestamptz NOT NULL,
  updated_at timestamptz NOT NULL,
  UNIQUE (namespace, name)
);
-- Other names of a dataset (the symlinks facet).
CREATE TABLE IF NOT EXISTS symlink (
  namespace text NOT NULL,
  name text NOT NULL,
  dataset bigint NOT NULL REFERENCES dataset ON DELETE CASCADE,
  PRIMARY KEY (namespace, name)
);
CREATE TABLE IF NOT EXISTS job (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  namespace text NOT NULL,
  name text NOT NULL,
  facets jsonb NOT NULL DEFAULT '{}',
  created_at timestamptz NOT NULL,
  updated_at timestamptz NOT NULL,
  UNIQUE (namespace, name)
);
CREATE TABLE IF NOT EXISTS run (
  id uuid PRIMARY KEY,
  job bigint NOT NULL REFERENCES job ON DELETE CASCADE,
  state text NOT NULL,
  started_at timestamptz NOT NULL,
  ended_at timestamptz,
  updated_at timestamptz NOT NULL,
  facets jsonb NOT NULL DEFAULT '{}'
);
CREATE INDEX IF NOT EXISTS run_of_job ON run (job, started_at DESC);
CREATE INDEX IF NOT EXISTS run_ended ON run (ended_at);
-- The datasets of a run, and what the run says of each.
CREATE TABLE IF NOT EXISTS use (
  run uuid NOT NULL REFERENCES run ON DELETE CASCADE,
  dataset bigint NOT NULL REFERENCES dataset ON DELETE CASCADE,
  is_output boolean NOT NULL,
  facets jsonb NOT NULL DEFAULT '{}',
  PRIMARY KEY (run, dataset, is_output)
);
CREATE INDEX IF NOT EXISTS use_of_dataset ON use (dataset);
-- The versions of a dataset that runs have read or written.
CREATE TABLE IF NOT EXISTS version (
  dataset bigint NOT NULL REFERENCES dataset ON DELETE CASCADE,
  version text NOT NULL,
  run uuid NOT NULL REFERENCES run ON DELETE CASCADE,
  is_output boolean NOT NULL,
  at timestamptz NOT NULL,
  PRIMARY KEY (dataset, version, run, is_output)
);
CREATE INDEX IF NOT EXISTS version_of_run ON version (run);
-- Every event, as it came. The same one twice is one.
CREATE TABLE IF NOT EXISTS event (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  digest bytea NOT NULL UNIQUE,
  at timestamptz NOT NULL,
  received_at timestamptz NOT NULL DEFAULT now(),
  run uuid,
  type text,
  body jsonb NOT NULL
);
CREATE INDEX IF NOT EXISTS event_at ON event (at);
-- How far those who read elsewhere, or send on, have come.
CREATE TABLE IF NOT EXISTS progress (
  reader text PRIMARY KEY,
  state jsonb NOT NULL
);
