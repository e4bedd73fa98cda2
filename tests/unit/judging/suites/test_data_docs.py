"""Great Expectations' pages: each text in them is text, and they allow no script."""

from __future__ import annotations

import pytest
from brokerproof_judging.suites.data_docs import rewrite_page
from hostile_text import build_hostile_data_docs, list_planted


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    site = tmp_path_factory.mktemp("site")
    made = build_hostile_data_docs(site)
    return {str(page.relative_to(site)).partition("/")[0]: page.read_text(encoding="utf-8") for page in made}


def test_no_cell_description_or_name_becomes_an_element_or_an_attribute(pages: dict[str, str]) -> None:
    assert list(pages) == ["expectations", "index.html", "validations"]
    assert {name: found for name, page in pages.items() if (found := list_planted(page))} == {}
    # As cells, descriptions, names of columns and of the suite, keywords, observed values, and an error.
    assert pages["validations"].count("&lt;img src=x onerror=") > 40
    assert "cell &#34;&#39;&gt;" in pages["validations"]
    assert "&amp;lt;" not in pages["validations"]


def test_the_pages_keep_what_the_library_draws(pages: dict[str, str]) -> None:
    for part in ("<table", "<h5", 'class="badge badge-secondary"', "Success Percent", "Unexpected Value", "<pre"):
        assert part in pages["validations"], part


def test_every_page_forbids_scripts_before_anything_else(pages: dict[str, str]) -> None:
    for name, page in pages.items():
        head = page.partition("<head>")[2]
        policy = head.partition(">")[0]
        assert policy.startswith('<meta http-equiv="Content-Security-Policy" content="default-src \'none\';'), name
        assert "script-src" not in policy
        assert "<script" not in page


def test_an_attribute_that_is_a_script_is_removed_and_a_text_that_looks_like_one_stays() -> None:
    page = '<head></head><p>a onclick="b" c</p><button class="d" onclick="e(\'f\')" onfocus=g id=h>i</button>'
    rewritten = rewrite_page(page, "title")
    assert '<p>a onclick="b" c</p>' in rewritten
    assert '<button class="d" id=h>i</button>' in rewritten
