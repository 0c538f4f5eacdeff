"""Eight rows at a time: vectors of the processor as values in compiled code.

LLVM vectorises loops over arrays only where it can tell that these do not overlap, and keeps what they compute in
memory. A kernel that solves rows side by side, each in a lane of its own, says so with these vectors. Every lane is
computed by itself, by the operations that are written, in their order: a row has the same bits in any lane.

``+``, ``-``, ``*`` and ``/`` work on them.
"""

from __future__ import annotations

import operator
from typing import Any

from llvmlite import ir  # type: ignore[import-untyped]
from numba import extending, types
from numba.core import cgutils as _cgutils
from numba.core.typing import templates

LANES = 8

BITS = 64
"""As many whole numbers are compared at a time as a word has bits."""

# numba's type hints are for its own functions: of some arguments callers have none
intrinsic: Any = extending.intrinsic
models: Any = extending.models
cgutils: Any = _cgutils
infer_global: Any = templates.infer_global
lower_builtin: Any = extending.lower_builtin
register_model: Any = extending.register_model
ConcreteTemplate: Any = templates.ConcreteTemplate

_VECTOR = ir.VectorType(ir.DoubleType(), LANES)
_ALIGNED = 8  # arrays are only known to be aligned as their numbers are


class Lanes(types.Type):
    """The numba type of eight numbers, one for each row."""

    def __init__(self) -> None:
        super().__init__(name="Lanes")


_lanes = Lanes()


@register_model(Lanes)
class _LanesModel(models.PrimitiveModel):
    def __init__(self, manager: Any, kind: Any) -> None:
        super().__init__(manager, kind, _VECTOR)


@intrinsic
def spread(context, number):  # type: ignore[no-untyped-def]
    """Return lanes that all hold one number."""

    def generate(target, builder, signature, arguments):  # type: ignore[no-untyped-def]
        return _spread(builder, arguments[0])

    return _lanes(types.float64), generate


@intrinsic
def load(context, block, number):  # type: ignore[no-untyped-def]
    """Return the lanes of a number: the eight entries that a flat array has for it."""

    def generate(target, builder, signature, arguments):  # type: ignore[no-untyped-def]
        return builder.load(_place(target, builder, signature, arguments), align=_ALIGNED)

    return _lanes(block, types.int64), generate


@intrinsic
def store(context, block, number, lanes):  # type: ignore[no-untyped-def]
    """Write the lanes of a number into a flat array."""

    def generate(target, builder, signature, arguments):  # type: ignore[no-untyped-def]
        builder.store(arguments[2], _place(target, builder, signature, arguments), align=_ALIGNED)
        return target.get_dummy_value()

    return types.void(block, types.int64, _lanes), generate


@intrinsic
def load_row(context, rows, row, column):  # type: ignore[no-untyped-def]
    """Return eight entries of a row of a contiguous matrix, from a column on."""

    def generate(target, builder, signature, arguments):  # type: ignore[no-untyped-def]
        return builder.load(_entries(target, builder, signature, arguments), align=_ALIGNED)

    return _lanes(rows, types.int64, types.int64), generate


@intrinsic
def store_row(context, rows, row, column, lanes):  # type: ignore[no-untyped-def]
    """Write lanes into eight entries of a row of a contiguous matrix, from a column on."""

    def generate(target, builder, signature, arguments):  # type: ignore[no-untyped-def]
        builder.store(arguments[3], _entries(target, builder, signature, arguments), align=_ALIGNED)
        return target.get_dummy_value()

    return types.void(rows, types.int64, types.int64, _lanes), generate


@intrinsic
def load_column(context, rows, first, column):  # type: ignore[no-untyped-def]
    """Return what eight rows of a contiguous matrix, from the first on, have in a column."""

    def generate(target, builder, signature, arguments):  # type: ignore[no-untyped-def]
        lanes = ir.Constant(_VECTOR, ir.Undefined)
        for lane, place in enumerate(_column(target, builder, signature, arguments)):
            lanes = builder.insert_element(lanes, builder.load(place), ir.IntType(32)(lane))
        return lanes

    return _lanes(rows, types.int64, types.int64), generate


@intrinsic
def store_column(context, rows, first, column, lanes):  # type: ignore[no-untyped-def]
    """Write lanes into a column of eight rows of a contiguous matrix, from the first on."""

    def generate(target, builder, signature, arguments):  # type: ignore[no-untyped-def]
        for lane, place in enumerate(_column(target, builder, signature, arguments)):
            builder.store(builder.extract_element(arguments[3], ir.IntType(32)(lane)), place)
        return target.get_dummy_value()

    return types.void(rows, types.int64, types.int64, _lanes), generate


@intrinsic
def gather(context, numbers, begin, offset):  # type: ignore[no-untyped-def]
    """Return for each lane the number of a flat array that is so far after the place where the lane's numbers begin."""

    def generate(target, builder, signature, arguments):  # type: ignore[no-untyped-def]
        array, places = (target.make_array(signature.args[k])(target, builder, arguments[k]).data for k in (0, 1))
        lanes = ir.Constant(_VECTOR, ir.Undefined)
        for lane in range(LANES):
            place = builder.load(builder.gep(places, [ir.IntType(64)(lane)]))
            number = builder.load(builder.gep(array, [builder.add(place, arguments[2])]))
            lanes = builder.insert_element(lanes, number, ir.IntType(32)(lane))
        return lanes

    return _lanes(numbers, begin, types.int64), generate


@intrinsic
def store_whole(context, rows, first, column, start, lanes):  # type: ignore[no-untyped-def]
    """Write ``start`` plus the whole part of lanes into a column of eight rows of 32-bit numbers, from the first on."""

    def generate(target, builder, signature, arguments):  # type: ignore[no-untyped-def]
        whole = builder.fptosi(arguments[4], ir.VectorType(ir.IntType(32), LANES))
        whole = builder.add(whole, _spread(builder, arguments[3]))
        for lane, place in enumerate(_column(target, builder, signature, arguments)):
            builder.store(builder.extract_element(whole, ir.IntType(32)(lane)), place)
        return target.get_dummy_value()

    return types.void(rows, types.int64, types.int64, types.int32, _lanes), generate


@intrinsic
def load_square(context, rows, first, column, block):  # type: ignore[no-untyped-def]
    """Write eight columns of eight rows of a contiguous matrix into a flat array, as the lanes of their numbers.

    Rows are read as they lie in memory, one after the other, and much faster than column by column.
    """

    def generate(target, builder, signature, arguments):  # type: ignore[no-untyped-def]
        lying = [
            builder.load(builder.bitcast(place, _VECTOR.as_pointer()), align=_ALIGNED)
            for place in _column(target, builder, signature, arguments)
        ]
        for place, lanes in zip(
            _square(target, builder, signature, arguments), _transposed(builder, lying), strict=True
        ):
            builder.store(lanes, place, align=_ALIGNED)
        return target.get_dummy_value()

    return types.void(rows, types.int64, types.int64, block), generate


@intrinsic
def store_square(context, rows, first, column, block):  # type: ignore[no-untyped-def]
    """Write the lanes of eight numbers into these columns of eight rows: what :func:`load_square` does, backward."""

    def generate(target, builder, signature, arguments):  # type: ignore[no-untyped-def]
        columns = [builder.load(place, align=_ALIGNED) for place in _square(target, builder, signature, arguments)]
        places = _column(target, builder, signature, arguments)
        for place, row in zip(places, _transposed(builder, columns), strict=True):
            builder.store(row, builder.bitcast(place, _VECTOR.as_pointer()), align=_ALIGNED)
        return target.get_dummy_value()

    return types.void(rows, types.int64, types.int64, block), generate


@intrinsic
def add_multiple(context, total, factor, lanes):  # type: ignore[no-untyped-def]
    """Return ``total + factor * lanes``, for a number as a factor: the product is rounded, and then the sum."""

    def generate(target, builder, signature, arguments):  # type: ignore[no-untyped-def]
        total, factor, lanes = arguments
        return builder.fadd(total, builder.fmul(_spread(builder, factor), lanes))

    return _lanes(_lanes, types.float64, _lanes), generate


@intrinsic
def where_greater(context, left, right, yes, no):  # type: ignore[no-untyped-def]
    """Return ``yes`` in the lanes in which ``left > right``, and ``no`` in the others."""

    def generate(target, builder, signature, arguments):  # type: ignore[no-untyped-def]
        left, right, yes, no = arguments
        return builder.select(builder.fcmp_ordered(">", left, right), yes, no)

    return _lanes(_lanes, _lanes, _lanes, _lanes), generate


@intrinsic
def magnitudes(context, lanes):  # type: ignore[no-untyped-def]
    """Return the absolute values."""

    def generate(target, builder, signature, arguments):  # type: ignore[no-untyped-def]
        return _call(builder, "fabs", arguments)

    return _lanes(_lanes), generate


@intrinsic
def roots(context, lanes):  # type: ignore[no-untyped-def]
    """Return the square roots; NaN of negative numbers."""

    def generate(target, builder, signature, arguments):  # type: ignore[no-untyped-def]
        return _call(builder, "sqrt", arguments)

    return _lanes(_lanes), generate


@intrinsic
def larger(context, left, right):  # type: ignore[no-untyped-def]
    """Return the larger number in each lane."""

    def generate(target, builder, signature, arguments):  # type: ignore[no-untyped-def]
        return builder.select(builder.fcmp_ordered(">", *arguments), *arguments)

    return _lanes(_lanes, _lanes), generate


@intrinsic
def smaller(context, left, right):  # type: ignore[no-untyped-def]
    """Return the smaller number in each lane."""

    def generate(target, builder, signature, arguments):  # type: ignore[no-untyped-def]
        return builder.select(builder.fcmp_ordered("<", *arguments), *arguments)

    return _lanes(_lanes, _lanes), generate


@intrinsic
def all_greater(context, left, right):  # type: ignore[no-untyped-def]
    """Return whether ``left > right`` in every lane."""

    def generate(target, builder, signature, arguments):  # type: ignore[no-untyped-def]
        bits = builder.bitcast(builder.fcmp_ordered(">", *arguments), ir.IntType(LANES))
        return builder.icmp_unsigned("==", bits, ir.IntType(LANES)(-1))

    return types.boolean(_lanes, _lanes), generate


@intrinsic
def least(context, lanes):  # type: ignore[no-untyped-def]
    """Return the smallest number of all lanes, none of which is NaN."""

    def generate(target, builder, signature, arguments):  # type: ignore[no-untyped-def]
        (lanes,) = arguments
        for half in (4, 2, 1):
            places = ir.Constant(ir.VectorType(ir.IntType(32), LANES), [(lane + half) % LANES for lane in range(LANES)])
            others = builder.shuffle_vector(lanes, ir.Constant(_VECTOR, ir.Undefined), places)
            lanes = builder.select(builder.fcmp_ordered("<", others, lanes), others, lanes)
        return builder.extract_element(lanes, ir.IntType(32)(0))

    return types.float64(_lanes), generate


@intrinsic
def added_up(context, lanes):  # type: ignore[no-untyped-def]
    """Return the sum of all lanes, from the first to the last."""

    def generate(target, builder, signature, arguments):  # type: ignore[no-untyped-def]
        first, *others = (builder.extract_element(arguments[0], ir.IntType(32)(lane)) for lane in range(LANES))
        for each in others:
            first = builder.fadd(first, each)
        return first

    return types.float64(_lanes), generate


@intrinsic
def bits_within(context, numbers, first, low, high):  # type: ignore[no-untyped-def]
    """Return which of 64 whole numbers of an array, from the first on, are at least ``low`` and at most ``high``.

    Each is a bit; ``low`` and ``high`` are not negative.
    """

    def generate(target, builder, signature, arguments):  # type: ignore[no-untyped-def]
        array = target.make_array(signature.args[0])(target, builder, arguments[0])
        whole = array.data.type.pointee
        vector = ir.VectorType(whole, BITS)
        place = builder.bitcast(builder.gep(array.data, [arguments[1]]), vector.as_pointer())
        found = builder.load(place, align=whole.width // 8)
        low, high = (_everywhere(builder, _narrowed(builder, limit, whole), BITS) for limit in arguments[2:])
        above, below = builder.icmp_signed(">=", found, low), builder.icmp_signed("<=", found, high)
        return builder.bitcast(builder.and_(above, below), ir.IntType(BITS))

    return types.uint64(numbers, types.int64, types.int64, types.int64), generate


@intrinsic
def lowest_bit(context, bits):  # type: ignore[no-untyped-def]
    """Return the place of the lowest bit that is set."""

    def generate(target, builder, signature, arguments):  # type: ignore[no-untyped-def]
        return builder.cttz(arguments[0], ir.IntType(1)(1))

    return types.int64(types.uint64), generate


def _call(builder: Any, name: str, arguments: Any) -> Any:
    """Call one of LLVM's functions of lanes."""
    kind = ir.FunctionType(_VECTOR, [_VECTOR])
    return builder.call(cgutils.get_or_insert_function(builder.module, kind, f"llvm.{name}.v{LANES}f64"), arguments)


def _narrowed(builder: Any, number: Any, whole: Any) -> Any:
    """Return a number that is not negative in the type of others, or the largest of that type if it is larger."""
    if number.type == whole:
        return number
    largest = number.type(2 ** (whole.width - 1) - 1)
    return builder.trunc(builder.select(builder.icmp_signed("<", number, largest), number, largest), whole)


def _spread(builder: Any, number: Any) -> Any:
    return _everywhere(builder, number, LANES)


def _everywhere(builder: Any, number: Any, lanes: int) -> Any:
    nothing = ir.Constant(ir.VectorType(number.type, lanes), ir.Undefined)
    one = builder.insert_element(nothing, number, ir.IntType(32)(0))
    return builder.shuffle_vector(one, nothing, ir.Constant(ir.VectorType(ir.IntType(32), lanes), [0] * lanes))


def _place(target: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    """Return where the lanes of a number begin."""
    block = target.make_array(signature.args[0])(target, builder, arguments[0])
    start = builder.mul(arguments[1], arguments[1].type(LANES))
    return builder.bitcast(builder.gep(block.data, [start]), _VECTOR.as_pointer())


def _entries(target: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    """Return where eight entries of a row begin."""
    place = _entry(target, builder, signature, arguments)[0]
    return builder.bitcast(place, _VECTOR.as_pointer())


def _entry(target: Any, builder: Any, signature: Any, arguments: Any) -> tuple[Any, Any]:
    """Return where an entry of a matrix is, and the width of the matrix."""
    matrix = target.make_array(signature.args[0])(target, builder, arguments[0])
    width = cgutils.unpack_tuple(builder, matrix.shape, 2)[1]
    return builder.gep(matrix.data, [builder.add(builder.mul(arguments[1], width), arguments[2])]), width


def _column(target: Any, builder: Any, signature: Any, arguments: Any) -> list[Any]:
    """Return where a column of eight rows is."""
    place, width = _entry(target, builder, signature, arguments)
    places = [place]
    for _ in range(LANES - 1):
        places.append(builder.gep(places[-1], [width]))
    return places


def _square(target: Any, builder: Any, signature: Any, arguments: Any) -> list[Any]:
    """Return where the lanes of eight numbers begin, from the column on, in the block given last."""
    block = target.make_array(signature.args[3])(target, builder, arguments[3])
    numbers = [builder.add(arguments[2], arguments[2].type(k)) for k in range(LANES)]
    starts = [builder.gep(block.data, [builder.mul(number, number.type(LANES))]) for number in numbers]
    return [builder.bitcast(start, _VECTOR.as_pointer()) for start in starts]


def _transposed(builder: Any, rows: list[Any]) -> list[Any]:
    """Return the columns of eight rows: blocks of four, of two and of one change places across the diagonal."""
    lanes = range(LANES)
    for half in (4, 2, 1):
        masks = (
            [k + (LANES - half if k & half else 0) for k in lanes],
            [k + (LANES if k & half else half) for k in lanes],
        )
        low, high = (ir.Constant(ir.VectorType(ir.IntType(32), LANES), mask) for mask in masks)
        pairs = [(rows[k & ~half], rows[k | half]) for k in lanes]
        rows = [builder.shuffle_vector(*pairs[k], high if k & half else low) for k in lanes]
    return rows


def _define(symbol: Any, instruction: str) -> None:
    """Let an operator of Python work on lanes, by an instruction of LLVM.

    Unlike an ``overload``, that leaves no function to be compiled.
    """

    @infer_global(symbol)
    class _Template(ConcreteTemplate):
        cases = (_lanes(_lanes, _lanes),)

    @lower_builtin(symbol, Lanes, Lanes)
    def generate(target, builder, signature, arguments):  # type: ignore[no-untyped-def]
        return getattr(builder, instruction)(*arguments)


_define(operator.add, "fadd")
_define(operator.sub, "fsub")
_define(operator.mul, "fmul")
_define(operator.truediv, "fdiv")
