"""The contract of every kind of source: what a change row is, and what pipelines and services ask of a source."""
