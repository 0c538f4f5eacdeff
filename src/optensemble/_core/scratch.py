"""Room on the stack for a few numbers that a kernel needs while it runs.

``np.empty`` asks for memory, and whoever holds the array must count references to it: that takes a second to compile.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir  # type: ignore[import-untyped]
from numba import extending, types
from numba.core import errors
from numba.np import arrayobj

intrinsic: Any = extending.intrinsic  # numba's type hints lack the option
populate_array: Any = arrayobj.populate_array


@intrinsic(prefer_literal=True)
def scratch(context, count, dtype):  # type: ignore[no-untyped-def]
    """Return a flat array of so many numbers, which must be a constant, and few: ``np.empty`` on the stack.

    It is gone when the function that calls this returns, and may only be handed to functions that this one calls.
    """
    if not isinstance(count, types.IntegerLiteral):
        raise errors.RequireLiteralValue("the size of a room on the stack must be a constant")
    kind = types.Array(dtype.dtype, 1, "C")

    def generate(target, builder, signature, arguments):  # type: ignore[no-untyped-def]
        number = target.get_data_type(kind.dtype)
        with builder.goto_entry_block():
            block = builder.alloca(ir.ArrayType(number, count.literal_value))
        size, length = target.get_abi_sizeof(number), count.literal_value
        array = target.make_array(kind)(target, builder)
        data = builder.bitcast(block, number.as_pointer())
        shape, strides = ([target.get_constant(types.intp, each)] for each in (length, size))
        populate_array(array, data, shape, strides, target.get_constant(types.intp, size), meminfo=None)
        return array._getvalue()

    return kind(count, dtype), generate
