"""Saving and loading as of ``fluid.io``: values and models in Paddle's files. Paddle reads what this writes, and so does
``ga.interop.paddle``."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from graphad.errors import InvalidType, InvalidValue, ParseError
from graphad.execution.executor import Executor
from graphad.execution.scope import global_scope
from graphad.interop.files import read_together, write_together
from graphad.interop.paddle import InferenceModel
from graphad.interop.paddle import load_inference_model as read_model
from graphad.interop.paddle import save_inference_model as write_model
from graphad.interop.paddle.tensors import read_tensor, read_tensors, write_tensors
from graphad.interop.saving import check_values, kept_variables, load
from graphad.program import Parameter, Program, Variable, default_main_program
from graphad.types import Array

Chosen = Callable[[Variable], bool]
PathLike = str | os.PathLike[str]


def _checked(what: str, executor: object, program: object) -> Program:
    if not isinstance(executor, Executor):
        raise InvalidType(f"fluid.io.{what}: the executor comes first, an Executor, not {executor!r}")
    if program is not None and not isinstance(program, Program):
        raise InvalidType(f"fluid.io.{what}: main_program is a Program or None, not {program!r}")
    return default_main_program() if program is None else program


def _check_inside(folder: Path, names: Iterable[str]) -> None:
    for name in names:
        if not (folder / name).resolve().is_relative_to(folder.resolve()):
            raise InvalidValue(f"{name!r} would be a file outside of {str(folder)!r}")


def _write(folder: Path, arrays: Mapping[str, Array], filename: str | None) -> None:
    # Everything is serialized before the first file is touched.
    contents = {filename: write_tensors(arrays)} if filename is not None else {n: write_tensors({n: a}) for n, a in arrays.items()}
    _check_inside(folder, contents)
    folder.mkdir(parents=True, exist_ok=True)
    write_together(folder, contents)


def _read(folder: Path, names: Sequence[str], filename: str | None) -> dict[str, Array]:
    files = names if filename is None else [filename]
    _check_inside(folder, files)
    contents = read_together(folder, files)
    if filename is not None:
        # A joined file has no names: Paddle writes its tensors in the order of theirs.
        return read_tensors(contents[0], sorted(names))
    return {name: _read_one(folder / name, data) for name, data in zip(names, contents, strict=True)}


def _read_one(path: Path, data: bytes) -> Array:
    try:
        return read_tensor(data)
    except ParseError as error:
        raise ParseError(f"{path}: {error}") from None


def _chosen(program: Program, vars: Sequence[Variable | str] | None = None, predicate: Chosen | None = None) -> Mapping[str, Variable]:
    if vars is not None:
        variables = [var if isinstance(var, Variable) else program.global_block().var(var) for var in vars]
        return {var.name: var for var in variables}
    candidates = kept_variables(program)
    return {name: var for name, var in candidates.items() if predicate is None or predicate(var)}


def _save(dirname: PathLike, chosen: Iterable[str], filename: str | None) -> None:
    scope = global_scope()
    _write(Path(dirname), {name: scope.get(name) for name in chosen}, filename)


def _load(dirname: PathLike, chosen: Mapping[str, Variable], filename: str | None) -> None:
    arrays = _read(Path(dirname), list(chosen), filename)
    for name, var in chosen.items():
        if arrays[name].shape != var.shape:
            raise InvalidValue(f"{name!r} is {list(arrays[name].shape)} in {str(dirname)!r}, but declared {var!r}")
    # All shapes have been checked: the scope gets every value or none.
    for name, array in arrays.items():
        global_scope().set(name, array)


def _is_parameter(var: Variable) -> bool:
    return isinstance(var, Parameter)


def save_vars(
    executor: Executor,
    dirname: PathLike,
    main_program: Program | None = None,
    vars: Sequence[Variable | str] | None = None,
    predicate: Chosen | None = None,
    filename: str | None = None,
) -> None:
    """Write the values of variables (those of ``vars``, or those that ``predicate`` chooses), a file each or all in ``filename``."""
    _save(dirname, _chosen(_checked("save_vars", executor, main_program), vars, predicate), filename)


def load_vars(
    executor: Executor,
    dirname: PathLike,
    main_program: Program | None = None,
    vars: Sequence[Variable | str] | None = None,
    predicate: Chosen | None = None,
    filename: str | None = None,
) -> None:
    """Read what ``save_vars`` wrote into the global scope; nothing is set unless all of it fits."""
    _load(dirname, _chosen(_checked("load_vars", executor, main_program), vars, predicate), filename)


def save_params(executor: Executor, dirname: PathLike, main_program: Program | None = None, filename: str | None = None) -> None:
    """Write the values of the parameters, a file each or all in ``filename``."""
    _save(dirname, _chosen(_checked("save_params", executor, main_program), predicate=_is_parameter), filename)


def load_params(executor: Executor, dirname: PathLike, main_program: Program | None = None, filename: str | None = None) -> None:
    """Read what ``save_params`` wrote into the global scope."""
    _load(dirname, _chosen(_checked("load_params", executor, main_program), predicate=_is_parameter), filename)


def save_persistables(executor: Executor, dirname: PathLike, main_program: Program | None = None, filename: str | None = None) -> None:
    """Write what outlives a run, parameters, statistics and accumulators, a file each or all in ``filename``."""
    _save(dirname, kept_variables(_checked("save_persistables", executor, main_program)), filename)


def load_persistables(executor: Executor, dirname: PathLike, main_program: Program | None = None, filename: str | None = None) -> None:
    """Read what ``save_persistables`` wrote into the global scope."""
    _load(dirname, kept_variables(_checked("load_persistables", executor, main_program)), filename)


def save_inference_model(
    dirname: PathLike,
    feeded_var_names: Sequence[str],
    target_vars: Sequence[Variable],
    executor: Executor,
    main_program: Program | None = None,
    model_filename: str | None = None,
    params_filename: str | None = None,
) -> list[str]:
    """Write what inference needs of a program, and its parameters from the global scope.

    Returns:
        The names of what is fetched.

    Raises:
        ValueError: the targets need something that is neither fed nor kept in the scope.
    """
    program = _checked("save_inference_model", executor, main_program).clone(for_test=True).prune([var.name for var in target_vars])
    fetches = [var.name for var in target_vars]
    scope = global_scope()
    arrays = {name: scope.get(name) for name in kept_variables(program)}
    # What is read before it is written comes from the scope or a feed.
    unfed = [name for name in _read_first(program) if name not in arrays and name not in feeded_var_names]
    if unfed:
        raise InvalidValue(f"the targets need {unfed}, which is not among what is fed, {list(feeded_var_names)}")
    model = InferenceModel(program, list(feeded_var_names), fetches, arrays)
    write_model(model, dirname, model_filename or "__model__", params_filename)
    return fetches


def _read_first(program: Program) -> Iterator[str]:
    """The names that an operator reads before any operator has written them."""
    results: set[str] = set()
    for op in program.global_block().ops:
        yield from (name for name in op.input_names() if name not in results)
        results.update(op.output_names())


def load_inference_model(
    dirname: PathLike, executor: Executor, model_filename: str | None = None, params_filename: str | None = None
) -> tuple[Program, list[str], list[Variable]]:
    """The program of a model, the names of what is fed, and the variables that are fetched; the parameters go into the global scope."""
    _checked("load_inference_model", executor, None)
    model = read_model(dirname, model_filename, params_filename)
    for name, array in model.parameters.items():
        global_scope().set(name, array)
    block = model.program.global_block()
    return model.program, model.feed_names, [block.var(name) for name in model.fetch_names]


def get_program_parameter(program: Program) -> list[Parameter]:
    """The parameters of a program."""
    return program.all_parameters()


def get_program_persistable_vars(program: Program) -> list[Variable]:
    """The variables whose values outlive a run."""
    return list(kept_variables(program).values())


def load_program_state(model_path: PathLike, var_list: Sequence[Variable] | None = None) -> dict[str, Array]:
    """The values that ``graphad.save(program, model_path)`` wrote, by name.

    Args:
        model_path: what ``save`` was given.
        var_list: the variables whose values are returned; all if None.

    Raises:
        ParseError, OSError: as ``graphad.load``.
    """
    arrays = load(model_path).arrays
    return arrays if var_list is None else {var.name: arrays[var.name] for var in var_list if var.name in arrays}


def set_program_state(program: Program, state_dict: Mapping[str, object]) -> None:
    """Put values, by name, into the global scope: those of the program's persistable variables.

    Args:
        program: whose variables they are; names that it does not have are left out.
        state_dict: arrays by name, as of ``load_program_state``.

    Raises:
        ValueError: a value has another shape than the variable; nothing is set then.
    """
    variables = kept_variables(program)
    arrays = {name: np.asarray(value) for name, value in state_dict.items() if name in variables}
    check_values({name: variables[name] for name in arrays}, arrays)
    for name, array in arrays.items():
        global_scope().set(name, array)
