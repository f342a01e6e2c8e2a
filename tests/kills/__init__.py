"""Transactional tasks whose process is killed at every point: what they wrote and their outcome agree."""
