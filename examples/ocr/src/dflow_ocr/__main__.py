"""`python -m dflow_ocr`: the demo."""

from __future__ import annotations

from pathlib import Path

import click
from rich.console import Console

from dflow_ocr.demo import run_demo
from dflow_ocr.errors import OcrExampleError
from dflow_ocr.pipeline import PipelineSettings


@click.command(context_settings={"help_option_names": ["-h", "--help"], "show_default": True})
@click.option("--pages", type=click.Path(exists=True, file_okay=False, path_type=Path), help="Your own images.")
@click.option("--count", default=24, type=click.IntRange(1), help="Pages to render, without --pages.")
@click.option("--out", default=Path("out"), type=click.Path(path_type=Path), help="Where results go; made anew.")
@click.option("--runtime", default="openvino", type=click.Choice(["openvino", "onnxruntime"]))
@click.option("--precision", default="f32", type=click.Choice(["f32", "bf16"]))
@click.option("--batching", default="buckets", type=click.Choice(["buckets", "rapidocr"]))
@click.option("--det", default=2, type=click.IntRange(1), help="Instances of the detector.")
@click.option("--rec", default=2, type=click.IntRange(1), help="Instances of the recogniser.")
@click.option("--serial", default=4, type=click.IntRange(0), help="Pages to read serially for comparison.")
@click.option("--json", "as_json", is_flag=True, help="Print the figures as JSON, and nothing else.")
def main(
    pages: Path | None, count: int, out: Path, runtime: str, precision: str, batching: str, det: int, rec: int,
    serial: int, as_json: bool,
) -> None:
    """Read page images with three models in a graph of processes."""
    settings = PipelineSettings(runtime, precision, batching, det, rec)  # type: ignore[arg-type]
    console = Console(quiet=as_json)
    try:
        run = run_demo(out, count, pages, settings, serial, console)
    except (OcrExampleError, FileNotFoundError) as error:
        raise click.ClickException(str(error)) from error
    if as_json:
        click.echo(run.as_json())


if __name__ == "__main__":
    main()
