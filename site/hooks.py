"""Builds the front page from the README and adapts links to files that are not part of the site."""

import posixpath
import re
from pathlib import Path

from mkdocs.structure.files import File

ROOT = Path(__file__).resolve().parent.parent
LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)\s]+)\)")
SHIM = "https://unpkg.com/iframe-worker/shim"
FENCE = re.compile(r"^(```.*?^```[^\n]*$)", re.MULTILINE | re.DOTALL)


def slug(heading, separator):
    """Returns the anchor that repository viewers derive from a heading."""
    kept = "".join(c for c in heading.strip().lower() if c.isalnum() or c in " -_")
    return kept.replace(" ", separator)


# Files outside docs/ that are pages of the site.
PAGES = {
    "README.md": "index.md",
    "ARCHITECTURE.md": "architecture.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "reporting.md",
    "bindings/c/README.md": "bindings/c.md",
    "bindings/python/README.md": "bindings/python.md",
    "bench/peers/README.md": "bench/peers.md",
    "bench/sockets/README.md": "bench/sockets.md",
    "interop/README.md": "interop.md",
    "validation/README.md": "recordings.md",
}


def on_files(files, config):
    """Adds the pages that are not in docs/."""
    for source, page in PAGES.items():
        text = (ROOT / source).read_text(encoding="utf-8")
        files.append(File.generated(config, page, content=_relocate(text, source)))
    for name in "site.css", "worker.js":
        files.append(File.generated(config, name, content=(ROOT / "site" / name).read_text(encoding="utf-8")))
    return files


def on_post_page(output, page, config):
    """Takes the site's own script for workers in pages from a folder, instead of one from a host."""
    return output.replace(SHIM, "../" * page.url.count("/") + "worker.js")


def on_post_template(output, template_name, config):
    return output.replace(SHIM, "worker.js")


def on_page_markdown(markdown, page, config, files):
    """Turns links that leave docs/ into links to their pages, or into the path of the file that they name."""
    if page.file.src_uri in PAGES.values():
        return markdown
    return _relocate(markdown, "docs/" + page.file.src_uri)


def _relocate(markdown, source):
    parts = FENCE.split(re.sub(r"^```rust,\w+$", "```rust", markdown, flags=re.MULTILINE))
    return "".join(part if part.startswith("```") else LINK.sub(lambda m: _link(m, source), part) for part in parts)


def _place(path):
    """The place of a file in the site; None if it is not there."""
    return path.removeprefix("docs/") if path.startswith("docs/") else PAGES.get(path)


def _link(match, source):
    image, text, target = match.groups()
    if "://" in target or target.startswith(("#", "mailto:")):
        return match.group(0)
    path, _, anchor = target.partition("#")
    path = posixpath.normpath(posixpath.join(posixpath.dirname(source), path))
    if place := _place(path):
        relative = posixpath.relpath(place, posixpath.dirname(_place(source)))
        return f"{image}[{text}]({relative}{'#' if anchor else ''}{anchor})"
    # A file of the repository: its name is enough to find it.
    label = text if path in text or text.strip("`") in path else f"{text} (`{path}`)"
    return label if not image else ""
