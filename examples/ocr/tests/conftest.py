from __future__ import annotations

import os

# Before OpenCV and numpy load: the tests share the cores with whatever else runs.
for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(_name, "1")

import cv2  # noqa: E402
import pytest  # noqa: E402

from dflow_ocr.models import find_models, read_alphabet  # noqa: E402
from dflow_ocr.pages import write_pages  # noqa: E402
from dflow_ocr.serial import SerialOcr  # noqa: E402

SEED = 33
PAGES = 4


@pytest.fixture(scope="session", autouse=True)
def _one_thread():
    cv2.setNumThreads(1)


@pytest.fixture(scope="session")
def page_files(tmp_path_factory):
    return write_pages(tmp_path_factory.mktemp("pages"), PAGES, SEED)


@pytest.fixture(scope="session")
def models():
    return find_models()


@pytest.fixture(scope="session")
def alphabet(models):
    return read_alphabet(models.rec)


@pytest.fixture(scope="session")
def ocr():
    return SerialOcr("openvino-f32")
