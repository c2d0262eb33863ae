"""Proves that the lake equals its source: both read at one agreed position and compared value by value."""
