"""What pyproject.toml cannot say: how libflow_func.so is built.

It is no Python module. It goes where the CMakeLists of user functions look for it, below `sdk/devlib`. Where there is
no C++ compiler the package installs without it, and only C++ functions are missed.
"""

import importlib.util
import platform
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.errors import CCompilerError

# setuptools wants paths relative to the folder of this file, which is where it runs it.
CPP = Path("src/cpp")
SDK = Path("src/dflow_pne_udf/sdk")
NAME = f"dflow_pne_udf.sdk.devlib.linux.{platform.machine()}.libflow_func"


def core_include() -> str:
    """The folder of dflow/transport.h: beside us in the repository, or in the installed core."""
    near = Path("../../dflow_core/include")
    if near.is_dir():
        return str(near)
    spec = importlib.util.find_spec("dflow_core")
    if spec is None or spec.origin is None:
        return str(near)
    return str(Path(spec.origin).parent / "include")


# The demangler that a signal handler may use, which the shared C++ library keeps to itself.
DEMANGLER = ["-Wl,-u,__gcclibcxx_demangle_callback", "-l:libsupc++.a", "-Wl,--exclude-libs,libsupc++.a"]


class BuildLibrary(build_ext):
    """Names the library as linkers want it, without the suffix of Python modules."""

    def get_ext_filename(self, ext_name: str) -> str:
        return str(Path(*ext_name.split("."))) + ".so"

    def build_extension(self, ext: Extension) -> None:
        # One unit that includes all files: the headers are read once, which takes less than half the time.
        unit = Path(self.build_temp, "flow_func.cc")
        unit.parent.mkdir(parents=True, exist_ok=True)
        unit.write_text("".join(f'#include "{Path(source).resolve().as_posix()}"\n' for source in ext.sources))
        ext.depends = [*ext.depends, *ext.sources]
        ext.sources = [str(unit)]
        plain = ext.extra_link_args
        ext.extra_link_args = [*plain, *DEMANGLER]
        try:
            super().build_extension(ext)
        except CCompilerError:  # no such archive, or none for shared libraries: stacks show names as linkers do
            ext.extra_link_args = plain
            super().build_extension(ext)

    def copy_extensions_to_source(self) -> None:
        (SDK / "devlib/linux" / platform.machine()).mkdir(parents=True, exist_ok=True)
        super().copy_extensions_to_source()


setup(
    cmdclass={"build_ext": BuildLibrary},
    ext_modules=[
        Extension(
            NAME,
            sources=sorted(map(str, CPP.glob("*.cc"))),
            depends=sorted(map(str, [*CPP.glob("*.h"), *SDK.glob("include/*/*.h")])),
            include_dirs=[str(CPP), str(SDK / "include"), core_include()],
            extra_compile_args=[
                "-std=c++17", "-O2", "-g1", "-Wall", "-Wextra", "-Werror", "-fvisibility=hidden", "-pthread",
            ],
            extra_link_args=["-pthread", "-ldl", "-Wl,-soname,libflow_func.so", "-Wl,--no-undefined"],
            language="c++",
            optional=True,
        )
    ],
)
