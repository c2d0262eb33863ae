"""The share of every Debezium source: the envelope, its schemas, decoding."""
