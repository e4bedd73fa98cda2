"""The page of one campaign, which is a series of scenarios that run one after the other, and the page of all campaigns.

The page of a campaign has a headline and a row for each scenario.
"""

from __future__ import annotations

from collections.abc import Sequence

from brokerproof.experiment.numbers import format_seconds
from brokerproof.reports.pages import Page, render
from brokerproof.results.campaigns import Campaign


def render_campaign(campaign: Campaign, page: Page) -> str:
    return render(
        "campaign.html.j2",
        page,
        {"campaign": campaign, "headline": write_headline(campaign), "format_seconds": format_seconds},
    )


def render_campaigns(campaigns: Sequence[Campaign], page: Page) -> str:
    return render(
        "campaigns.html.j2", page, {"campaigns": [(campaign, write_headline(campaign)) for campaign in campaigns]}
    )


def write_headline(campaign: Campaign) -> str:
    """Return one sentence: whether all runs were as expected, or which scenarios were not."""
    wrong = [run.scenario for run in campaign.runs if not run.met]
    if not wrong:
        return f"All {len(campaign.runs)} runs were as expected."
    return f"{len(wrong)} of {len(campaign.runs)} runs were not as expected: {', '.join(wrong)}."
