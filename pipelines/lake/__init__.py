"""Iceberg: the only room that touches its Java objects, and where names of the platform are said once."""
