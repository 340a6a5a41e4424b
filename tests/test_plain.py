"""Text of data, ids and descriptions shows what it is in every medium, and commands nothing."""

from __future__ import annotations

from jinja2 import Environment
from markupsafe import Markup

from stages.plain import plain
from stages.reporting import page
from stages.reporting.markdown import prose
from stages.reporting.tables import cell

HOSTILE = "../18-\u202egnp.exe\x1b[2J\x00\x9b\ud800<b>"
SEEN = r"../18-\u202egnp.exe\x1b[2J\x00\x9b\ud800"


def test_what_cannot_be_seen_is_an_escape_and_lines_stay():
    assert plain(HOSTILE) == f"{SEEN}<b>"
    assert plain("two\n\tlines, naïve 数学 ½") == "two\n\tlines, naïve 数学 ½"


def test_whatever_the_page_shows_passes_one_place():
    environment = Environment(autoescape=True, finalize=page._plain)
    shown = environment.from_string("{{ one }}|{{ two }}|{{ three }}").render(
        one=HOSTILE, two=Markup("<i>ours</i>"), three=4
    )
    assert shown == f"{SEEN}&lt;b&gt;|<i>ours</i>|4"


def test_the_template_of_the_page_is_rendered_through_that_place():
    """Every value of every template passes `finalize`, so the environment is what has to hold it."""
    import inspect

    assert "finalize=_plain" in inspect.getsource(page.html)


def test_markdown_shows_a_cell_and_a_description_as_text():
    assert cell(HOSTILE).endswith("&lt;b>")
    assert not set("\u202e\x1b") & set(cell(HOSTILE))
    assert prose("# A heading\n<script>![x](y)") == r"\# A heading &lt;script>!\[x](y)"
    assert prose("1. no list") == r"1\. no list"
    assert prose("3 seeds, as ever") == "3 seeds, as ever"
