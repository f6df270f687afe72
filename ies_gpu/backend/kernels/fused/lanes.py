"""Eight numbers side by side, as a type for jitted code: one problem in each lane, one instruction for all.

Loops over small matrices are too short for the vectoriser: one point at a time, tangent bases take twice as long. With
this type the algorithm is written as if for one number. Sums need not be reordered, so that results do not depend on
the compiler's mood. Where vectors are shorter, LLVM splits the operations.
"""

import math
import operator
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic, lower_builtin, models, register_model, type_callable

LANES = 8
FUSED = ("contract", "nsz")  # a product and a sum may be one instruction


class Lanes(types.Type):
    """A number of this kind in each lane, "float64" or "float32", or a truth value, "mask"."""

    def __init__(self, kind: str) -> None:
        super().__init__(name=f"{kind} x {LANES}")
        self.kind = kind


NUMBERS, SINGLES, MASK = Lanes("float64"), Lanes("float32"), Lanes("mask")
VECTOR = ir.VectorType(ir.DoubleType(), LANES)


@register_model(Lanes)
class LanesModel(models.PrimitiveModel):
    """The vector register itself, or several where registers are shorter."""

    def __init__(self, manager: Any, kind: Lanes) -> None:
        element = {"float64": ir.DoubleType(), "float32": ir.FloatType(), "mask": ir.IntType(1)}[kind.kind]
        super().__init__(manager, kind, ir.VectorType(element, LANES))


def spread(builder: Any, number: Any, kind: Any) -> Any:
    """A number in all lanes; lanes as they are."""
    if isinstance(kind, Lanes):
        return number
    if isinstance(kind, (types.Integer, types.IntegerLiteral)):
        number = builder.sitofp(number, ir.DoubleType())
    undefined = ir.Constant(ir.VectorType(number.type, LANES), ir.Undefined)
    first = builder.insert_element(undefined, number, ir.IntType(32)(0))
    return builder.shuffle_vector(first, first, ir.Constant(ir.VectorType(ir.IntType(32), LANES), None))


def define(function: Any, emit: Any, result: Any = None) -> None:
    """Give an operator of two numbers a meaning for lanes, and for lanes with one number."""

    @type_callable(function)
    def typed(context: Any) -> Any:
        def resolve(a: Any, b: Any) -> Any:
            for lanes in (NUMBERS, SINGLES):
                if lanes in (a, b) and {a, b} <= {lanes, getattr(types, lanes.kind)}:
                    return result or lanes
            return None

        return resolve

    def lower(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return emit(builder, *(spread(builder, x, kind) for x, kind in zip(args, signature.args, strict=True)))

    for lanes in (NUMBERS, SINGLES):
        number = getattr(types, lanes.kind)
        for pair in ((lanes, lanes), (lanes, number), (number, lanes)):
            lower_builtin(function, *pair)(lower)


for function in (operator.add, operator.iadd):
    define(function, lambda builder, a, b: builder.fadd(a, b, flags=FUSED))
for function in (operator.sub, operator.isub):
    define(function, lambda builder, a, b: builder.fsub(a, b, flags=FUSED))
define(operator.mul, lambda builder, a, b: builder.fmul(a, b, flags=FUSED))
define(operator.truediv, lambda builder, a, b: builder.fdiv(a, b))
define(operator.lt, lambda builder, a, b: builder.fcmp_ordered("<", a, b), MASK)
define(operator.le, lambda builder, a, b: builder.fcmp_ordered("<=", a, b), MASK)
define(operator.gt, lambda builder, a, b: builder.fcmp_ordered(">", a, b), MASK)


def define_unary(function: Any, name: str) -> None:
    """Give a function of one number a meaning for lanes: an intrinsic function of LLVM."""

    @type_callable(function)
    def typed(context: Any) -> Any:
        return lambda a: NUMBERS if a == NUMBERS else None

    @lower_builtin(function, NUMBERS)
    def lower(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        kind = ir.FunctionType(VECTOR, [VECTOR])
        return builder.call(cgutils.get_or_insert_function(builder.module, kind, f"{name}.v{LANES}f64"), args)


define_unary(math.sqrt, "llvm.sqrt")
define_unary(abs, "llvm.fabs")


def _pointer(context: Any, builder: Any, lanes: Any, kind: Any, array: Any, place: Any) -> Any:
    """To lanes at a flat place in a contiguous array."""
    data = context.make_array(kind)(context, builder, array).data
    return builder.bitcast(builder.gep(data, [place]), lanes.as_pointer())


@intrinsic
def load(typing: Any, array: Any, place: Any) -> Any:
    """Eight numbers of a flat array from ``place`` on; as intrinsics do, it returns types and what writes code."""

    def lower(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        lanes = context.get_value_type(signature.return_type)
        pointer = _pointer(context, builder, lanes, signature.args[0], *args)
        return builder.load(pointer, align=array.dtype.bitwidth // 8)

    return (SINGLES if array.dtype == types.float32 else NUMBERS)(array, types.intp), lower


@intrinsic
def store(typing: Any, array: Any, place: Any, value: Any) -> Any:
    """Put lanes, or one number in all of them, into a flat contiguous array of their kind; places count numbers."""

    def lower(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        lanes = spread(builder, args[2], signature.args[2])
        pointer = _pointer(context, builder, lanes.type, signature.args[0], *args[:2])
        builder.store(lanes, pointer, align=array.dtype.bitwidth // 8)
        return context.get_dummy_value()

    return types.none(array, types.intp, value), lower


@intrinsic
def where(typing: Any, mask: Any, a: Any, b: Any) -> Any:
    """``a`` in the lanes of the mask, ``b`` in the others."""

    def lower(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        a, b = (spread(builder, x, kind) for x, kind in zip(args[1:], signature.args[1:], strict=True))
        return builder.select(args[0], a, b)

    return NUMBERS(mask, a, b), lower


@intrinsic
def lanes_of(typing: Any, number: Any) -> Any:
    """A float64 or float32 in all lanes."""

    def lower(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return spread(builder, args[0], signature.args[0])

    return (SINGLES if number == types.float32 else NUMBERS)(number), lower


@intrinsic
def any_of(typing: Any, mask: Any) -> Any:
    """Whether the mask holds in any lane."""

    def lower(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        bits = builder.bitcast(args[0], ir.IntType(LANES))
        return builder.icmp_unsigned("!=", bits, ir.IntType(LANES)(0))

    return types.boolean(mask), lower
