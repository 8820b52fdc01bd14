"""Builds the library: an ordinary shared library that no Python is linked to, so one wheel serves all versions."""

import platform
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

from dflow_pne_udf import sdk_dir


class BuildLibrary(build_ext):
    """Gives the library its plain name."""

    def get_ext_filename(self, ext_name: str) -> str:
        return str(Path(*ext_name.split("."))) + ".so"


setup(
    cmdclass={"build_ext": BuildLibrary},
    ext_modules=[
        Extension(
            "acme_gain.libacme_gain",
            sources=["src/cpp/gain.cpp"],
            include_dirs=[str(sdk_dir.root() / "include")],
            extra_compile_args=["-std=c++11", "-O2", "-Wall", "-Wextra"],
            language="c++",
        )
    ],
    options={"bdist_wheel": {"py_limited_api": "cp310"}},
    platforms=[f"linux-{platform.machine()}"],
)
