//! What all pages have in common: they need nothing but themselves, follow the reader's choice of light or dark, and fit narrow screens.

/// The look of all pages. Figures are drawn for white paper; on dark they are turned over, hues kept.
const STYLE: &str = "
:root { --ink: #22262b; --soft: #5c6670; --rule: #e6e9ec; --edge: #9aa3ad; --panel: #f3f5f6; --paper: #fff; --shade: rgba(0, 0, 0, .18);
  --good: #14682f; --bad: #b3261e; --doubt: #8a5a00; color-scheme: light dark;
  color: var(--ink); background: var(--paper); font: 16px/1.55 'Helvetica Neue', Helvetica, Arial, sans-serif; }
main { max-width: 66rem; margin: 2.5rem auto; padding: 0 1.25rem; }
h1 { font-size: 1.7rem; line-height: 1.25; margin: 0 0 .75rem; }
h2 { font-size: 1.15rem; margin: 2.25rem 0 .5rem; }
p, ul { max-width: 46rem; }
a { color: inherit; }
.lead { font-size: 1.1rem; }
.note { color: var(--soft); font-size: .9rem; }
figure { margin: 1.5rem 0; }
figure svg { display: block; width: 100%; max-width: 60rem; height: auto; }
.wide { overflow-x: auto; }
.wide:has(> table) { background: linear-gradient(to right, var(--paper), transparent) 0 0 / 2.5rem 100% no-repeat local,
  linear-gradient(to left, var(--paper), transparent) 100% 0 / 2.5rem 100% no-repeat local,
  linear-gradient(to right, var(--shade), transparent) 0 0 / .8rem 100% no-repeat scroll,
  linear-gradient(to left, var(--shade), transparent) 100% 0 / .8rem 100% no-repeat scroll; }
table { border-collapse: collapse; font-size: .9rem; font-variant-numeric: tabular-nums; }
th, td { padding: .35rem .6rem; text-align: right; vertical-align: top; }
th { font-weight: 600; }
thead th { color: var(--soft); font-weight: normal; border-bottom: 1px solid var(--edge); }
thead .groups th { text-align: center; border-bottom: none; padding-bottom: 0; }
tbody th, .words { text-align: left; }
tbody tr + tr > * { border-top: 1px solid var(--rule); }
tbody .simulated > * { border-top: none; padding-top: 0; color: var(--soft); }
tbody .simulated th { font-weight: normal; padding-left: 1.6rem; }
.first { border-left: 1px solid var(--rule); }
.even table, table.even { white-space: nowrap; }
.holds, .met { color: var(--good); font-weight: 600; }
.broken, .missed { color: var(--bad); font-weight: 600; }
.undecided { color: var(--doubt); font-weight: 600; }
.not-tested, .fitted { color: var(--soft); }
details { margin: 1.25rem 0; }
summary { cursor: pointer; font-weight: 600; }
.why { display: block; text-align: left; max-width: 24rem; }
pre { font: .85rem/1.5 ui-monospace, Menlo, Consolas, monospace; background: var(--panel); padding: .7rem .9rem; white-space: pre-wrap;
  overflow-wrap: anywhere; }
@media (max-width: 40rem) {
  main { margin: 1.25rem auto; padding: 0 .9rem; }
  h1 { font-size: 1.4rem; }
  .wide:has(> table)::before { content: 'The table scrolls sideways.'; position: sticky; left: 0; color: var(--soft); font-size: .8rem; }
}
@media (prefers-color-scheme: dark) {
  :root { --ink: #dfe3e7; --soft: #9aa5af; --rule: #2b3238; --edge: #5c6670; --panel: #1f252a; --paper: #15191c; --shade: rgba(0, 0, 0, .6);
    --good: #6fce8d; --bad: #ff8f86; --doubt: #e2b04a; }
  figure svg { filter: invert(.91) hue-rotate(180deg); }
}
";

/// A whole page around `body`, which is HTML; `title` is text.
pub fn document(title: &str, body: &str) -> String {
    let title = escape(title);
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>Festina: {title}</title>\n\
         <style>{STYLE}</style>\n</head>\n<body>\n<main>\n{body}</main>\n</body>\n</html>\n"
    )
}

/// Text as HTML.
pub fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
