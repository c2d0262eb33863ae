"""Protect values in the lake as contracts say, by keys from one secret."""
