"""The vector maths by results: errors within the declared bounds, specials as C has them, lanes that do not depend on the vector."""

import subprocess
import sys
from itertools import product
from pathlib import Path

import check_vector_math as measuring
import ml_dtypes
import numpy as np
import onnx
import pytest
from commands import Commands
from every import every
from onnx import TensorProto, helper

import stepwell
from stepwell.backends.llvm_cpu.objects import split_module
from stepwell.backends.llvm_cpu.pool import compile_units
from stepwell.dialects.target.registry import resolve
from stepwell.options import LIBM
from stepwell.passes.affine_to_llvm.vector_math.expansions import EXPANSIONS
from stepwell.passes.affine_to_llvm.vector_math.power import CONSTANT_EXPONENTS
from stepwell.runtime.loader import load

ROOT = Path(__file__).resolve().parents[3]
WIDTHS = (16, 4, 1)
STRIDE = 1 << 14  # some 262 thousand f32s
NAMES = [measuring.short(op) for op in EXPANSIONS]


@pytest.fixture(scope="module")
def compiled():
    return measuring.Compiled(EXPANSIONS.values(), WIDTHS)


@pytest.mark.parametrize("name", NAMES)
def test_errors_are_within_the_bound_and_lanes_like_scalars(compiled, name):
    worst = measuring.measure(compiled, name, measuring.points(name, STRIDE), WIDTHS)
    assert worst.count > 200_000
    assert worst.ulps <= EXPANSIONS[f"math.{name}"].ulps, f"at {worst.at}: {worst.got!r}"
    assert worst.differing == 0
    assert worst.ulps > 0.5  # or the measure is not one: no function is rounded right everywhere


def test_the_measure_knows_what_is_wrong():
    one, tiny, huge = np.float64(1), np.float64(2.0**-140), np.float64(1e39)
    after = np.nextafter(np.float32(1), np.float32(2))
    values = [after, np.float32(np.nan), 2.0**-140 + 2.0**-149, np.inf, -np.float32(0), 3.4028235e38]
    found = measuring.ulps(np.array(values, np.float32), np.array([one, one, tiny, huge, 0.0, np.inf]))
    np.testing.assert_array_equal(found, [1.0, np.inf, 1.0, 0.0, np.inf, 1.0])


@every(
    ("name", "x", "wanted"),
    [
        ("exp", [np.inf, -np.inf, -0.0, 88.8, -104.0, -103.0], [np.inf, 0.0, 1.0, np.inf, 0.0, 2.0**-149]),
        ("exp2", [127.0, 128.0, -149.0, -150.0, -126.0], [2.0**127, np.inf, 2.0**-149, 0.0, 2.0**-126]),
        ("expm1", [-np.inf, -0.0, 2.0**-149, -30.0, np.inf], [-1.0, -0.0, 2.0**-149, -1.0, np.inf]),
        ("log", [0.0, -0.0, 1.0, np.inf, -1.0, -np.inf], [-np.inf, -np.inf, 0.0, np.inf, np.nan, np.nan]),
        ("log2", [2.0**-149, 2.0**-126, 1.0, 2.0**127, 0.0], [-149.0, -126.0, 0.0, 127.0, -np.inf]),
        ("log10", [1.0, 10.0, 1000.0, 0.0, np.inf], [0.0, 1.0, 3.0, -np.inf, np.inf]),
        ("log1p", [-1.0, -0.0, 2.0**-149, -2.0, np.inf], [-np.inf, -0.0, 2.0**-149, np.nan, np.inf]),
        ("tanh", [-np.inf, np.inf, -0.0, 2.0**-149, 20.0], [-1.0, 1.0, -0.0, 2.0**-149, 1.0]),
        ("erf", [-np.inf, np.inf, -0.0, 4.0, -5.0], [-1.0, 1.0, -0.0, 1.0, -1.0]),
        ("sin", [-0.0, np.inf, -np.inf, 2.0**-149], [-0.0, np.nan, np.nan, 2.0**-149]),
        ("cos", [-0.0, np.inf, 2.0**-149], [1.0, np.nan, 1.0]),
        ("tan", [-0.0, -np.inf, 2.0**-149], [-0.0, np.nan, 2.0**-149]),
        ("asin", [1.5, -0.0], [np.nan, -0.0]),
        ("acos", [1.0, -1.5], [0.0, np.nan]),
        ("atan", [-0.0, np.inf], [-0.0, np.float32(np.pi / 2)]),
        ("atanh", [1.0, -1.0, 1.5, -0.0], [np.inf, -np.inf, np.nan, -0.0]),
        ("acosh", [1.0, 0.5, np.inf, -3.0], [0.0, np.nan, np.inf, np.nan]),
        ("asinh", [-np.inf, -0.0], [-np.inf, -0.0]),
        ("sinh", [-np.inf, -0.0, 90.0], [-np.inf, -0.0, np.inf]),
        ("cosh", [-np.inf, -0.0, 90.0], [np.inf, 1.0, np.inf]),
    ],
)
def test_special_values(compiled, name, x, wanted):
    for width in WIDTHS:
        got = compiled(name, width, np.array(x, np.float32))
        np.testing.assert_array_equal(got, np.array(wanted, np.float32))
        np.testing.assert_array_equal(np.signbit(got), np.signbit(np.where(np.isnan(wanted), got, wanted)))


@every(
    ("x", "y", "wanted"),
    [
        (np.nan, 0.0, 1.0), (1.0, np.nan, 1.0), (-1.0, np.nan, np.nan), (-1.0, np.inf, 1.0), (-1.0, -np.inf, 1.0), (0.5, np.inf, 0.0),
        (2.0, np.inf, np.inf), (2.0, -np.inf, 0.0), (-0.0, 3.0, -0.0), (-0.0, 2.0, 0.0), (-0.0, -3.0, -np.inf), (0.0, -2.0, np.inf),
        (-np.inf, 3.0, -np.inf), (-np.inf, -3.0, -0.0), (-np.inf, 0.5, np.inf), (-8.0, 1 / 3, np.nan), (-2.0, 3.0, -8.0), (-2.0, 2.0**24, np.inf),
        (-(1 + 2.0**-23), 2.0**23 + 1, -np.e), (2.0, -149.0, 2.0**-149), (2.0, 128.0, np.inf),
    ],
)  # fmt: skip
def test_special_powers(compiled, x, y, wanted):
    for width in WIDTHS:
        got = compiled("powf", width, np.full(16, x, np.float32), np.full(16, y, np.float32))
        np.testing.assert_allclose(got, np.full(16, wanted, np.float32), rtol=1e-6)
        assert np.all(np.isnan(got) | (np.signbit(got) == np.signbit(wanted)))


@pytest.mark.parametrize("exponent", CONSTANT_EXPONENTS)
def test_powers_with_constant_exponents(exponent):
    run = one_function(f"%c = arith.constant {exponent:e} : f32\n %r = math.powf %x, %c : f32")
    x = np.concatenate([measuring.SPECIALS, -measuring.SPECIALS, *(x[: 1 << 14] for x in measuring.sample(1 << 16))])
    with np.errstate(all="ignore"):
        # An array of exponents: numpy takes sqrt for a scalar 0.5, which is not the same for -0 and -inf.
        error = measuring.ulps(run(x), np.power(x.astype(np.float64), np.full(x.shape, exponent)))
    assert error.max() <= (2.0 if exponent in (3.0, -0.5) else 0.5)  # those two are rounded twice


@pytest.mark.parametrize(("dtype", "numpy_dtype"), [("f16", np.float16), ("bf16", ml_dtypes.bfloat16)])
def test_narrow_floats_are_rounded_once(compiled, dtype, numpy_dtype):
    x = np.arange(1 << 16, dtype=np.uint16).view(numpy_dtype)
    got = one_function(f"%r = math.tanh %x : {dtype}", dtype, numpy_dtype)(x)
    wanted = compiled("tanh", 16, x.astype(np.float32)).astype(numpy_dtype)
    np.testing.assert_array_equal(got.astype(np.float32), wanted.astype(np.float32))


def test_libm_instead(compiled):
    libm = measuring.Compiled(EXPANSIONS.values(), (8,), disable=(LIBM,))
    x = np.concatenate([measuring.around(value, 64) for value in (0.3, 1.0, 3.0, 20.0)])
    differing = 0
    for name in NAMES:
        operands = (x,) if name != "powf" else (np.abs(x), x[::-1].copy())
        error = measuring.ulps(libm(name, 8, *operands), measuring.exact(name, *operands))
        assert error.max() <= 4.0, name  # what glibc promises, and Kahan's formulas for log1p and expm1 keep
        differing += np.count_nonzero(libm(name, 8, *operands) != compiled(name, 16, *operands))
    assert differing > 0  # or it was not libm


@pytest.mark.skipif(not resolve("host").capabilities.power_scaling, reason="it takes a machine with AVX-512")
@pytest.mark.parametrize("name", ["exp", "exp2", "powf"])
def test_scaling_by_an_instruction_gives_the_same_bits(name):
    widths = (32, 16, 8, 4, 2, 1)
    scaling, stepping = (measuring.Compiled([EXPANSIONS[f"math.{name}"]], widths, target=target) for target in (resolve("host"), None))
    for width, operands in product(widths, measuring.points(name, STRIDE * 4)):
        ours, theirs = scaling(name, width, *operands), stepping(name, width, *operands)
        np.testing.assert_array_equal(ours, theirs)  # which takes NaNs for equal
        np.testing.assert_array_equal(np.signbit(ours), np.signbit(np.where(np.isnan(ours), ours, theirs)))


def small_model():
    nodes = [
        helper.make_node("Erf", ["x"], ["a"]), helper.make_node("Tanh", ["a"], ["b"]), helper.make_node("Sigmoid", ["b"], ["c"]),
        helper.make_node("Softmax", ["c"], ["y"], axis=1),
    ]  # fmt: skip
    sides = [[helper.make_tensor_value_info(name, TensorProto.FLOAT, [3, 37])] for name in ("x", "y")]
    return helper.make_model(helper.make_graph(nodes, "g", *sides), opset_imports=[helper.make_opsetid("", 18)], ir_version=9)


@pytest.mark.parametrize("libm", [False, True])
def test_a_model_with_and_without_libm(libm):
    runtime = pytest.importorskip("onnxruntime")
    model = small_model()
    compiled = stepwell.compile(model, libm=libm)
    assert any(f"@{f}" in compiled.ir("llvm") or f"intr.{f}" in compiled.ir("llvm") for f in ("erff", "tanhf", "tanh", "exp")) == libm
    x = np.random.default_rng(5).normal(0, 2, (3, 37)).astype(np.float32)
    session = runtime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    np.testing.assert_allclose(compiled.run({"x": x})["y"], session.run(None, {"x": x})[0], rtol=16 * np.finfo(np.float32).eps)


def test_libm_from_the_command_line(tmp_path, capsys):
    onnx.save(small_model(), tmp_path / "small.onnx")
    texts = []
    for options in ([], ["--libm"]):
        out = tmp_path / "out.mlir"
        ended = Commands(capsys).stepwell("compile", tmp_path / "small.onnx", "--emit", "llvm", "-o", out, *options)
        assert ended.status == 0, ended.err
        texts.append(out.read_text())
    assert "@erff" not in texts[0]
    assert "@erff" in texts[1]


def test_the_page_states_the_declared_bounds():
    page = measuring.PAGE.read_text(encoding="utf-8")
    assert page == measuring.page_with_table(page), "run scripts/check_vector_math.py --docs"


@pytest.mark.nightly
def test_coefficients_are_what_the_script_makes():
    pytest.importorskip("mpmath")
    done = subprocess.run([sys.executable, ROOT / "scripts" / "fit_polynomials.py", "--check"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def one_function(body, dtype="f32", numpy_dtype=np.float32):
    """A function on arrays whose element is `%r` as computed from `%x`."""
    code = load(compile_units(split_module(lowered(body, dtype))), ["f"])
    function = code.function("f", 2)

    def run(x):
        out = np.empty(measuring.CHUNK, numpy_dtype)
        given = np.zeros(measuring.CHUNK, numpy_dtype)
        results = []
        for begin in range(0, x.size, measuring.CHUNK):
            part = x[begin : begin + measuring.CHUNK]
            given[: part.size] = part
            function(given.ctypes.data, out.ctypes.data)
            results.append(out[: part.size].copy())
        return np.concatenate(results)

    return run


def lowered(body, dtype):
    memref = f"memref<{measuring.CHUNK}x{dtype}>"
    return measuring.lower(f"""
      func.func @f(%a: {memref}, %b: {memref}) {{
        affine.for %i = 0 to {measuring.CHUNK} {{
          %x = affine.load %a[%i] : {memref}
          {body}
          affine.store %r, %b[%i] : {memref}
        }}
        return
      }}""")
