"""The stages of page OCR in the order that a page takes them; each is a plain function over arrays.

`decode` -> `fit_page` -> `det_pre` -> [det] -> `det_post` -> `crop_lines` -> `cls_pre` -> [cls] -> `cls_post` ->
`turn` -> `rec_pre` -> [rec] -> `ctc_decode` -> `keep_sure`. The modules behind this one hold them by concept.
"""

from __future__ import annotations

from dflow_ocr.batching import BATCH, COLUMNS, Batch, BucketBatcher, PageGatherer, page_batches
from dflow_ocr.crops import CLS_BATCH, by_width, cls_post, cls_pre, crop_lines, turn
from dflow_ocr.detect import PageFit, decode, det_post, det_pre, fit_page, page_boxes, reading_order
from dflow_ocr.recognise import (
    PageText,
    ReadLine,
    bucket_width,
    ctc_decode,
    keep_sure,
    line_width,
    rec_pre,
)

__all__ = [
    "BATCH",
    "CLS_BATCH",
    "COLUMNS",
    "Batch",
    "BucketBatcher",
    "PageFit",
    "PageGatherer",
    "PageText",
    "ReadLine",
    "bucket_width",
    "by_width",
    "cls_post",
    "cls_pre",
    "crop_lines",
    "ctc_decode",
    "decode",
    "det_post",
    "det_pre",
    "fit_page",
    "keep_sure",
    "line_width",
    "page_batches",
    "page_boxes",
    "reading_order",
    "rec_pre",
    "turn",
]
