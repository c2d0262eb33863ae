"""What every Debezium source shares: the envelope, its schemas, decoding."""
