#include "tools/report/PageStyle.h"

namespace pipec {

const char *pageStyle() {
  return R"css(
:root { color-scheme: light dark; --paper:#ffffff; --page:#f6f7f9; --ink:#1c2026; --soft:#5d6673; --line:#d9dde3; --lane:#e9ecf0;
  --box:#ffffff; --next:#5d6673; --skip:#c2620e; --weight:#7a4fb5; --tied:#7a4fb5; --load:#3d7fc4; --parameters:#2f8f7d; --buffers:#8cc4b6; --values:#d9a441;
  --good:#1f7a45; --bad:#b3261e; }
@media (prefers-color-scheme: dark) { :root { --paper:#191c21; --page:#121418; --ink:#e6e9ee; --soft:#9aa4b2; --line:#343a43; --lane:#2a2f37;
  --box:#20242b; --next:#9aa4b2; --skip:#f0a058; --weight:#b896ea; --tied:#b896ea; --load:#5b9de0; --parameters:#45b39d; --buffers:#2b6f61; --values:#e3b55c;
  --good:#6cc893; --bad:#f2877f; } }
* { box-sizing: border-box; }
body { margin:0; background:var(--page); color:var(--ink); font:15px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif; }
main { max-width:1200px; margin:0 auto; padding:28px 24px 48px; }
h1 { font-size:26px; line-height:1.25; margin:0; overflow-wrap:anywhere; }
h2 { font-size:17px; margin:0 0 12px; }
h3 { font-size:14px; margin:18px 0 6px; }
p { margin:6px 0; max-width:80ch; } .soft { color:var(--soft); }
nav { margin:14px 0 0; } nav a { margin-right:16px; } a { color:var(--load); text-decoration:none; } a:hover { text-decoration:underline; }
code { font-family:ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace; font-size:.92em; overflow-wrap:anywhere; }
section { background:var(--paper); border:1px solid var(--line); border-radius:10px; padding:18px 20px; margin-top:18px; }
.cards { display:grid; grid-template-columns:repeat(auto-fit, minmax(165px, 1fr)); gap:12px; margin-top:18px; }
.card { background:var(--paper); border:1px solid var(--line); border-radius:10px; padding:12px 16px; }
.card b { display:block; font-size:21px; font-weight:600; line-height:1.3; overflow-wrap:anywhere; } .card span { color:var(--soft); font-size:13px; }
.wide { overflow-x:auto; }
table { border-collapse:collapse; font-size:14px; font-variant-numeric:tabular-nums; }
th { text-align:left; font-weight:600; color:var(--soft); white-space:nowrap; } th, td { padding:5px 22px 5px 0; border-bottom:1px solid var(--line); vertical-align:top; }
td { overflow-wrap:anywhere; } tr:last-child td { border-bottom:0; } .n { text-align:right; white-space:nowrap; }
.tree { font-size:14px; font-variant-numeric:tabular-nums; overflow-x:auto; }
.row { display:grid; grid-template-columns:minmax(16em, 1fr) 7em 8em 8em; gap:0 12px; padding:3px 0; border-bottom:1px solid var(--line); align-items:center; }
.tree.costs .row { grid-template-columns:minmax(16em, 1fr) 7em 7em 7em 11em 8em; min-width:52em; }
.heads { color:var(--soft); font-weight:600; } summary { cursor:pointer; list-style:none; } summary::-webkit-details-marker { display:none; }
.row .name { overflow-wrap:anywhere; } .tree .row > .name::before { content:""; display:inline-block; width:1.1em; }
summary > .name::before { content:"\25B8" !important; color:var(--soft); } details[open] > summary > .name::before { content:"\25BE" !important; }
.part { background:var(--lane); height:8px; } .part i { display:block; height:8px; background:var(--load); }
ul { margin:6px 0; padding-left:20px; } .ok { color:var(--good); } .failed { color:var(--bad); font-weight:600; }
dl { display:grid; grid-template-columns:max-content 1fr; gap:4px 18px; margin:0; font-size:14px; } dt { color:var(--soft); } dd { margin:0; overflow-wrap:anywhere; }
.keys { display:flex; flex-wrap:wrap; gap:4px 18px; color:var(--soft); font-size:13px; margin-top:10px; } .keys span::before { content:""; display:inline-block; width:18px; height:0;
  border-top:3px solid; vertical-align:middle; margin-right:7px; } .keys .bar::before { height:9px; border:0; background:currentColor; } .keys i { font-style:normal; color:var(--soft); }
svg { display:block; } svg text { font:12px system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif; fill:var(--ink); }
svg .soft { fill:var(--soft); } svg .ink { fill:var(--ink); } svg .paper { fill:none; } svg .lane { fill:var(--lane); } svg .tick { stroke:var(--line); }
.graph .head { font-weight:600; font-size:13px; } .graph .name { font-weight:600; font-size:14px; } .graph .end { text-anchor:end; }
.graph .on { font-size:11.5px; fill:var(--soft); } .graph .along { font-size:10.5px; text-anchor:middle; fill:var(--soft); }
.graph .box { fill:var(--box); stroke:var(--line); stroke-width:1.3; } .stage:hover .box { stroke:var(--load); }
.graph .hit { fill:none; stroke:transparent; stroke-width:12; } .graph .way { fill:none; stroke:currentColor; } .graph .tip { fill:currentColor; }
.line.next { color:var(--next); } .line.skip { color:var(--skip); } .line.weight { color:var(--weight); } .line.tied { color:var(--tied); }
.line.weight .way { stroke-dasharray:7 4; } .line.tied .way { stroke-dasharray:2 4; } .line:hover .way { stroke-width:5; }
.graph .load { fill:var(--load); } .graph .parameters { fill:var(--parameters); } .graph .buffers { fill:var(--buffers); } .graph .values { fill:var(--values); }
.graph .average { stroke:var(--soft); stroke-width:1.2; stroke-dasharray:3 4; fill:none; }
.timeline svg { color:#1a1a1a; } .timeline rect { stroke:var(--paper); } .timeline text:not([class]) { fill:#1a1a1a; font-size:11px; }
footer { margin-top:22px; color:var(--soft); font-size:13px; }
@media print { :root { color-scheme:light; --paper:#ffffff; --page:#ffffff; --ink:#000000; --soft:#444444; --line:#bbbbbb; --lane:#e9ecf0; --box:#ffffff; --next:#444444;
  --skip:#b4560a; --weight:#6a3fa5; --tied:#6a3fa5; --load:#3d7fc4; --parameters:#2f8f7d; --buffers:#8cc4b6; --values:#d9a441; --good:#1f7a45; --bad:#b3261e; }
  * { -webkit-print-color-adjust:exact; print-color-adjust:exact; } body { font-size:11px; } main { max-width:none; padding:0; } nav { display:none; } .wide, .tree { overflow:visible; }
  .cards { grid-template-columns:repeat(auto-fit, minmax(115px, 1fr)); } .card { padding:8px 10px; } .card b { font-size:16px; } .card span { font-size:10px; }
  section, .card { break-inside:auto; border-radius:0; } section { padding:10px 0; border-width:1px 0 0; } h2, h3 { break-after:avoid; } tr, .row { break-inside:avoid; }
  table, .tree, dl { font-size:10px; } svg { max-width:100%; height:auto; } .graph { width:100%; } details::details-content { display:block; content-visibility:visible; block-size:auto; } }
)css";
}

} // namespace pipec
