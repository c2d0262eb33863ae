"""The Spark session, its JVM, and helpers for DataFrames."""
