"""What the documents must say, and that what they show runs."""

from __future__ import annotations

import inspect
import re

import pytest


def hooks() -> dict[str, object]:
    from dflow_core.spi import hooks as module

    return {name: getattr(module, name) for name in vars(module) if name.startswith("dflow_")}


@pytest.mark.parametrize("hook", hooks())
def test_every_hook_is_documented(root, hook):
    page = (root / "docs/reference/hooks.md").read_text(encoding="utf-8")
    section = re.search(rf"^## `{hook}`\n(.*?)(?=^## |\Z)", page, re.M | re.S)
    assert section, f"docs/reference/hooks.md has no section '## `{hook}`': run `make docs`"
    signature = inspect.signature(hooks()[hook])
    assert str(signature.return_annotation).replace("Sequence", "") in section[1].replace("Sequence", "")
    assert (inspect.getdoc(hooks()[hook]) or "").split(";")[0] in section[1]


def test_no_section_describes_a_hook_that_is_gone(root):
    page = (root / "docs/reference/hooks.md").read_text(encoding="utf-8")
    assert set(re.findall(r"^## `(dflow_\w+)`", page, re.M)) == set(hooks())


def test_every_link_between_pages_leads_somewhere(root):
    broken = []
    pages = [*root.glob("*.md"), *root.glob("docs/**/*.md"), *root.glob("plugins/*/README.md")]
    pages += [*root.glob("examples/**/README.md"), *root.glob("bench/README.md")]
    for page in pages:
        for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
            if "://" not in target and not (page.parent / target).exists():
                broken.append(f"{page.relative_to(root)}: {target}")
    assert not broken, "\n".join(broken)


def test_every_decision_is_in_the_index(root):
    folder = root / "docs/adr"
    index = (folder / "README.md").read_text(encoding="utf-8")
    pages = {p.name for p in folder.glob("[0-9]*.md")}
    assert pages and pages == set(re.findall(r"\]\((\d[\w-]+\.md)\)", index))


@pytest.mark.parametrize("section", ["Context", "Options", "Decision", "Price"])
def test_every_decision_has_all_sections(root, section):
    pages = (root / "docs/adr").glob("[0-9]*.md")
    missing = [p.name for p in pages if f"\n## {section}\n" not in p.read_text(encoding="utf-8")]
    assert not missing
