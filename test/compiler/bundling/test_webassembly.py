"""Bundles for WebAssembly give the bits of x86-64-v2, whose vectors have the same width: Node runs them."""

import ctypes
import platform
import shutil
import subprocess
from pathlib import Path

import bundle_models as models
import ml_dtypes
import numpy as np
import onnx
import pytest
from bundle_models import Case
from crossing import same_bits
from node_bundles import NodeError, needs_node, run_in_node
from onnx import TensorProto, helper
from small_networks import small_image, small_network

import stepwell
from stepwell.backends.llvm_cpu.emit_object import by_way_of_f32
from stepwell.bundling import project
from stepwell.bundling.webassembly import custom_section_head

DIGITS = Path(__file__).parents[3] / "examples" / "digits" / "digits.onnx"
SAME_BITS, WASM = "x86-64-v2", "wasm32-simd128"
INTEGERS = [np.int8, np.uint8, np.int16, np.uint16, np.int32, np.uint32, np.int64, np.uint64]
FLOATS = [np.float32, np.float64, np.float16, ml_dtypes.bfloat16]
NUMBERS = [
    0, -0.0, 0.5, -0.5, 1.5, 2.5, -1, 127, 128, -129, 255, 256, 32767.5, 65536, 2147483647, 2147483648.0, -2147483649.0, 4294967296.0, 9.3e18,
    1.9e19, -9.3e18, 1e30, -1e30, np.inf, -np.inf, np.nan, 1e-40, -1e-40, 3e38, 65504, 1e-7, 6e-8, 3.4e38,
]  # fmt: skip
"""Numbers around the ends of all types, some of which no integer holds."""
AT_NIGHT = ("valued", "branch", "booleans", "append")
"""The models whose parts others have too."""

runs_here = pytest.mark.skipif(platform.machine() != "x86_64", reason="compares with code for x86-64")


def written(case: Case, folder: Path, **more: object) -> Path:
    return stepwell.bundle(case.model, folder / case.name, prefix=case.name, target=WASM, **{**case.options, **more})  # type: ignore[arg-type]


def assert_same(got: object, expected: dict[str, np.ndarray], of: str) -> None:
    assert isinstance(got, dict), f"{of}: {got}"
    assert list(got) == list(expected), of
    for name, array in expected.items():
        assert (got[name].dtype, got[name].shape) == (array.dtype, array.shape), f"{of}: {name}"
        assert same_bits(got[name], array), f"{of}: {name}"


def number_model() -> tuple[onnx.ModelProto, dict[str, np.ndarray]]:
    """A model of all conversions between types of numbers and of arithmetic on them, with numbers for which machines differ, or trap."""
    nodes, feed, wanted = [], {}, {}
    types = {dtype: helper.np_dtype_to_tensor_dtype(np.dtype(dtype)) for dtype in INTEGERS + FLOATS}

    def node(operator: str, result: str, kind: int, *operands: str, **attributes: int) -> None:
        nodes.append(helper.make_node(operator, operands, [result], **attributes))
        wanted[result] = kind

    for dtype, kind in types.items():
        name = np.dtype(dtype).name
        if dtype in INTEGERS:
            least, most = np.iinfo(dtype).min, np.iinfo(dtype).max
            below = -1 if least < 0 else 1
            feed[name], feed[f"{name}_other"] = (
                np.array([least, least, least, most, most, 5, 0, 7, least], dtype), np.array([below, 0, 1, 0, most, 0, 0, 2, least], dtype)
            )  # fmt: skip
        else:
            with np.errstate(over="ignore"):
                feed[name] = np.array(NUMBERS).astype(dtype)
            feed[f"{name}_other"] = feed[name][::-1].copy()
        for operator in ("Div", "Mul", "Add", *(("Mod",) if dtype in INTEGERS else ("Sub",)), *(("Max", "Min") if dtype in FLOATS[:3] else ())):
            node(operator, f"{name}_{operator}", kind, name, f"{name}_other")
        for other, number in types.items():
            if other is not dtype and (dtype in FLOATS or other in FLOATS):
                node("Cast", f"{name}_to_{np.dtype(other).name}", number, name, to=number)
    for operator in ("Relu", "Exp", "Sqrt", "Floor", "Round", "Tanh", "Sigmoid", "Log", "Reciprocal", "Erf", "Softmax"):
        node(operator, f"float32_{operator}", TensorProto.FLOAT, "float32")
    inputs = [helper.make_tensor_value_info(name, types[array.dtype.type], array.shape) for name, array in feed.items()]
    outputs = [helper.make_tensor_value_info(name, kind, None) for name, kind in wanted.items()]
    graph = helper.make_graph(nodes, "numbers", inputs, outputs)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), feed


def outputs_of_x86(case: Case) -> list[dict[str, np.ndarray]]:
    """The outputs of the runs of a case, one after the other."""
    options = {name: value for name, value in case.options.items() if name != "bind"}
    model = stepwell.compile(case.model, threads=1, specialise="never", target=SAME_BITS, **options)
    pairs = case.options.get("bind", {})
    if pairs and isinstance(model, stepwell.DynamicModel):
        bound = model.bind(pairs)
        return [bound.run(feed) for feed in case.feeds]
    outputs, state = [], {info.name: np.zeros(info.shape, info.dtype) for info in model.inputs if info.name in pairs}
    for feed in case.feeds:
        made = model.run({**feed, **state})
        state = {taker: made.pop(giver) for taker, giver in pairs.items()}
        outputs.append(made)
    return outputs


@runs_here
def test_a_module_gives_the_bits_of_x86(tmp_path: Path) -> None:
    """Also where numbers do not fit, and where a machine would trap: the values are those of x86."""
    numbers, feed = number_model()
    state = [models.cache_case(), models.cell_case()]
    few = [Case(case.name, case.model, case.feeds[:70], case.options) for case in state]
    compare_with_x86([
        *(case for case in models.plain_cases() if case.name not in AT_NIGHT), *few, Case("numbers", numbers, [feed]),
        Case("digits", onnx.load(DIGITS), [{"image": models.floats(1, 1, 8, 8) * 8} for _ in range(3)], {"shapes": {"image": (1, 1, 8, 8)}}),
    ], tmp_path)  # fmt: skip


@runs_here
@pytest.mark.nightly
def test_more_modules_give_the_bits_of_x86(tmp_path: Path) -> None:
    network = Case("squeezenet", small_network("squeezenet"), [{"data_0": small_image(1)}])
    compare_with_x86([*(case for case in models.plain_cases() if case.name in AT_NIGHT), network], tmp_path)


def compare_with_x86(cases: list[Case], tmp_path: Path) -> None:
    needs_node()
    bundles = [(written(case, tmp_path, embed=case.name in ("late", "numbers")), [*case.feeds, None, case.feeds[0]]) for case in cases]
    for case, results in zip(cases, run_in_node(bundles, tmp_path), strict=True):
        expected = outputs_of_x86(case)
        for result, wanted in zip(results, [*expected, expected[0]], strict=True):  # the last run begins without a state, as the first
            assert_same(result, wanted, case.name)


def test_a_module_is_small_and_needs_nothing(tmp_path: Path) -> None:
    needs_node()
    for embed in (False, True):
        folder = stepwell.bundle(DIGITS, tmp_path / f"{embed}", shapes={"image": (1, 1, 8, 8)}, target=WASM, embed=embed)
        files = {file.name: file.read_bytes() for file in folder.iterdir()}
        assert {*files} == {"digits.wasm", "digits.mjs", "digits.d.mts", "manifest.json", *([] if embed else ["digits.weights"])}
        if not embed:
            code, kept = files["digits.wasm"], files["digits.weights"]
            assert len(code) <= 40_000
        else:
            assert files["digits.wasm"] == code + custom_section_head("stepwell.weights", len(kept)) + kept
    sections, at = [], 8
    while at < len(code):
        size, shift, kind = 0, 0, code[at]
        while True:
            at += 1
            size |= (code[at] & 127) << shift
            shift += 7
            if code[at] < 128:
                break
        sections.append(kind)
        at += 1 + size
    assert 2 not in sections  # no section of imports


def test_memory_of_a_module_is_taken_and_given_back(tmp_path: Path) -> None:
    node, case = needs_node(), models.plain_cases()[0]
    folder = written(case, tmp_path)
    done = subprocess.run([node, str(Path(__file__).with_name("memory.mjs")), str(folder / "mlp.wasm")], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_a_multiply_add_of_a_module_is_rounded_once(tmp_path: Path) -> None:
    """Also where the sum in doubles lies halfway between two floats, by what it lost."""
    compiler = shutil.which("cc") or pytest.skip("there is no C compiler")
    text = project.template("wasm.c", "any")
    body = text[text.index("float fmaf(") : text.index("/* ---- The model")].replace("fmaf", "own_fmaf")
    (tmp_path / "own.c").write_text(f"#include <stdint.h>\n#include <string.h>\n{body}")
    subprocess.run([compiler, "-O1", "-ffp-contract=off", "-shared", "-fPIC", str(tmp_path / "own.c"), "-o", str(tmp_path / "own.so")], check=True)
    own, exact = ctypes.CDLL(str(tmp_path / "own.so")).own_fmaf, ctypes.CDLL("libm.so.6").fmaf
    own.restype = exact.restype = ctypes.c_float
    halfway = [(1 + 2**-12, 1 + 2**-12, sign * 2.0**power) for sign in (1, -1) for power in (-80, -60, -130, -149)]
    small = [(2**-75 * (1 + 2**-20), 2.0**-75, sign * number * 2.0**-149) for sign in (1, -1) for number in (0, 1, 2, 3)]
    ends = [(3e38, 2.0, -3e38), (3e38, 3e38, -np.inf), (0.0, np.inf, 1.0), (-0.0, 1.0, 0.0), (-0.0, 1.0, -0.0), (1.0, 1.0, -1.0), (1.0, np.nan, 1.0)]
    words = np.random.default_rng(50).integers(0, 1 << 32, (2000, 3), np.uint64).astype(np.uint32).view(np.float32)
    for numbers in [*halfway, *((-x, y, z) for x, y, z in halfway), *small, *ends, *words.tolist()]:
        got, wanted = (np.float32(function(*map(ctypes.c_float, numbers))) for function in (own, exact))
        assert got.tobytes() == wanted.tobytes() or (np.isnan(got) and np.isnan(wanted)), numbers


def test_bad_input_is_one_clear_error_in_node(tmp_path: Path) -> None:
    cases = {case.name: case for case in models.plain_cases()}
    limits = stepwell.Limits(workspace_bytes=1 << 20, value_bytes=1 << 16, loop_rounds=20)
    x, z = models.floats(3, 8), models.floats(3, 2)
    wrong: dict[str, list[tuple[dict[str, np.ndarray], str, str]]] = {
        "free": [
            ({"x": x, "z": models.floats(4, 2)}, "bad sizes", "input 'z': expected n = 3, as in another input, got 4"),
            ({"x": models.floats(3, 7), "z": z}, "bad argument", "input 'x': expected nx8, got 3x7"),
            ({"x": x.astype(np.float64), "z": z}, "bad argument", "input 'x': expected Float32Array for float32, got Float64Array"),
            ({"x": x}, "bad argument", "input 'z': expected an array, got undefined"),
            ({"x": x, "z": z, "q": z}, "bad argument", "unknown input 'q', expected x, z"),
            ({"x": models.floats(9000, 8), "z": models.floats(9000, 1)}, "limit", "limit value_bytes"),
        ],
        "index": [({"x": models.floats(5, 6), "at": np.array([1, 5])}, "bad index", "index 5 is out of range for dimension 0 of size 5")],
        "loop": [({"x": models.floats(2, 8), "rounds": np.array(1000), "most": np.array(1e9, np.float32)}, "limit", "limit loop_rounds")],
    }
    bundles = [(written(cases[name], tmp_path, limits=limits), [*(feed for feed, *_ in runs), cases[name].feeds[0]]) for name, runs in wrong.items()]
    damaged = written(cases["mlp"], tmp_path)
    weights = bytearray((damaged / "mlp.weights").read_bytes())
    weights[-1] ^= 1
    (damaged / "mlp.weights").write_bytes(weights)
    other = written(Case("other", cases["mlp"].model, []), tmp_path)
    (other / "other.weights").write_bytes(weights[:-4])
    got = run_in_node([*bundles, (damaged, cases["mlp"].feeds[:1]), (other, cases["mlp"].feeds[:1])], tmp_path)
    for results, runs in zip(got, wrong.values(), strict=False):
        for result, (_, kind, message) in zip(results, runs, strict=False):
            assert isinstance(result, NodeError)
            assert (result.name, result.kind) == ("StepwellError", kind)
            assert message in result.message
        assert isinstance(results[-1], dict)  # a failure does no harm
    messages = ("the weights are damaged: they have another digest", "expected 4352 bytes, got 4348")
    for results, message in zip(got[len(wrong) :], messages, strict=True):
        assert isinstance(results[0], NodeError)
        assert results[0].kind == "bad weights"
        assert message in results[0].message


def test_kinds_and_tools_are_refused_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    case = models.plain_cases()[0]
    for options, match in (
        ({"target": WASM, "kinds": ("shared",)}, "kinds: expected some of module for target wasm32-simd128, got"),
        ({"target": "x86-64-v2", "kinds": ("module",)}, "kinds: expected some of static, shared, object for target x86-64-v2, got"),
    ):
        with pytest.raises(stepwell.InputError, match=match):
            stepwell.bundle(case.model, tmp_path / "no", prefix="mlp", **options)  # type: ignore[arg-type]
    monkeypatch.setenv("CC", "false")
    with pytest.raises(stepwell.ResourceError, match=r"false makes no modules; .*apt install clang lld wasi-libc libclang-rt-dev-wasm32"):
        written(case, tmp_path)
    monkeypatch.delenv("CC")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(stepwell.ResourceError, match=r"there is no clang; WebAssembly needs clang .*apt install clang lld"):
        written(case, tmp_path)
    assert not (tmp_path / "no").exists()


def test_halves_are_compared_and_widened_as_f32() -> None:
    compared = by_way_of_f32("  %5 = fcmp uno <16 x half> %3, zeroinitializer, !dbg !6")
    assert compared.splitlines() == [
        "  %wide.5.x = fpext <16 x half> %3 to <16 x float>", "  %wide.5.y = fpext <16 x half> zeroinitializer to <16 x float>",
        "  %5 = fcmp uno <16 x float> %wide.5.x, %wide.5.y, !dbg !6",
    ]  # fmt: skip
    assert by_way_of_f32("  %a = fpext half %x to double") == "  %wide.a = fpext half %x to float\n  %a = fpext float %wide.a to double"
    vectors = by_way_of_f32("  %a = fpext <4 x half> %x to <4 x double>")
    assert vectors == "  %wide.a = fpext <4 x half> %x to <4 x float>\n  %a = fpext <4 x float> %wide.a to <4 x double>"
    for same in ("  %5 = fcmp olt half %3, %4", "  %5 = fcmp olt <4 x float> %3, %4", "  %5 = fpext <4 x half> %3 to <4 x float>"):
        assert by_way_of_f32(same) == same
