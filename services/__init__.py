"""Processes of ours that are not pipelines."""
