"""Contracts, expectation suites, and running them. Empty until contracts arrive."""
