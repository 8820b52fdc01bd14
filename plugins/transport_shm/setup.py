"""The one thing that pyproject.toml cannot say: which module cffi builds."""

from setuptools import setup

setup(cffi_modules=["src/dflow_transport_shm/bindings/build.py:ffi"])
