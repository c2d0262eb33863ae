"""Kafka to Iceberg on Spark: one module a stage (read, decode, admit, fold, evolve, merge, ledger)."""
