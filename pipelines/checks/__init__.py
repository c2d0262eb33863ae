"""Check what contracts promise on the lake's tables from time to time, beside the mirror."""
