"""The report as one self-contained HTML page."""

from __future__ import annotations

import base64
import hashlib
import re
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from stages.plain import plain
from stages.reporting import buckets as bucketing
from stages.reporting import contents, entropy, hours, judged, ladder, leaderboard, rounds, tables, transcripts, wording
from stages.reporting.contents import Report

FOLDER = Path(__file__).with_suffix("")  # page/: template, style and script belong to this module alone
GLYPHS = {"correct": "✓", "wrong": "✗", "unformatted": "∅"}


def transcript(text: str) -> Markup:
    """Untrusted text as HTML: escaped first, then the tags of the prompt format and the signs of `visible` coloured."""
    escaped = str(escape(transcripts.visible(text)))
    tagged = re.sub(r"&lt;/?(?:think|answer)&gt;", lambda tag: f'<span class="tag">{tag[0]}</span>', escaped)
    return Markup(re.sub(r"[↵⇥]|·+(?=↵|$)", lambda sign: f'<span class="mark">{sign[0]}</span>', tagged))


def _plain(value: Any) -> Any:
    """What any text of the page passes before it is escaped; markup of ours is left as it is."""
    return plain(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def html(report: Report) -> str:
    """One self-contained page. Everything that is not markup of ours goes through autoescape."""
    environment = Environment(
        loader=FileSystemLoader(FOLDER),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        finalize=_plain,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "percent": wording.percent,
        "fixed": wording.fixed,
        "visible": transcripts.visible,
        "shorten": transcripts.shorten,
        "transcript": transcript,
        "facts": transcripts.facts,
        "answer": bucketing.answer_text,
        "symptom": bucketing.symptom,
        "glyph": lambda verdict: GLYPHS.get(verdict, "?"),
        "settings": contents.settings,
        "breakable": lambda name: Markup(escape(plain(str(name))).replace("_", Markup("_<wbr>"))),
        "svg": Markup,
    }
    script = (FOLDER / "page.js").read_text(encoding="utf-8")
    return environment.get_template("page.html.j2").render(
        report=report,
        tells=contents.tells(report),
        remarks=ladder.remarks(report.rungs),
        fates=transcripts.FATES,
        tables=tables,
        entropy=entropy,
        leaderboard=leaderboard,
        rounds=rounds,
        judged=judged,
        hours_table=hours.table(report.accounts),
        data_table=contents.data_table(report),
        provenance_table=contents.provenance_table(report),
        css=Markup((FOLDER / "page.css").read_text(encoding="utf-8")),
        script=Markup(script),
        script_hash=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
    )
