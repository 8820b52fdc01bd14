"""Scripts as users of DataFlow write them, run as they are."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).parent / "scripts"

CMAKE = """
cmake_minimum_required(VERSION 3.14)
project(UDF)
set(CMAKE_CXX_COMPILER ${TOOLCHAIN})
set(CMAKE_LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/${RELEASE_DIR})
add_library(${UDF_TARGET_LIB} SHARED ${CMAKE_CURRENT_LIST_DIR}/sums.cpp)
target_include_directories(${UDF_TARGET_LIB} PRIVATE $ENV{ASCEND_HOME_PATH}/include)
target_compile_definitions(${UDF_TARGET_LIB} PRIVATE _GLIBCXX_USE_CXX11_ABI=0)
target_compile_options(${UDF_TARGET_LIB} PRIVATE -O1 -std=c++11 -fPIC)
"""

SUMS = """
#include "flow_func/meta_flow_func.h"
using namespace FlowFunc;

// Output 0 is what the model says the sum is; output 1 the same, scaled.
class Sums : public MetaFlowFunc {
public:
    int32_t Init() override { return context_->GetAttr("factor", factor_); }

    int32_t Proc(const std::vector<std::shared_ptr<FlowMsg>> &inputs) override
    {
        std::vector<std::shared_ptr<FlowMsg>> found;
        const int32_t code = context_->RunFlowModel("adder", inputs, found, 20000);
        if (code != FLOW_FUNC_SUCCESS || found.size() != 1) {
            return FLOW_FUNC_FAILED;
        }
        const Tensor *sum = found[0]->GetTensor();
        const auto scaled = context_->AllocTensorMsg(sum->GetShape(), sum->GetDataType());
        const float *from = static_cast<const float *>(sum->GetData());
        float *to = static_cast<float *>(scaled->GetTensor()->GetData());
        for (int64_t i = 0; i < sum->GetElementCnt(); ++i) {
            to[i] = from[i] * factor_;
        }
        const int32_t first = context_->SetOutput(0, found[0]);
        return first == FLOW_FUNC_SUCCESS ? context_->SetOutput(1, scaled) : first;
    }

private:
    float factor_ = 1.0F;
};
REGISTER_FLOW_FUNC("sums", Sums);
"""


@pytest.fixture
def cpp_config(tmp_path: Path) -> Path:
    """The config file of a C++ project."""
    project = tmp_path / "sums"
    project.mkdir()
    (project / "CMakeLists.txt").write_text(CMAKE, encoding="utf-8")
    (project / "sums.cpp").write_text(SUMS, encoding="utf-8")
    config = {
        "func_list": [{"func_name": "sums", "inputs_index": [0, 1], "outputs_index": [0, 1]}], "input_num": 2,
        "output_num": 2, "workspace": str(project), "target_bin": "libsums.so",
    }
    (project / "sums.json").write_text(json.dumps(config), encoding="utf-8")
    return project / "sums.json"


def run(folder: Path, script: str, *arguments: object) -> list[str]:
    """The lines a script prints."""
    done = subprocess.run(
        [sys.executable, str(SCRIPTS / f"{script}.py"), *map(str, arguments)], cwd=folder, capture_output=True,
        text=True, timeout=100,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.splitlines()


@pytest.mark.timeout(120)
def test_a_cpp_function_calls_a_model_and_a_model_gets_batches_by_time(tmp_path, models, cpp_config) -> None:
    assert run(tmp_path, "basic", models, cpp_config) == [
        "0 [11.0, 22.0, 33.0] 0 30", "0 [44.0, 55.0, 66.0] 30 60",
    ]


def test_functions_of_a_class_are_controlled_by_another_node(tmp_path) -> None:
    assert run(tmp_path, "controlled") == [
        "small [[3]]", "large [[8]]", "answer ([{'limit': 9, 'passed': 1}], 0)", "small [[8]]",
        "nothing more ([], 545601)",
    ]


def test_models_of_two_frameworks_are_chained_with_aliases_and_a_deploy_file(tmp_path, models) -> None:
    lines = run(tmp_path, "chained", models)
    assert lines[-3:] == [
        "[['onnx_add'], ['tf_add']]", "0", "0 [[11.0, 12.0, 13.0], [21.0, 22.0, 23.0]]",
    ]


def test_parts_of_a_message_are_dealt_out_and_put_together(tmp_path) -> None:
    assert run(tmp_path, "balanced")[-1] == "0 [[2.0, 12.0, 22.0, 32.0]]"


def test_functions_raise_exceptions_that_others_are_told_of(tmp_path) -> None:
    assert run(tmp_path, "exceptions")[-2:] == ["345103 [] 5 6 7 b'who'", "0 [[1, 1], [1, -2, 200]]"]


def test_functions_take_from_queues_and_yield(tmp_path) -> None:
    assert run(tmp_path, "streams") == ["(['one two three'], 0)", "[3, 7]"]


def test_results_of_several_instances_come_in_order(tmp_path) -> None:
    assert run(tmp_path, "instances")[-1] == "[0, 1, 2, 3, 4, 5, 6, 7] [0, 1]"


def test_a_loop_feeds_and_fetches_in_two_threads(tmp_path) -> None:
    assert run(tmp_path, "loop") == ["300 rounds, each right True"]


@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed: pip install torch")
def test_functions_of_torch_tensors_run_and_one_becomes_a_model(tmp_path) -> None:
    assert run(tmp_path, "torch_functions") == [
        "0 [[-60.0], [60.0]] 3.0 [[-20.0, -10.0], [0.0, 30.0]]", "([[[-10.0, 10.0]]], 0)",
    ]


def test_the_example_of_the_readme_runs(tmp_path) -> None:
    text = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")
    (tmp_path / "example.py").write_text(text.split("```python\n")[1].split("```")[0], encoding="utf-8")
    assert run(tmp_path, str(tmp_path / "example")) == ["[2 4] 0"]
