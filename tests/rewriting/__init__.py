"""Tests of the pass framework: passes, analyses, rules, and what they leave behind."""
