"""``graphad grad``: an ONNX model with its gradients, as an ONNX model."""

from __future__ import annotations

import argparse
import sys

from graphad.cli.arguments import ONNX, names
from graphad.errors import InvalidValue
from graphad.interop import onnx


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    text = (
        "Write the ONNX model that computes what a model computes, and the gradients of the sum of its outputs. Each gradient is an output "
        "NAME@GRAD, and the file is of ONNX's ordinary operators: any runtime runs it."
    )
    parser = commands.add_parser("grad", help="write an ONNX model with its gradients", description=text)
    parser.add_argument("model", metavar="MODEL", help="an ONNX model (.onnx)")
    parser.add_argument("--wrt", type=names, metavar="NAMES", help="inputs and parameters, with commas; all with floats, if not given")
    parser.add_argument("--of", type=names, metavar="NAMES", help="outputs, with commas; all with floats, if not given")
    parser.add_argument("-o", "--output", required=True, metavar="OUT", help="the file to write (.onnx)")
    parser.add_argument("--opset", type=int, default=18, metavar="N", help="the version of the operator set (default: 18)")
    parser.add_argument("--external-data", action="store_true", help="write large tensors into a file beside it")
    parser.set_defaults(command=run)


def run(args: argparse.Namespace) -> int:
    """Run the command."""
    if not args.model.endswith(ONNX):
        raise InvalidValue(f"{args.model!r} does not end in {ONNX}: graphad grad differentiates ONNX models")
    model = onnx.gradients(onnx.load(args.model), args.wrt, args.of)
    # With the model on standard output, the names go to the other stream.
    onnx.save(model, args.output, args.opset, external_data=args.external_data)
    print("\n".join(model.gradient_names), file=sys.stderr if args.output == "-" else sys.stdout)
    return 0
