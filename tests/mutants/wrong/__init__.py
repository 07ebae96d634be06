"""Wrong passes of users: each makes one mistake that people make, in one of ten families."""
