"""C++ function projects of our own, written the way users write them, each built once per run."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from dflow_pne_udf import sdk_dir
from dflow_pne_udf.building.builder import Builder
from dflow_pne_udf.config import read_config

CMAKE = """
cmake_minimum_required(VERSION 3.14)
PROJECT(UDF)
if ("x${RESOURCE_TYPE}" STREQUAL "xAscend")
    message(FATAL_ERROR "this project has nothing for devices")
elseif ("x${RESOURCE_TYPE}" STREQUAL "xAarch")
    set(LIBRARY_DIR ${ASCEND_HOME_PATH}/devlib/linux/aarch64)
else ()
    set(LIBRARY_DIR ${ASCEND_HOME_PATH}/devlib/linux/x86_64)
endif ()
set(CMAKE_CXX_COMPILER ${TOOLCHAIN})
set(CMAKE_LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/${RELEASE_DIR})
set(CMAKE_ARCHIVE_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/${RELEASE_DIR})
file(GLOB SOURCES "${CMAKE_CURRENT_LIST_DIR}/*.cpp")
add_library(${UDF_TARGET_LIB} SHARED ${SOURCES})
target_include_directories(${UDF_TARGET_LIB} PRIVATE $ENV{ASCEND_HOME_PATH}/include)
target_compile_definitions(${UDF_TARGET_LIB} PRIVATE _GLIBCXX_USE_CXX11_ABI=0)
target_compile_options(${UDF_TARGET_LIB} PRIVATE -O2 -std=c++11 -ftrapv -fstack-protector-all -fPIC)
"""

SCALE = """
#include <stdexcept>
#include <unistd.h>
#include "flow_func/meta_flow_func.h"
#include "shift.h"
namespace demo {
class Scale : public FlowFunc::MetaFlowFunc {
public:
    int32_t Init() override
    {
        (void)context_->GetAttr("factor", factor_);
        return factor_ == 99 ? 7 : FlowFunc::FLOW_FUNC_SUCCESS;
    }
    int32_t Proc(const std::vector<std::shared_ptr<FlowFunc::FlowMsg>> &inputs) override
    {
        auto in = inputs[0]->GetTensor();
        if (in == nullptr) {
            return context_->SetOutput(0, context_->AllocEmptyDataMsg(FlowFunc::MsgType::MSG_TYPE_TENSOR_DATA));
        }
        auto out = context_->AllocTensorMsg(in->GetShape(), in->GetDataType());
        auto from = static_cast<const float *>(in->GetData());
        auto to = static_cast<float *>(out->GetTensor()->GetData());
        if (in->GetElementCnt() > 0 && from[0] == -13.0f) {
            return 9900013;
        }
        if (in->GetElementCnt() > 0 && from[0] == -14.0f) {
            throw 14;
        }
        if (in->GetElementCnt() > 0 && from[0] == -15.0f) {
            *static_cast<volatile int *>(nullptr) = 15;
        }
        for (int64_t i = 0; i < in->GetElementCnt(); ++i) {
            to[i] = from[i] * static_cast<float>(factor_) + SHIFT;
        }
        return context_->SetOutput(0, out);
    }
private:
    int64_t factor_ = 2;
};
REGISTER_FLOW_FUNC("scale", Scale);

class Throws : public Scale {
public:
    Throws() { throw std::runtime_error("no such device"); }
};
REGISTER_FLOW_FUNC("throws", Throws);

class Hangs : public Scale {
public:
    Hangs() { ::pause(); }
};
REGISTER_FLOW_FUNC("hangs", Hangs);
}
"""

MULTI = """
#include "flow_func/meta_multi_func.h"
namespace demo {
class Both : public FlowFunc::MetaMultiFunc {
public:
    int32_t Init(const std::shared_ptr<FlowFunc::MetaParams> &) override { ++inits_; return 0; }
    int32_t Add(const std::shared_ptr<FlowFunc::MetaRunContext> &context,
                const std::vector<std::shared_ptr<FlowFunc::FlowMsg>> &inputs)
    {
        auto out = context->AllocTensorMsg({2}, FlowFunc::TensorDataType::DT_FLOAT);
        auto to = static_cast<float *>(out->GetTensor()->GetData());
        to[0] = *static_cast<float *>(inputs[0]->GetTensor()->GetData())
            + *static_cast<float *>(inputs[1]->GetTensor()->GetData());
        to[1] = static_cast<float>(inits_);
        return context->SetOutput(0, out);
    }
    int32_t Pass(const std::shared_ptr<FlowFunc::MetaRunContext> &context,
                 const std::vector<std::shared_ptr<FlowFunc::FlowMsg>> &inputs)
    {
        return context->SetOutput(1, inputs[0]);
    }
private:
    int inits_ = 0;
};
FLOW_FUNC_REGISTRAR(Both).RegProcFunc("add", &Both::Add).RegProcFunc("pass_on", &Both::Pass);
}
"""

TABLE = """
#include <stdexcept>
#include "flow_func/flow_func_log.h"
#include "flow_func/meta_multi_func.h"
namespace demo {
using namespace FlowFunc;
using Context = const std::shared_ptr<MetaRunContext> &;
using Inputs = const std::vector<std::shared_ptr<FlowMsg>> &;

class Table : public MetaMultiFunc {
public:
    int32_t Init(const std::shared_ptr<MetaParams> &params) override
    {
        ++inits_;
        params_ = params;
        return 0;
    }
    int32_t Inits(Context context, Inputs) { return Answer(context, {inits_}); }
    int32_t BadIndex(Context context, Inputs in)
    {
        return Answer(context, {context->SetOutput(9, in[0]), context->SetOutput(1, in[0])});
    }
    int32_t Nothing(Context, Inputs) { return 0; }
    int32_t Code(Context, Inputs) { return 9900007; }
    int32_t Null(Context context, Inputs)
    {
        return context->SetOutput(0, context->AllocEmptyDataMsg(MsgType::MSG_TYPE_TENSOR_DATA));
    }
    int32_t UserData(Context context, Inputs)
    {
        uint8_t data[4] = {0};
        const int32_t code = context->GetUserData(data, 4, 1);
        return code != 0 ? code : Answer(context, {data[0], data[1], data[2], data[3]});
    }
    int32_t Attrs(Context context, Inputs)
    {
        int64_t number = 0;
        std::vector<int64_t> numbers;
        const int32_t found = params_->GetAttr("number", number);
        const int32_t missing = params_->GetAttr("none", number);
        const int32_t other = params_->GetAttr("text", number);
        const int32_t list = params_->GetAttr("numbers", numbers);
        return Answer(context, {found, number, missing, other, list, static_cast<int64_t>(numbers.size())});
    }
    int32_t Ports(Context context, Inputs in)
    {
        return Answer(context, {static_cast<int64_t>(params_->GetInputNum()),
                                static_cast<int64_t>(params_->GetOutputNum()), static_cast<int64_t>(in.size()),
                                params_->GetRunningInstanceId(), params_->GetRunningInstanceNum()});
    }
    int32_t Types(Context context, Inputs)
    {
        AscendString text;
        std::vector<AscendString> texts;
        int64_t number = 0;
        float real = 0;
        std::vector<float> reals;
        bool flag = false;
        std::vector<bool> flags;
        TensorDataType type = TensorDataType::DT_UNDEFINED;
        std::vector<TensorDataType> types;
        std::vector<std::vector<int64_t>> lists;
        const int64_t codes = params_->GetAttr("text", text) + params_->GetAttr("texts", texts) +
                              params_->GetAttr("real", real) + params_->GetAttr("reals", reals) +
                              params_->GetAttr("flag", flag) + params_->GetAttr("flags", flags) +
                              params_->GetAttr("type", type) + params_->GetAttr("types", types) +
                              params_->GetAttr("lists", lists);
        const auto length = static_cast<int64_t>(text.GetLength());
        const auto count = static_cast<int64_t>(texts.size());
        return Answer(context, {codes, length, count, static_cast<int64_t>(real * 2),
                                static_cast<int64_t>(reals.at(1) * 2), flag, flags.at(1),
                                type == TensorDataType::DT_INT16, types.at(1) == TensorDataType::DT_DOUBLE,
                                lists.at(1).at(0)});
    }
    int32_t Mismatches(Context context, Inputs)
    {
        int64_t number = 0;
        float real = 0;
        bool flag = false;
        AscendString text;
        std::vector<int64_t> numbers;
        return Answer(context, {params_->GetAttr("real", number), params_->GetAttr("number", real),
                                params_->GetAttr("number", flag), params_->GetAttr("number", text),
                                params_->GetAttr("number", numbers)});
    }
    int32_t Names(Context context, Inputs)
    {
        const bool is_name = AscendString(params_->GetName()) == AscendString("table");
        return Answer(context, {is_name, params_->GetWorkPath() != nullptr});
    }
    int32_t SoftError(Context context, Inputs in)
    {
        in[0]->SetRetCode(9900001);
        return context->SetOutput(0, in[0]);
    }
    int32_t NullPointer(Context context, Inputs) { return context->SetOutput(0, nullptr); }
    int32_t Twice(Context context, Inputs)
    {
        (void)Answer(context, {1});
        return Answer(context, {2});
    }
    int32_t Heads(Context context, Inputs in)
    {
        auto out = context->AllocTensorMsg({5}, TensorDataType::DT_INT64);
        auto to = static_cast<int64_t *>(out->GetTensor()->GetData());
        to[0] = static_cast<int64_t>(out->GetStartTime());
        to[1] = static_cast<int64_t>(out->GetEndTime());
        to[2] = static_cast<int64_t>(out->GetFlowFlags());
        to[3] = out->GetRetCode();
        to[4] = out->GetTransactionId() == in[0]->GetTransactionId();
        return context->SetOutput(0, out);
    }
    int32_t OwnHead(Context context, Inputs)
    {
        auto out = context->AllocTensorMsg({1}, TensorDataType::DT_INT64);
        *static_cast<int64_t *>(out->GetTensor()->GetData()) = 1;
        out->SetStartTime(5);
        out->SetEndTime(77);
        out->SetFlowFlags(2);
        return context->SetOutput(0, out);
    }
    int32_t Logs(Context context, Inputs)
    {
        FLOW_FUNC_RUN_LOG_ERROR("%s of transaction", "a line");
        return Answer(context, {1});
    }
    int32_t Throws(Context, Inputs) { throw std::runtime_error("it broke"); }
    int32_t Times(Context context, Inputs in)
    {
        auto out = context->AllocTensorMsg({1}, TensorDataType::DT_INT64);
        *static_cast<int64_t *>(out->GetTensor()->GetData()) = static_cast<int64_t>(in[0]->GetStartTime());
        out->SetEndTime(77);
        return context->SetOutput(0, out);
    }
    int32_t Pass(Context context, Inputs in) { return context->SetOutput(1, in[0]); }
    int32_t TransId(Context context, Inputs in)
    {
        return Answer(context, {static_cast<int64_t>(in[0]->GetTransactionId())});
    }
    int32_t Invoke(Context context, Inputs in)
    {
        Inputs none = {};
        std::vector<std::shared_ptr<FlowMsg>> out;
        const int32_t good = context->RunFlowModel("twice", in, out, 20000);
        const int64_t outputs = static_cast<int64_t>(out.size());
        const int64_t last = static_cast<int64_t *>(out[0]->GetTensor()->GetData())[2];
        const int64_t is_null = out[1]->GetTensor() == nullptr;
        const int32_t unknown = context->RunFlowModel("nobody", in, out, 20000);
        const int32_t few = context->RunFlowModel("twice", none, out, 20000);
        const int32_t failing = context->RunFlowModel("twice", {One(context, -1)}, out, 20000);
        const int32_t late = context->RunFlowModel("twice", {One(context, -2)}, out, 20);
        out.clear();
        const int32_t again = context->RunFlowModel("twice", {One(context, 4)}, out, 20000);
        const int64_t eight = *static_cast<int64_t *>(out[0]->GetTensor()->GetData());
        const int64_t same = out[0]->GetTransactionId() == in[0]->GetTransactionId();
        return Answer(context, {good, outputs, last, is_null, unknown, few, failing, late, again, eight, same});
    }
    int32_t Raises(Context context, Inputs in)
    {
        if (in.empty()) {
            return 0;
        }
        if (First(in[0]) == -3) {
            context->RaiseException(9900003, 1ULL << 63);
            context->RaiseException(9900004, 4);
        }
        return context->SetOutput(0, in[0]);
    }
    int32_t Told(Context context, Inputs in)
    {
        int32_t code = 0;
        uint64_t number = 0;
        if (in.empty()) {
            told_ += context->GetException(code, number) ? 1 : 100;
            told_ += context->GetException(code, number) ? 100 : 0;
            code_ = code + (number == 1ULL << 63 ? 1000000 : 0);
            return 0;
        }
        return Answer(context, {told_, code_});
    }
    int32_t Meets(Context context, Inputs in)
    {
        if (in.empty()) {
            return 0;
        }
        return Answer(context, {in[0]->GetRetCode(), in[1]->GetRetCode(), in[0]->GetTensor() == nullptr,
                                in[1]->GetTensor() == nullptr});
    }
private:
    static int64_t First(const std::shared_ptr<FlowMsg> &msg)
    {
        return *static_cast<int64_t *>(msg->GetTensor()->GetData());
    }
    std::shared_ptr<FlowMsg> One(Context context, int64_t number)
    {
        auto msg = context->AllocTensorMsg({1}, TensorDataType::DT_INT64);
        *static_cast<int64_t *>(msg->GetTensor()->GetData()) = number;
        return msg;
    }
    int32_t Answer(Context context, const std::vector<int64_t> &numbers)
    {
        auto out = context->AllocTensorMsg({static_cast<int64_t>(numbers.size())}, TensorDataType::DT_INT64);
        std::copy(numbers.begin(), numbers.end(), static_cast<int64_t *>(out->GetTensor()->GetData()));
        return context->SetOutput(0, out);
    }
    std::shared_ptr<MetaParams> params_;
    int64_t inits_ = 0;
    int64_t told_ = 0;
    int64_t code_ = 0;
};
FLOW_FUNC_REGISTRAR(Table).RegProcFunc("pass", &Table::Pass)
    .RegProcFunc("inits", &Table::Inits).RegProcFunc("bad_index", &Table::BadIndex)
    .RegProcFunc("nothing", &Table::Nothing).RegProcFunc("code", &Table::Code).RegProcFunc("null", &Table::Null)
    .RegProcFunc("user_data", &Table::UserData).RegProcFunc("attrs", &Table::Attrs)
    .RegProcFunc("ports", &Table::Ports).RegProcFunc("times", &Table::Times).RegProcFunc("trans_id", &Table::TransId)
    .RegProcFunc("invoke", &Table::Invoke).RegProcFunc("raises", &Table::Raises).RegProcFunc("told", &Table::Told)
    .RegProcFunc("meets", &Table::Meets).RegProcFunc("types", &Table::Types)
    .RegProcFunc("mismatches", &Table::Mismatches).RegProcFunc("names", &Table::Names)
    .RegProcFunc("soft_error", &Table::SoftError).RegProcFunc("null_pointer", &Table::NullPointer)
    .RegProcFunc("twice", &Table::Twice).RegProcFunc("heads", &Table::Heads).RegProcFunc("own_head", &Table::OwnHead)
    .RegProcFunc("logs", &Table::Logs).RegProcFunc("throws_it", &Table::Throws);
}
"""


@dataclass(frozen=True)
class Project:
    """A project on disk."""

    folder: Path

    @property
    def config(self) -> Path:
        return self.folder / "func.json"

    def write(self, name: str, text: str) -> Path:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def configure(self, **changes: object) -> Path:
        """Write the config; what is None is left out."""
        fields: dict[str, object] = {
            "func_list": [{"func_name": "scale"}], "input_num": 1, "output_num": 1, "workspace": ".",
            "target_bin": "libscale.so", **changes,
        }
        return self.write("func.json", json.dumps({k: v for k, v in fields.items() if v is not None}))


def make_project(folder: Path, **more: str) -> Project:
    project = Project(folder)
    project.write("CMakeLists.txt", CMAKE)
    project.write("shift.h", "#define SHIFT 0.0f\n")
    for name, text in {"scale": SCALE, "multi": MULTI, **more}.items():
        project.write(f"{name}.cpp", text)
    project.configure()
    return project


@pytest.fixture(scope="session")
def make_udf_project() -> Callable[..., Project]:
    """Makes a project of these sources only."""

    def make(folder: Path, sources: dict[str, str], shift: str = "") -> Project:
        made = Project(folder)
        made.write("CMakeLists.txt", CMAKE)
        for name, text in sources.items():
            made.write(f"{name}.cpp", text)
        made.write("shift.h", shift)
        made.configure()
        return made

    return make


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """A project that has not been built."""
    return make_project(tmp_path / "project")


@pytest.fixture(scope="session")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The cache folder of this run."""
    return tmp_path_factory.mktemp("udf-cache")


@pytest.fixture(autouse=True)
def own_cache(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No test reads or fills the user's cache."""
    monkeypatch.setenv("DFLOW_CACHE_DIR", str(cache))


@pytest.fixture(scope="session")
def store(cache: Path) -> Path:
    """Where this run's builds are kept; where graphs look for them too."""
    return cache / "udf"


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory, store: Path) -> Project:
    """The project, built into `store`."""
    project = make_project(tmp_path_factory.mktemp("udf") / "a folder with späces", table=TABLE)
    Builder(str(store)).package(read_config(str(project.config)))
    return project


@pytest.fixture(scope="session")
def runtime() -> Path:
    """libflow_func.so."""
    return sdk_dir.library()

