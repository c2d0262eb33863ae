"""A shop worth mirroring: its schema, a bulk load, and a seeded live workload."""
