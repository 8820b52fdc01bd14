from __future__ import annotations

import importlib.util
import pickle
from types import SimpleNamespace

import numpy as np
import pytest

from dflow_ocr import models as models_module
from dflow_ocr.engine import load_model
from dflow_ocr.errors import ModelMissingError, OcrExampleError
from dflow_ocr.models import find_models, read_alphabet
from dflow_ocr.recmodel import logits_model


def test_the_three_files_are_found(models):
    assert [path.suffix for path in (models.det, models.cls, models.rec)] == [".onnx"] * 3
    assert pickle.loads(pickle.dumps(models)) == models


def test_the_alphabet_has_one_character_a_class(alphabet):
    assert len(alphabet) == 18710
    assert alphabet[0] == ""
    assert alphabet[-1] == " "
    assert set("AZaz09.,") <= set(alphabet)


def test_the_alphabet_equals_the_one_an_engine_tells(models, alphabet):
    onnxruntime = pytest.importorskip("onnxruntime")
    session = onnxruntime.InferenceSession(str(models.rec), providers=["CPUExecutionProvider"])
    assert list(alphabet[1:-1]) == session.get_modelmeta().custom_metadata_map["character"].splitlines()


def test_a_model_without_alphabet_is_named(models):
    with pytest.raises(ModelMissingError, match=models.det.name):
        read_alphabet(models.det)


def test_a_file_that_is_no_model_is_refused(tmp_path):
    (tmp_path / "no.onnx").write_bytes(b"\x0d\x00")
    with pytest.raises(ModelMissingError, match="Not an ONNX file"):
        read_alphabet(tmp_path / "no.onnx")


def test_a_missing_package_says_what_to_install(monkeypatch):
    monkeypatch.setattr(models_module, "find_spec", lambda _name: None)
    with pytest.raises(ModelMissingError, match="pip install rapidocr"):
        find_models()


def test_a_missing_file_is_named(monkeypatch, tmp_path):
    spec = SimpleNamespace(origin=str(tmp_path / "__init__.py"))
    monkeypatch.setattr(models_module, "find_spec", lambda _name: spec)
    with pytest.raises(ModelMissingError, match=r"PP-OCRv6_det_small\.onnx"):
        find_models()


def test_an_unknown_engine_is_refused(models):
    with pytest.raises(OcrExampleError, match="openvino-f32"):
        load_model(models.cls, "abacus")


@pytest.mark.parametrize("engine", ["openvino-f32", "onnxruntime"])
def test_the_logits_are_what_the_softmax_was_given(models, engine):
    if importlib.util.find_spec(engine.split("-")[0]) is None:
        pytest.skip(f"{engine} is not installed")
    feed = np.random.default_rng(1).uniform(-1, 1, (2, 3, 48, 96)).astype(np.float32)
    odds, logits = (
        next(iter(load_model(model, engine)(feed).values())) for model in (models.rec, logits_model(models.rec))
    )
    raised = np.exp(logits - logits.max(axis=2, keepdims=True))
    np.testing.assert_allclose(raised / raised.sum(axis=2, keepdims=True), odds, atol=1e-5)
    assert np.array_equal(logits.argmax(axis=2), odds.argmax(axis=2))


def test_a_recogniser_without_a_softmax_is_refused(models, tmp_path):
    (tmp_path / "again.onnx").write_bytes(logits_model(models.rec))
    with pytest.raises(OcrExampleError, match="ends with Identity, not with Softmax"):
        logits_model(tmp_path / "again.onnx")
