"""Every relative link of the documentation has a target, on GitHub and on the site."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").glob("*.md"))]
FENCED = re.compile(r"^(`{3,}|:{3,}).*?^\1\s*$", re.MULTILINE | re.DOTALL)


def prose(page):
    """Return the page without its code blocks, where brackets are not links."""
    return FENCED.sub("", page.read_text(encoding="utf-8"))


def links(page):
    return [target for target in re.findall(r"\]\(([^)\s]+)\)", prose(page)) if "://" not in target]


def anchors(page):
    """Return the anchors of a page: headings as GitHub and MyST convert them, and explicit names."""
    found = set()
    for heading in re.findall(r"^#+ (.+)$", prose(page), re.MULTILINE):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower()
        found.add(re.sub(r"[^\w\- ]", "", plain).replace(" ", "-"))
    return found | set(re.findall(r'<a name="([^"]+)">', page.read_text(encoding="utf-8")))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_resolve(page):
    for target in links(page):
        path, _, anchor = target.partition("#")
        file = (page.parent / path).resolve() if path else page
        assert file.is_relative_to(ROOT), f"{page.name}: {target} leaves the repository"
        assert file.exists(), f"{page.name}: there is no {target}"
        if anchor:
            assert anchor in anchors(file), f"{page.name}: {file.name} has no heading for #{anchor}"


def test_every_page_is_in_the_table_of_contents():
    index = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    listed = {
        line.strip() for block in re.findall(r"```\{toctree\}(.*?)```", index, re.DOTALL) for line in block.splitlines()
    }
    for page in (ROOT / "docs").glob("*.md"):
        assert page.stem == "index" or page.stem in listed, f"{page.name} is in no toctree of index.md"


def test_the_checks_can_fail(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("# One heading: `code`\n\n[a](other.md#b)\n\n```python\nx = d[1](2)\n```\n")
    assert links(page) == ["other.md#b"]
    assert anchors(page) == {"one-heading-code"}
