"""Iceberg tables: the only room that touches Iceberg's Java objects, and where names of the platform are said once."""
