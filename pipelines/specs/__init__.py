"""What is configured by table, in YAML files in this folder."""
