"""The configuration of single tables, in YAML files in this folder."""
