"""What is PostgreSQL's alone: capture settings, type mapping, reading the source."""
