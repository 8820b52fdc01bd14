from __future__ import annotations

import pickle

import cv2
import numpy as np
import pytest
from PIL import Image

from dflow_ocr import stages
from dflow_ocr.arrays import CENTRED
from dflow_ocr.detect import usual_shape
from dflow_ocr.errors import PageUnreadableError


def noise(rows, columns, seed=0):
    return np.random.default_rng(seed).integers(0, 256, (rows, columns, 3), np.uint8)


def read_only(array):
    array = array.copy()
    array.flags.writeable = False
    return array


def png(image):
    return cv2.imencode(".png", image)[1].tobytes()


def test_decode_reads_files_and_bytes_alike(tmp_path):
    image = noise(20, 30)
    (tmp_path / "a.png").write_bytes(png(image))
    assert np.array_equal(stages.decode(tmp_path / "a.png"), image)
    assert np.array_equal(stages.decode(png(image)), image)


@pytest.mark.parametrize("mode", ["L", "P", "1", "RGBA"])
def test_decode_turns_every_kind_of_image_into_colour(mode, tmp_path):
    Image.new("RGB", (40, 30), (200, 200, 200)).convert(mode).save(tmp_path / "a.png")
    assert stages.decode(tmp_path / "a.png").shape == (30, 40, 3)


@pytest.mark.parametrize("data", [b"", b"no image"])
def test_decode_refuses_what_is_no_image(data, tmp_path):
    (tmp_path / "a.png").write_bytes(data)
    with pytest.raises(PageUnreadableError, match=r"a\.png"):
        stages.decode(tmp_path / "a.png")


@pytest.mark.parametrize("shape", [(960, 1280), (700, 900), (20, 400), (3000, 1000), (40, 20), (60, 900)])
def test_fit_page_equals_rapidocr(shape):
    from rapidocr.utils.process_img import apply_vertical_padding, resize_image_within_bounds

    image = noise(*shape)
    fitted, fit = stages.fit_page(read_only(image))
    expected, ratio_h, ratio_w = resize_image_within_bounds(image, 30, 2000)
    expected, record = apply_vertical_padding(expected, {}, 8, 30)
    assert np.array_equal(fitted, expected)
    assert (fit.scale_y, fit.scale_x) == pytest.approx((ratio_h, ratio_w))
    assert fit.top == record["padding_1"]["top"]


def test_page_boxes_map_back_and_stay_on_the_page():
    fit = stages.PageFit(height=100, width=400, scale_y=2.0, scale_x=0.5, top=10)
    boxes = np.array([[[0, 5], [100, 5], [100, 40], [900, 90]]], np.float32)
    assert stages.page_boxes(boxes, fit).tolist() == [[[0, 0], [50, 0], [50, 60], [400, 100]]]


@pytest.mark.parametrize("shape", [(960, 1280), (700, 901), (1000, 750)])
def test_det_pre_equals_rapidocr(shape):
    from rapidocr.ch_ppocr_det.utils import DetPreProcess

    image = noise(*shape)
    expected = DetPreProcess(736, "min")(image)
    feed = stages.det_pre(read_only(image))
    assert feed.dtype == np.float32
    assert feed.flags.c_contiguous
    assert np.array_equal(feed, expected)


def heat_map(*boxes, shape=(320, 640)):
    heat = np.zeros((1, 1, *shape), np.float32)
    for centre, size, angle in boxes:
        corners = cv2.boxPoints((centre, size, angle)).astype(np.int32)
        cv2.fillPoly(heat[0, 0], [corners], (0.9,))
    return cv2.GaussianBlur(heat[0, 0], (5, 5), 1.0)[None, None]


@pytest.mark.parametrize("seed", range(6))
def test_det_post_equals_rapidocr(seed):
    from rapidocr.ch_ppocr_det.main import TextDetector
    from rapidocr.ch_ppocr_det.utils import DBPostProcess

    rng = np.random.default_rng(seed)
    places = [
        ((x, y), (rng.uniform(2, 120), rng.uniform(2, 30)), rng.uniform(-40, 40) * (seed % 2))
        for x in range(70, 640, 150)
        for y in range(20, 320, 60)
    ]
    heat = heat_map(*places)
    size = (480, 900)
    expected, _ = DBPostProcess(0.3, 0.5, 1000, 1.6, "fast", True)(heat, size)
    assert len(expected) > 5
    assert np.array_equal(stages.det_post(read_only(heat), size), TextDetector.sorted_boxes(expected))


def test_a_page_without_text_has_no_boxes_crops_or_lines():
    boxes = stages.det_post(np.zeros((1, 1, 64, 64), np.float32), (64, 64))
    assert boxes.shape == (0, 4, 2)
    assert stages.crop_lines(noise(64, 64), boxes) == []
    assert stages.keep_sure([], boxes).texts == []
    assert stages.page_boxes(boxes, stages.PageFit(64, 64)).shape == (0, 4, 2)


BOXES = {
    "upright": [[10, 20], [200, 20], [200, 50], [10, 50]],
    "at the far edge": [[100, 60], [299, 60], [299, 119], [100, 119]],
    "turned": [[12, 20], [200, 26], [199, 60], [11, 54]],
    "tall": [[50, 5], [70, 5], [70, 110], [50, 110]],
    "tall and turned": [[50, 5], [72, 8], [60, 110], [38, 107]],
}


@pytest.mark.parametrize("name", BOXES)
def test_crops_equal_rapidocr(name):
    from rapidocr.utils.process_img import get_rotate_crop_image

    image, box = noise(120, 300), np.array(BOXES[name], np.float32)
    [crop] = stages.crop_lines(read_only(image), box[None])
    assert np.array_equal(crop, get_rotate_crop_image(image, box.copy()))
    assert crop.flags.c_contiguous
    assert not np.shares_memory(crop, image)


def test_cls_pre_equals_rapidocr():
    from rapidocr.ch_ppocr_cls.main import TextClassifier

    shell = TextClassifier.__new__(TextClassifier)
    shell.cls_image_shape = [3, 48, 192]
    crops = [noise(30, 50), noise(30, 500), noise(48, 192)]
    feed = stages.cls_pre([read_only(crop) for crop in crops])
    assert np.array_equal(feed, np.stack([shell.resize_norm_img(crop) for crop in crops]))


def test_only_sure_lines_are_turned():
    odds = read_only(np.array([[0.9, 0.1], [0.2, 0.8], [0.05, 0.95]], np.float32))
    assert stages.cls_post(odds) == [False, False, True]
    crops = [read_only(noise(4, 9, seed)) for seed in range(2)]
    kept, turned = stages.turn(crops, [False, True])
    assert kept is crops[0]
    assert np.array_equal(turned, crops[1][::-1, ::-1])


@pytest.mark.parametrize("ratio", [320 / 48, 500 / 30, 25.3])
def test_rec_pre_equals_rapidocr(ratio):
    from rapidocr.ch_ppocr_rec.main import TextRecognizer

    shell = TextRecognizer.__new__(TextRecognizer)
    shell.rec_image_shape = [3, 48, 320]
    crops = [noise(30, 50), noise(30, 500)]
    feed = stages.rec_pre([read_only(crop) for crop in crops], int(48 * ratio))
    assert np.array_equal(feed, np.stack([shell.resize_norm_img(crop, ratio) for crop in crops]))


@pytest.mark.parametrize(("size", "width"), [((48, 32), 32), ((48, 33), 64), ((24, 160), 320), ((30, 10), 32)])
def test_bucket_width_rounds_up_to_32(size, width):
    assert stages.bucket_width(noise(*size)) == width


def test_a_wide_line_loses_nothing_to_its_bucket():
    crop = noise(48, 700)
    feed = stages.rec_pre([crop], stages.bucket_width(crop))
    assert feed.shape == (1, 3, 48, 704)
    assert np.array_equal(feed[0, 1, :, :700], CENTRED[crop[:, :, 1]])
    assert not feed[0, :, :, 700:].any()


def test_the_usual_shape_is_what_the_detector_gets_for_the_first_page(page_files, tmp_path):
    page = stages.decode(page_files[0])
    assert usual_shape(page_files) == ",".join(map(str, stages.det_pre(page).shape))
    (tmp_path / "no.png").write_bytes(b"no image")
    assert usual_shape([tmp_path / "no.png"]) == usual_shape([tmp_path / "none.png"]) == ""


def test_ctc_decode_folds_repeats_and_drops_blanks():
    alphabet = ("", "a", "b", " ")
    classes = np.array([[1, 1, 0, 1, 3, 2], [0, 0, 0, 0, 0, 0]])
    scores = np.array([[0.9, 0.4, 0.5, 0.7, 0.8, 0.6], [0.5] * 6])
    odds = np.repeat((1 - scores[:, :, None]) / 3, 4, axis=2)
    np.put_along_axis(odds, classes[:, :, None], scores[:, :, None], axis=2)
    read, blank = stages.ctc_decode(read_only(np.log(odds).astype(np.float32) + 7), alphabet)
    assert read.text == "aa b"
    assert read.score == pytest.approx((0.9 + 0.7 + 0.8 + 0.6) / 4)
    assert (blank.text, blank.score) == ("", 0.0)


def test_keep_sure_drops_blank_and_unsure_lines():
    lines = [stages.ReadLine(text, score) for text, score in (("a", 0.5), (" ", 0.9), ("b", 0.49), ("c", 1.0))]
    boxes = np.arange(32, dtype=np.float32).reshape(4, 4, 2)
    page = stages.keep_sure(lines, boxes)
    assert page.texts == ["a", "c"]
    assert np.array_equal(page.boxes, boxes[[0, 3]])


@pytest.mark.parametrize("name", [name for name in stages.__all__ if callable(getattr(stages, name))])
def test_stages_can_be_pickled(name):
    assert pickle.loads(pickle.dumps(getattr(stages, name))) is getattr(stages, name)
