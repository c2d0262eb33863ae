"""The kinds of source: what every source is (``base``), what Debezium's share (``debezium``), and one room a kind."""
