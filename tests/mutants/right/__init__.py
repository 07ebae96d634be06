"""Right passes that look like mistakes: the checker has to let them pass."""
