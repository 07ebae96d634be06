"""Mutation testing of the checker: passes with one mistake each, and right passes that look like mistakes.

    library/    mistakes planted in graphad itself: a function's source text with one change
    wrong/      wrong passes as users write them, through the public API
    right/      right passes: an alarm on one of them is false

Each entry has a witness, a program on which it is wrong (or right); ``test_corpus.py`` runs them all. ``python -m tests.mutants`` gives
each entry to ``check_pass`` under a budget of processor time, and prints what it catches.
"""
