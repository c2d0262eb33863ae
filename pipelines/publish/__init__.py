"""Publish, for each role that a contract shows a part of a table to, a dataset of its own, kept up to date."""
