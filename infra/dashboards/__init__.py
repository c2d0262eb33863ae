"""Dashboards for Grafana: files, written by code (`make dashboards`). Grafana itself isn't part of the stack."""
