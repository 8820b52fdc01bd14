"""What users may ask for, how they may write it, and what they hear if they write it wrongly."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dflow_core.errors import CompileError, OptionError
from dflow_core.graph import Framework, GraphProcessPoint
from dflow_core.types import DataType, TensorSpec
from dflow_pne_cpu.facts import FileFacts
from dflow_pne_cpu.names import find_name, near, spellings, split_list
from dflow_pne_cpu.recipe import InputRecipe, Recipe, expected_io, make_recipe, parse_input_shape
from dflow_pne_cpu.settings import Asked, InputDesc, read_settings

F = DataType.FLOAT
FACTS = FileFacts(
    inputs=(TensorSpec(F, (3,), "Placeholder"), TensorSpec(F, (3,), "Placeholder_1")),
    outputs=(TensorSpec(F, (3,), "low"), TensorSpec(F, None, "high")),
    tensors={"low": 0, "high": 0, "split": 2},
)


def ask(tmp_path: Path, config: object = None, options: dict[str, str] | None = None, **settings: object) -> Asked:
    path = ""
    if config is not None:
        (tmp_path / "config.json").write_text(config if isinstance(config, str) else json.dumps(config))
        path = str(tmp_path / "config.json")
    point = GraphProcessPoint(Framework.ONNX, "model.onnx", compile_config_path=path, **settings)
    return read_settings(point, options or {})


def test_nothing_asked_is_float32_on_whatever_library_fits(tmp_path: Path) -> None:
    assert ask(tmp_path) == Asked(runtime="auto", precision="f32")


@pytest.mark.parametrize(("word", "meaning"), [("f32", "f32"), ("FP32", "f32"), ("bf16", "bf16"), ("bfloat16", "bf16")])
def test_precision_has_several_spellings(tmp_path: Path, word: str, meaning: str) -> None:
    assert ask(tmp_path, precision=word).precision == meaning


@pytest.mark.parametrize("word", ["f16", "fp16", "float16"])
def test_half_precision_is_refused_with_the_reason(tmp_path: Path, word: str) -> None:
    with pytest.raises(OptionError, match="wrong answers"):
        ask(tmp_path, precision=word)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"precison": "f32"}, "did you mean 'precision'"),
        ({"runtime": "openvin"}, "did you mean 'openvino'"),
        ({"precision": "f23"}, "did you mean 'f32'"),
        ({"placement": "DEVICE"}, "the CPU engine runs models on the host"),
        ({"load_params": {"input_data_name": "x"}}, "did you mean 'input_data_names'"),
    ],
)
def test_unknown_settings_are_refused_with_the_nearest_known(
    tmp_path: Path, settings: dict[str, object], words: str
) -> None:
    with pytest.raises(OptionError, match=words):
        ask(tmp_path, **settings)


def test_options_count_where_the_point_says_nothing(tmp_path: Path) -> None:
    options = {"plugin.cpu.precision": "bf16", "plugin.cpu.runtime": "openvino", "plugin.other.x": "1", "engine": "CPU"}
    asked = ask(tmp_path, options=options, precision="f32")
    assert (asked.runtime, asked.precision) == ("openvino", "f32")
    with pytest.raises(OptionError, match="plugin.cpu.runtime"):
        ask(tmp_path, options={"plugin.cpu.runtim": "auto"})


@pytest.mark.parametrize(("built", "told"), [("HOST", 0), ("DEVICE", 1)])
def test_a_config_that_names_another_place_is_told_of(tmp_path: Path, built: str, told: int) -> None:
    asked = ask(tmp_path, {"build_options": {"ge.exec.placement": built}}, placement="host")
    assert len(asked.notes) == told and all("ge.exec.placement=DEVICE" in note for note in asked.notes)


def test_input_descriptions_are_read_in_order(tmp_path: Path) -> None:
    config = {"inputs_tensor_desc": [{"data_type": "DT_INT32", "shape": [2, -1], "format": "NCHW"}, {}]}
    assert ask(tmp_path, config).input_descs == (InputDesc(DataType.INT32, (2, -1)), InputDesc())


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ("{", "is no JSON"),
        ("[]", "must be a JSON object"),
        ({"build_options": {"ge.inputShape": 1}}, "object of texts"),
        ({"inputs_tensor_desc": {}}, "list of objects"),
        ({"inputs_tensor_desc": [{"data_type": "DT_INT23"}]}, "did you mean 'DT_INT32'"),
        ({"inputs_tensor_desc": [{"format": "NHCW"}]}, "unknown format"),
        ({"inputs_tensor_desc": [{"shape": [1.5]}]}, "list of sizes"),
        ({"inputs_tensor_desc": [{"shape": [-2]}]}, "list of sizes"),
        ({"build_options": {"ge.exec.precision_mode": "force_fp23"}}, "did you mean 'force_fp"),
    ],
)
def test_a_wrong_compile_config_is_refused(tmp_path: Path, config: object, words: str) -> None:
    with pytest.raises(OptionError, match=words):
        ask(tmp_path, config)


def test_a_missing_compile_config_is_named(tmp_path: Path) -> None:
    point = GraphProcessPoint(Framework.ONNX, "m.onnx", compile_config_path=tmp_path / "no.json")
    with pytest.raises(OptionError, match=r"no\.json cannot be read"):
        read_settings(point, {})


def test_unknown_keys_of_the_config_are_ignored_but_told(tmp_path: Path) -> None:
    asked = ask(tmp_path, {"inputs_tensor_descs": [], "build_options": {"ge.something": "x", "ge.outputMaxSize": "9"}})
    assert len(asked.notes) == 1
    assert "'inputs_tensor_descs' is ignored (did you mean 'inputs_tensor_desc'?)" in asked.notes[0]


def test_the_documents_own_misspelling_is_understood(tmp_path: Path) -> None:
    assert ask(tmp_path, {"build_option": {"ge.inputShape": "1,3"}}).input_shape == "1,3"


@pytest.mark.parametrize(
    ("mode", "precision", "told"),
    [
        ("force_fp32", "f32", 0), ("mixed_bfloat16", "bf16", 0), ("force_fp16", "f32", 1),
        ("allow_mix_precision", "f32", 0),
    ],
)
def test_precision_modes_are_translated(tmp_path: Path, mode: str, precision: str, told: int) -> None:
    asked = ask(tmp_path, {"build_options": {"ge.exec.precision_mode": mode}})
    assert (asked.precision, len(asked.notes)) == (precision, told)


def test_keys_of_an_npu_parser_are_ignored_but_told(tmp_path: Path) -> None:
    asked = ask(tmp_path, load_params={"input_fp16_nodes": "x"})
    assert "no meaning on a CPU" in asked.notes[0]


@pytest.mark.parametrize(
    ("text", "entries"),
    [
        ("x:1,3,-1;y:1~8,4", [("x", ((1, 1), (3, 3), (0, -1))), ("y", ((1, 8), (4, 4)))]),
        ("1,3;4", [("", ((1, 1), (3, 3))), ("", ((4, 4),))]),
        ("Placeholder:0:2,3", [("Placeholder:0", ((2, 2), (3, 3)))]),
        ("2~-1", [("", ((2, -1),))]),
        ("", []),
    ],
)
def test_input_shapes_are_understood(text: str, entries: object) -> None:
    assert parse_input_shape(text) == entries


@pytest.mark.parametrize("text", ["x:1,a", "x:-2", "x:5~3", "1~"])
def test_wrong_input_shapes_are_refused(text: str) -> None:
    with pytest.raises(OptionError, match="is no size"):
        parse_input_shape(text)


def test_names_work_with_and_without_port_zero() -> None:
    assert spellings("a") == ("a", "a:0")
    assert spellings("a:0") == ("a:0", "a")
    assert spellings("a:1") == ("a:1",)
    assert find_name("Placeholder:0", ["x", "Placeholder"]) == 1
    assert find_name("Placeholder", ["Placeholder:0"]) == 0
    assert find_name("no", ["x"]) == -1
    assert split_list(" a, b;c ,") == ("a", "b", "c")
    assert near("zzz", []) == "known: none"


@pytest.mark.parametrize("names", ["Placeholder_1,Placeholder", "Placeholder_1:0, Placeholder:0"])
def test_inputs_come_in_the_order_asked_for(names: str) -> None:
    recipe = make_recipe(FACTS, Asked(input_names=split_list(names)), "m")
    assert [i.name for i in recipe.inputs] == ["Placeholder_1", "Placeholder"]


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        (Asked(input_names=("Placeholder",)), "name each input once"),
        (Asked(input_names=("Placeholder", "Placeholder")), "name each input once"),
        (Asked(input_names=("Placeholder", "Placeholder_2")), "did you mean 'Placeholder"),
        (Asked(output_names=("lo",)), "did you mean 'low'"),
        (Asked(output_names=("low", "low")), "named twice"),
        (Asked(output_names=("split:2",)), "has no port '2'; it has 2"),
    ],
)
def test_names_that_do_not_fit_are_refused(asked: Asked, words: str) -> None:
    with pytest.raises(CompileError, match=words):
        make_recipe(FACTS, asked, "m")


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        (Asked(input_descs=(InputDesc(),)), "has 1 entries, but the model m has 2 inputs: Placeholder, Placeholder_1"),
        (Asked(input_shape="1;2;3"), "has 3 shapes, but the model m has 2 inputs"),
    ],
)
def test_a_wrong_number_of_descriptions_is_refused(asked: Asked, words: str) -> None:
    with pytest.raises(OptionError, match=words):
        make_recipe(FACTS, asked, "m")


def test_outputs_may_be_any_tensor_of_a_graph() -> None:
    recipe = make_recipe(FACTS, Asked(output_names=("split:1", "high:0", "split:0")), "m")
    assert recipe.outputs == ("split:1", "high", "split")


def test_what_is_expected_follows_the_recipe() -> None:
    asked = Asked(input_descs=(InputDesc(DataType.INT32, (2, 3)), InputDesc(DataType.INT32)))
    inputs, outputs = expected_io(FACTS, make_recipe(FACTS, asked, "m"))
    assert [str(spec) for spec in inputs] == ["int32[2, 3]", "int32[3]"]
    assert [str(spec) for spec in outputs] == ["undefined[...]", "undefined[...]"]


def test_a_recipe_survives_text() -> None:
    changed = InputRecipe("x", DataType.FLOAT, ((1, 8), (0, -1)))
    recipe = Recipe((changed, InputRecipe("y")), ("a", "b:1"), False, "bf16")
    assert Recipe.from_text(recipe.to_text()) == recipe


@pytest.mark.parametrize("text", ["0", "65", "two", "-1", ""])
def test_streams_are_a_whole_number(bench, text: str) -> None:
    with pytest.raises(OptionError, match="streams"):
        bench.compile(bench.point("conv_small.onnx", streams=text))
