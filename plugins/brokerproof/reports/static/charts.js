// Draws every chart of a page from the JSON beside it, in the colours of the page, and filters its tables.
"use strict";
(() => {
  const dark = window.matchMedia("(prefers-color-scheme: dark)");

  function colours() {
    const style = getComputedStyle(document.documentElement);
    const read = (name) => style.getPropertyValue(name).trim();
    return { back: read("--back"), front: read("--front"), line: read("--line") };
  }

  function dress(layout) {
    const { back, front, line } = colours();
    const dressed = { ...layout, paper_bgcolor: back, plot_bgcolor: back, font: { color: front, size: 12 } };
    for (const key of Object.keys(layout)) {
      if (/^[xy]axis\d*$/.test(key)) {
        dressed[key] = { ...layout[key], gridcolor: line, zerolinecolor: line, linecolor: line, spikecolor: line };
      }
    }
    return dressed;
  }

  function draw(place) {
    const figure = JSON.parse(document.getElementById(`data-${place.dataset.chart}`).textContent);
    const options = { responsive: true, displaylogo: false, displayModeBar: false, scrollZoom: false };
    return Plotly.react(place, figure.data, dress(figure.layout), options).then(() => {
      place.dataset.drawn = String(figure.data.length);
      if (figure.link_clicks && !place.dataset.clicks) {
        place.dataset.clicks = "yes";
        place.on("plotly_click", (event) => {
          const href = event.points[0].customdata;
          if (href) window.location.href = href;
        });
      }
    });
  }

  const places = [...document.querySelectorAll("[data-chart]")];
  // A page may have a chart for each of many scenarios: those in sight are drawn.
  const seen = new IntersectionObserver((entries) => {
    for (const entry of entries) {
      if (entry.isIntersecting) { seen.unobserve(entry.target); draw(entry.target); }
    }
  }, { rootMargin: "300px" });
  places.forEach((place) => seen.observe(place));
  dark.addEventListener("change", () => places.filter((place) => place.dataset.drawn).forEach(draw));

  for (const button of document.querySelectorAll("button[data-kind]")) {
    button.addEventListener("click", () => {
      const shown = button.getAttribute("aria-pressed") !== "true";
      button.setAttribute("aria-pressed", String(shown));
      for (const row of document.querySelectorAll("#anomaly-samples tr[data-kind]")) {
        if (row.dataset.kind === button.dataset.kind) row.hidden = !shown;
      }
    });
  }
})();
