"""The first kind of source: PostgreSQL as a stream for pipelines, and as a database for services."""
