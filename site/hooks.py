"""Builds the front page from the README and adapts links to files that are not part of the site."""

import posixpath
import re
from pathlib import Path

from mkdocs.structure.files import File

ROOT = Path(__file__).resolve().parent.parent
LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)\s]+)\)")
FENCE = re.compile(r"^(```.*?^```[^\n]*$)", re.MULTILINE | re.DOTALL)


def slug(heading, separator):
    """Returns the anchor that repository viewers derive from a heading."""
    kept = "".join(c for c in heading.strip().lower() if c.isalnum() or c in " -_")
    return kept.replace(" ", separator)


def on_files(files, config):
    """Adds the README as front page."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    files.append(File.generated(config, "index.md", content=_relocate(readme, "README.md")))
    files.append(File.generated(config, "site.css", content=(ROOT / "site" / "site.css").read_text(encoding="utf-8")))
    return files


def on_page_markdown(markdown, page, config, files):
    """Turns links that leave docs/ into the path of the file that they name."""
    if page.file.src_uri == "index.md":
        return markdown
    return _relocate(markdown, "docs/" + page.file.src_uri)


def _relocate(markdown, source):
    parts = FENCE.split(re.sub(r"^```rust,\w+$", "```rust", markdown, flags=re.MULTILINE))
    return "".join(part if part.startswith("```") else LINK.sub(lambda m: _link(m, source), part) for part in parts)


def _link(match, source):
    image, text, target = match.groups()
    if "://" in target or target.startswith(("#", "mailto:")):
        return match.group(0)
    path, _, anchor = target.partition("#")
    path = posixpath.normpath(posixpath.join(posixpath.dirname(source), path))
    if path == "README.md":
        path = "docs/index.md"
    if path.startswith("docs/"):
        here = posixpath.dirname(source) if source.startswith("docs/") else "docs"
        relative = posixpath.relpath(path, here) + (f"#{anchor}" if anchor else "")
        return f"{image}[{text}]({relative})"
    # A file of the repository: its name is enough to find it.
    label = text if path in text or text.strip("`") in path else f"{text} (`{path}`)"
    return label if not image else ""
