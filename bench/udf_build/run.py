"""Time to build C++ functions again when nothing has changed, and to start one that is built.

    python bench/udf_build/run.py [--rounds 7]

Twenty projects of their own are built once; then each round asks for all of them in a fresh interpreter. The clock
starts after the imports, for the graph after another one was compiled. `start` is from the package on disk to a
function that waits for its first message, as an executor does it from the second start on. Medians over rounds.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

PROJECTS = 20
SOURCE = """
#include "flow_func/meta_flow_func.h"
class Pass : public FlowFunc::MetaFlowFunc {
public:
    int32_t Init() override { return 0; }
    int32_t Proc(const std::vector<std::shared_ptr<FlowFunc::FlowMsg>> &in) override
    {
        return context_->SetOutput(0, in[0]);
    }
};
REGISTER_FLOW_FUNC("pass%d", Pass);
"""
CMAKE = """
cmake_minimum_required(VERSION 3.14)
project(UDF CXX)
set(CMAKE_LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/${RELEASE_DIR})
add_library(${UDF_TARGET_LIB} SHARED pass.cpp)
target_include_directories(${UDF_TARGET_LIB} PRIVATE $ENV{ASCEND_HOME_PATH}/include)
"""
ASK = """
import json, sys, time
import dflow_core as df
from dflow_core.session import DFlowSession
from dflow_pne_udf import config
from dflow_pne_udf.building import builder, release as releases
cache, projects = sys.argv[1:3]

def graph(count):
    outputs = []
    for i in range(count):
        point = df.FuncProcessPoint(f"{projects}/{i}/func.json")
        outputs.append(point.fnode(1, 1, name=f"n{i}")(df.FlowData(f"x{i}")))
    return df.FlowGraph(outputs, {"cache_dir": cache})

began = time.perf_counter()
packages = [builder.Builder(cache + "/udf").package(config.read_config(f"{projects}/{i}/func.json"))
            for i in range(int(sys.argv[3]))]
figures = {"packages": time.perf_counter() - began}
with DFlowSession({"cache_dir": cache}) as session:
    session.build(df.FlowGraph([df.pyflow(abs).fnode()(df.FlowData("x"))]))
    many = graph(int(sys.argv[3]))
    began = time.perf_counter()
    session.build(many)
    figures["graph"] = time.perf_counter() - began
    import numpy
    from dflow_pne_udf.native import LibraryPlace
    from dflow_pne_udf.native.local import LocalRun
    release = releases.open_release(packages[0])
    transport = session.registry.local_transport().factory()
    starts = []
    for _ in range(3):
        began = time.perf_counter()
        folder = releases.unpack_release(packages[0], "X86", cache + "/udf")
        functions = config.read_config(f"{projects}/0/func.json").functions
        place = LibraryPlace(str(folder / release.target_bin), str(folder), functions)
        run = LocalRun(place, transport, (1, 1))
        starts.append(time.perf_counter() - began)
        run.close()
    figures["start"] = starts[0]
print(json.dumps(figures))
"""


def make_projects(folder: Path) -> None:
    """Write the projects."""
    for i in range(PROJECTS):
        place = folder / str(i)
        place.mkdir()
        (place / "pass.cpp").write_text(SOURCE % i)
        (place / "CMakeLists.txt").write_text(CMAKE)
        (place / "func.json").write_text(json.dumps({
            "func_list": [{"func_name": f"pass{i}"}], "input_num": 1, "output_num": 1, "workspace": ".",
            "target_bin": f"libpass{i}.so",
        }))


def ask(cache: str, projects: Path) -> dict[str, float]:
    """Figures of one fresh interpreter."""
    command = [sys.executable, "-c", ASK, cache, str(projects), str(PROJECTS)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=300)
    figures: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return figures


def main() -> None:
    """Run all rounds and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    rounds = parser.parse_args().rounds
    with tempfile.TemporaryDirectory() as folder:
        projects = Path(folder, "projects")
        projects.mkdir()
        make_projects(projects)
        cold = ask(str(Path(folder, "cache")), projects)
        warm = [ask(str(Path(folder, "cache")), projects) for _ in range(rounds)]
    print(f"{PROJECTS} projects, ms, medians of {rounds}")
    print(f"built for the first time, one after the other   {1000 * cold['packages']:8.0f}")
    for key, text in (
        ("packages", "again, nothing changed"), ("graph", "again, as nodes of a graph"), ("start", "start of one")
    ):
        print(f"{text:47} {1000 * statistics.median(figures[key] for figures in warm):8.1f}")


if __name__ == "__main__":
    main()
