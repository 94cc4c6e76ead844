"""Clip each person, add up: the only place where a private value gets its sensitivity."""
