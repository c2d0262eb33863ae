"""Kafka to Iceberg on Spark, in rooms: a room imports only rooms that stand below it (see pyproject.toml)."""
