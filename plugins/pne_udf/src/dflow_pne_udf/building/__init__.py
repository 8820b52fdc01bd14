"""Builds C++ function projects with CMake and keeps what comes out by content.

Imports nothing: executors need `release` only.
"""
