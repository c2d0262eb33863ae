"""Contracts of tables beside what there is: made from the source, and compared with source and lake."""
