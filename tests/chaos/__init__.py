"""Faults of every kind on real servers, one by one and at random: `make test-chaos`, `make chaos`."""
