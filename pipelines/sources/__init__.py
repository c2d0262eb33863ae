"""Kinds of source. A second kind is a folder beside ``postgres``, not a rewrite."""
