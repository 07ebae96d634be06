"""Mistakes planted in graphad, by what they are in."""
