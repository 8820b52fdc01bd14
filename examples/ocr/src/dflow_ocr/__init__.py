"""Page OCR with three real models: pure stages, a serial form, rivals to measure against, and generated pages."""

from __future__ import annotations

__version__ = "0.1.0"

__all__ = ["__version__"]
