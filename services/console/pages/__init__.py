"""The pages: a module each, which returns its routes."""
