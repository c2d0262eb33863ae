"""Contracts: what is promised of tables, in Open Data Contract Standard files."""
