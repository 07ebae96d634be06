"""The six training steps of ``training_steps`` in torch, JAX, autograd, mygrad and PyTensor, as their users write them.

    make bench-peers                     makes the environment .venv-peers, measures, and writes the table of docs/performance.md
    make bench-peers PEERS=/path/to/env  with an environment that is there; what it lacks is installed

Every step of every library runs in a process of its own on one core: it gets the parameters and the feeds in a file, takes three steps,
and says their losses; then it is timed. Where the losses are not graphad's to 1e-4 of them, no figure is shown.
"""
