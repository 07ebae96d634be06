"""``graphad passes``: the list of passes."""

from __future__ import annotations

import argparse
from dataclasses import fields, is_dataclass

from graphad.errors import InvalidValue
from graphad.ops.definition import did_you_mean
from graphad.rewriting import PASSES, Pass, RuleSet, rules_of
from graphad.rewriting.passes import print_option


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    parser = commands.add_parser("passes", help="list the passes", description="List the passes, or say all about one: options and rules.")
    parser.add_argument("name", nargs="?", metavar="PASS", help="the pass to describe")
    parser.set_defaults(command=run)


def run(args: argparse.Namespace) -> int:
    """Run the command."""
    print(_described(args.name) if args.name else _listed())
    return 0


def _listed() -> str:
    width = max(map(len, PASSES))
    return "\n".join(f"{name:{width}}  {_summary(kind)}" for name, kind in sorted(PASSES.items()))


def _summary(kind: type[Pass]) -> str:
    """The first sentence of the docstring, without its markup."""
    return kind.summary().replace("``", "")


def _described(name: str) -> str:
    kind = PASSES.get(name)
    if kind is None:
        raise InvalidValue(f"no pass is named {name!r}{did_you_mean(name, PASSES)}")
    parts = [f"{name}: {_summary(kind)}", *_options(kind), *_claims(kind)]
    rules = _rules(kind)
    if rules:
        parts.append(f"\n{len(rules)} rules:\n{rules}")
    return "\n".join(parts)


def _options(kind: type[Pass]) -> list[str]:
    if not is_dataclass(kind):
        return [f"  {kind.name}(PASS, ...)  takes passes in parentheses"]
    return [f"  {name}{{{f.name}={print_option(f.default)}}}  {f.type}" for name in [kind.name] for f in fields(kind)]


def _claims(kind: type[Pass]) -> list[str]:
    claims = {"requires": kind.requires, "clears": kind.clears, "establishes": kind.establishes, "preserves": kind.preserves}
    lines = [
        f"  {word} {', '.join(c if isinstance(c, str) else c.__name__ for c in properties)}"
        for word, properties in claims.items()
        if properties
    ]
    lines += ["  idempotent"] if kind.idempotent else []
    return [*lines, *([f"  may change values by a relative {kind.tolerance:g}"] if kind.tolerance else [])]


def _rules(kind: type[Pass]) -> RuleSet:
    """The rules of a pass with the options it has by default, if it can do without any."""
    try:
        return rules_of(kind())
    except TypeError:
        return RuleSet()
