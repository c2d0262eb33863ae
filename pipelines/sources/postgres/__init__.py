"""PostgreSQL as a source: capture settings, type mapping, reading the source."""
