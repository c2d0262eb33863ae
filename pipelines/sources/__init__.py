"""Kinds of source: what a source is (``base``), what Debezium's share (``debezium``), and one room a kind."""
