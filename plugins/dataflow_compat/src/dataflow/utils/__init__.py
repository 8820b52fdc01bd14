"""Helpers: a template for deploy files, the log, names, message types."""

from dataflow.utils.deploy_template import generate_deploy_template

__all__ = ["generate_deploy_template"]
