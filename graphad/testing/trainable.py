"""Random networks that can be trained or used as they are: ``trainable_program``."""

from __future__ import annotations

from graphad import layers
from graphad.passes.optimization import ACCUMULATORS, accumulator_name
from graphad.program import Parameter, Program, Variable, program_guard
from graphad.testing.cases import Case
from graphad.testing.choices import Choices
from graphad.testing.networks import LAYERS, SMOOTH, Layer, Network, loss_of, normalized_product
from graphad.testing.training import persistent_arrays

EVEN = (4, 2, 6)
_LAYERS: tuple[Layer, ...] = (normalized_product, *LAYERS[::2], normalized_product, *LAYERS[1::2])


def trainable_program(choices: Choices) -> Case:
    """A network of up to two hidden layers with its loss, without backward and updates.

    Half of them compute every row by itself, in float64. The batch has an even number of them. In the others there are
    layers of all kinds, many of them products with a batch norm, and mostly another output beside the loss. The learning rate,
    and what one optimizer keeps, are declared as ``minimize`` declares them, and have values as after some steps.

    >>> from graphad.testing.choices import RandomChoices
    >>> "learning_rate_0" in trainable_program(RandomChoices("seed")).params
    True
    """
    main, by_rows = Program(), choices.boolean()
    dtype = "float64" if by_rows else choices.one_of(("float32", "float32", "float64"))
    net = Network(choices, dtype, choices.one_of(EVEN))
    with program_guard(main, Program()):
        hidden = net.start(by_rows)
        for _ in range(choices.integer(0, 2)):
            hidden = choices.one_of(SMOOTH if by_rows else _LAYERS)(net, hidden)
        if not by_rows and choices.boolean():
            layers.relu(normalized_product(net, hidden))
        cost = loss_of(net, hidden, by_rows) if choices.boolean() else _other_loss(net, hidden)
        _declare_state(choices, main.all_parameters(), cost)
    return Case(main, cost.name, net.feeds, persistent_arrays(choices, main))


def _other_loss(net: Network, hidden: Variable) -> Variable:
    """A loss that is no mean over the rows: a sum, one with a bias, a product of means, a term of weights, numbers across the batch."""
    kind = net.choices.below(5)
    if kind == 0:
        hidden = layers.softmax(hidden, axis=net.choices.one_of((0, -len(hidden.shape))))
    last = layers.fc(hidden, size=2)
    errors = layers.square(last)
    mean, total = layers.mean(errors), layers.reduce_sum(errors)
    cost: Variable = mean
    if kind == 1:
        cost = total
    elif kind == 2:
        cost = layers.scale(net.choices.one_of((total, mean)), scale=2.0, bias=1.0)
    elif kind == 3:
        cost = layers.elementwise_mul(mean, net.choices.one_of((mean, layers.mean(last))))
    elif kind == 4:
        weights = last.block.program.all_parameters()[0]
        cost = layers.elementwise_add(mean, layers.mean(layers.square(weights)))
    return cost


def _declare_state(choices: Choices, parameters: list[Parameter], cost: Variable) -> None:
    kept = choices.one_of(tuple(ACCUMULATORS.values()))
    cost.block.create_var("learning_rate_0", [1], cost.dtype, persistable=True, stop_gradient=True)
    for parameter in parameters:
        for slot, accumulator in kept.items():
            shape = [1] if slot.endswith("Pow") else list(parameter.shape)
            name = accumulator_name(parameter.name, accumulator)
            cost.block.create_var(name, shape, parameter.dtype, persistable=True, stop_gradient=True)
