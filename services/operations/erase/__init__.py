"""Erasure: a row that is gone from the source, gone from every copy that the lakehouse has of it as well."""
