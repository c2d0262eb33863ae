"""Runs the stack of docker-compose.yml: with Docker Compose, or as supervised processes on loopback."""
