"""Tests of the pass framework: passes, analyses, rules, and their reproducers."""
