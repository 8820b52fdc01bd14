"""What pyproject.toml cannot say: the library is compiled first, and the wheel is for one platform."""

import sys
from pathlib import Path

from setuptools import Distribution, setup
from setuptools.command.build_py import build_py

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

from build_library import build  # noqa: E402


class BuildLibrary(build_py):
    """Compile libascendcl.so where the package data lies, then go on as always."""

    def run(self) -> None:
        build(HERE / "src/dflow_acl_emulator/home/lib64/libascendcl.so")
        super().run()


class Binary(Distribution):
    """A distribution with compiled code."""

    def has_ext_modules(self) -> bool:
        return True


setup(cmdclass={"build_py": BuildLibrary}, distclass=Binary)
