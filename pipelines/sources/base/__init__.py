"""The contract of every kind of source: what a change row is, what pipelines ask of a source, and what services do."""
