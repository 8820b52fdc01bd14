"""`python -m dataflow.tools.create_func_ws -f Name:i0:o0`: a workspace for a Python function."""

from __future__ import annotations

import argparse

from dataflow.tools.func_ws_creator import FuncWsCreator

__all__ = ["main"]


def main() -> None:
    """Show what would be made, ask, and make it."""
    parser = argparse.ArgumentParser(prog="create_func_ws", description="make a workspace for a Python function")
    parser.add_argument(
        "-f", "--functions", required=True, help="functions and their ports: Name:i0:i2:o0,Other:i1:o1"
    )
    parser.add_argument("-c", "--clz_name", default="", help="class name; made of the functions' names by default")
    parser.add_argument("-w", "--workspace", default="", help="folder; the current one by default")
    args = parser.parse_args()
    print(f"functions: {args.functions}\nclass: {args.clz_name}\nworkspace: {args.workspace}")
    if input("Is this right? (y/n) ").strip().lower() not in ("y", "yes"):
        print("exit")
        return
    creator = FuncWsCreator(args.functions, args.clz_name, args.workspace)
    creator.generate()
    print(f"made {creator.get_config_file()}")


if __name__ == "__main__":
    main()
