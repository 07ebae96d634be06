"""Measurements of speed and memory: ``make bench`` prints them; none is a test."""
