"""Builds the front page from the README and the table of the ledger, and adapts links to files that are not part of the site."""

import csv
import html
import json
import os
import posixpath
import re
from pathlib import Path

from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File

ROOT = Path(__file__).resolve().parent.parent
# The other pages of the repository, whose links are checked all the same.
OTHERS = ["contrib/**/*.md", "crates/*/README.md"]
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


# Columns of the table of statements, and whether a list selects their values.
COLUMNS = {
    "paper": True,
    "section": False,
    "statement": False,
    "verdict": True,
    "ours": False,
    "experiment": True,
    "extent": False,
    "cause": False,
    "reason": False,
    "real_sockets": True,
    "tests_it": True,
    "remark": False,
}


def _statements():
    """Returns the page with every row of the ledger, its review beside it, and a filter for each column."""
    rows = json.loads((ROOT / "docs/ledger.json").read_text(encoding="utf-8"))
    with (ROOT / "docs/ledger-review.tsv").open(encoding="utf-8", newline="") as file:
        review = list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    rows = [beside | row for row, beside in zip(rows, review, strict=True)]

    def filter_of(column, is_listed):
        label = html.escape(f"filter by {column.replace('_', ' ')}")
        if not is_listed:
            return f'<input aria-label="{label}" placeholder="contains">'
        values = sorted({row[column] for row in rows if row[column]})
        options = "".join(f"<option>{html.escape(value)}</option>" for value in ["", *values])
        return f'<select aria-label="{label}">{options}</select>'

    heads = "".join(f"<th>{name.replace('_', ' ')}<br>{filter_of(name, listed)}</th>" for name, listed in COLUMNS.items())
    cells = ("".join(f"<td>{html.escape(row[name])}</td>" for name in COLUMNS) for row in rows)
    body = "".join(f"<tr>{row}</tr>" for row in cells)
    return f"""# Statements of the papers

Every row of [the ledger](ledger.md), as [JSON](ledger.json) and [CSV](ledger.csv), too. <span id="shown">{len(rows)}</span> of {len(rows)} rows are shown.

<div class="statements"><table id="statements"><thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table></div>
<script src="statements.js"></script>
"""


def on_files(files, config):
    """Adds the pages that are not in docs/."""
    files.append(File.generated(config, "statements.md", content=_statements()))
    files.append(File.generated(config, "playground.html", abs_src_path=os.environ["PLAYGROUND"]))
    for source, page in PAGES.items():
        text = (ROOT / source).read_text(encoding="utf-8")
        files.append(File.generated(config, page, content=_relocate(text, source)))
    for source in (path for pattern in OTHERS for path in ROOT.glob(pattern)):
        _relocate(source.read_text(encoding="utf-8"), source.relative_to(ROOT).as_posix())
    for name in "site.css", "statements.js", "worker.js":
        files.append(File.generated(config, name, content=(ROOT / "site" / name).read_text(encoding="utf-8")))
    return files


def on_post_page(output, page, config):
    """Takes the site's own script for workers in pages from a folder, instead of one from a host."""
    return output.replace(SHIM, "../" * page.url.count("/") + "worker.js")


def on_post_template(output, template_name, config):
    return output.replace(SHIM, "worker.js")


def on_page_markdown(markdown, page, config, files):
    """Turns links that leave docs/ into links to their pages, or into the path of the file that they name."""
    if page.file.src_uri in PAGES.values() or page.file.src_uri == "statements.md":
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
    if (place := _place(path)) and (from_place := _place(source)):
        relative = posixpath.relpath(place, posixpath.dirname(from_place))
        return f"{image}[{text}]({relative}{'#' if anchor else ''}{anchor})"
    if not (ROOT / path).exists():
        raise PluginError(f"{source}: the link to {target} leads nowhere")
    # A file of the repository: its name is enough to find it.
    label = text if path in text or text.strip("`") in path else f"{text} (`{path}`)"
    return label if not image else ""
