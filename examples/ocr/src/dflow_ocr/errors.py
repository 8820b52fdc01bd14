"""What can go wrong in this example before any page is read."""

from __future__ import annotations

__all__ = ["ModelMissingError", "OcrExampleError", "PageUnreadableError"]


class OcrExampleError(Exception):
    """Something this example needs is missing or cannot be used."""


class ModelMissingError(OcrExampleError):
    """The package that ships the models, or one of its model files, is not installed."""


class PageUnreadableError(OcrExampleError):
    """The bytes given as a page are not an image that OpenCV can decode."""
