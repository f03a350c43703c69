// The three charts. ECharts draws on a canvas, so names are never interpreted as markup.

// Colour-blind safe, from the palette of Okabe and Ito.
const LINES = ["#0072B2", "#D55E00", "#009E73", "#CC79A7"], LINES_DARK = ["#56B4E9", "#E69F00", "#2BC49A", "#E3A6C8"];
const DASHES = ["solid", "dashed", "dotted", [8, 3, 2, 3]];
const MAX_BINS = 50; // more would be too slow to follow the slider
const isDark = window.matchMedia("(prefers-color-scheme: dark)");

class Charts {
  constructor() {
    this.charts = {};
    for (const name of ["curve", "bars", "confusion"]) this.charts[name] = echarts.init(document.getElementById(name));
    window.addEventListener("resize", () => this.resize());
  }

  resize() {
    Object.values(this.charts).forEach((chart) => chart.resize());
  }

  // Print in light colours.
  colours() {
    const dark = isDark.matches && !this.isPrinting;
    return {
      ink: dark ? "#e6e8ea" : "#1d2126",
      grid: dark ? "#3a4147" : "#d9dde1",

      raw: dark ? "#7d838a" : "#868c93",
      lines: dark ? LINES_DARK : LINES,
      heat: dark ? ["#15181c", "#1d4f78", "#56B4E9", "#e8f6ff"] : ["#ffffff", "#9ecae1", "#3182bd", "#08306b"],
    };
  }

  common(description) {
    const { ink } = this.colours();
    return {
      animation: false,
      textStyle: { color: ink, fontFamily: "system-ui, sans-serif" },
      aria: { enabled: true, label: { description } },
      tooltip: { renderMode: "richText", confine: true },
    };
  }

  axis(name, more) {
    const { ink, grid } = this.colours();
    return {
      name,
      nameLocation: "middle",
      nameTextStyle: { color: ink },
      axisLabel: { color: ink },
      axisLine: { lineStyle: { color: ink } },
      splitLine: { lineStyle: { color: grid } },
      ...more,
    };
  }

  // Scores by strength, with a line at the current strength.
  drawCurve(title, names, strengths, accuracies, strength) {
    const { lines, ink } = this.colours();
    const ends = names.map((name, i) => `${name} from ${percent(accuracies[i][0])} to ${percent(accuracies[i].at(-1))}`);
    this.charts.curve.setOption(
      {
        ...this.common(`${title}, in percent: ${ends.join("; ")}.`),
        tooltip: { renderMode: "richText", confine: true, trigger: "axis", valueFormatter: oneDecimal },
        legend: { data: names, textStyle: { color: ink }, itemStyle: { opacity: 0 }, top: 0 },
        grid: { left: 52, right: 16, top: 36, bottom: 42 },
        xAxis: this.axis("strength of the correction", { type: "value", min: 0, max: strengths.at(-1), nameGap: 26 }),
        yAxis: this.axis("%", { type: "value", min: ({ min }) => Math.min(0, Math.floor(min)), max: 100, nameGap: 36 }),
        series: names.map((name, i) => ({
          name,
          type: "line",
          symbol: "none",
          color: lines[i % lines.length],
          lineStyle: { type: DASHES[i % DASHES.length], width: 2 },
          data: strengths.map((s, j) => [s, 100 * accuracies[i][j]]),
          markLine:
            i === 0
              ? {
                  symbol: "none",
                  silent: true,
                  label: { show: false },
                  lineStyle: { color: ink, type: "solid", width: 1.5 },
                  data: [{ xAxis: strength }],
                }
              : undefined,
        })),
      },
      true
    );
  }

  // Accuracy of each class, raw and corrected.
  drawBars(view, order, raw, now) {
    const { ink, lines, raw: grey } = this.colours();
    const inPercent = (values) => order.map((k) => (isNaN(values[k]) ? null : Number(percent(values[k]))));
    const many = order.length > 40;
    const zoom = many ? [{ type: "inside" }, { type: "slider", height: 18, bottom: 8 }] : [];
    this.charts.bars.setOption(
      {
        ...this.common(
          "Accuracy of each class, raw and corrected. The table below has the same numbers."
        ),
        tooltip: { renderMode: "richText", confine: true, trigger: "axis" },
        legend: { data: ["raw", "corrected"], textStyle: { color: ink }, top: 0 },
        grid: { left: 52, right: 16, top: 36, bottom: many ? 70 : longest(view.classNames) > 3 ? 62 : 44 },
        dataZoom: zoom,
        xAxis: this.axis(view.inSteps ? "class, in order of arrival" : view.counts ? "class, most training samples first" : "class", {
          type: "category",
          data: order.map((k) => view.classNames[k]),
          nameGap: many ? 24 : longest(view.classNames) > 3 ? 44 : 26,
          axisLabel: { color: ink, show: !many, rotate: longest(view.classNames) > 3 ? 40 : 0, width: 90, overflow: "truncate" },
        }),
        yAxis: this.axis("accuracy, %", { type: "value", min: 0, max: 100, nameGap: 36 }),
        series: [
          { name: "raw", type: "bar", color: grey, data: inPercent(raw), barGap: "0%", large: order.length > 400 },
          { name: "corrected", type: "bar", color: lines[0], data: inPercent(now), large: order.length > 400 },
        ],
      },
      true
    );
  }

  // Confusion matrix on a log scale.
  drawConfusion(view, order, predicted) {
    const { ink, heat } = this.colours();
    const { counts, bins, size } = confusion(view, predicted, order, MAX_BINS);
    const named = bins <= 20 && size === 1;
    const names = Array.from({ length: bins }, (_, i) => (size === 1 ? view.classNames[order[i]] : `${i * size + 1}–${Math.min((i + 1) * size, order.length)}`));
    const data = [];
    let most = 1, right = 0, all = 0;
    for (let i = 0; i < counts.length; i++) {
      const truth = Math.floor(i / bins), taken = i % bins;
      all += counts[i];
      if (truth === taken) right += counts[i];
      most = Math.max(most, counts[i]);
      if (counts[i]) data.push([taken, truth, Math.log1p(counts[i]), counts[i]]);
    }
    const axis = (name, more) =>
      this.axis(name, {
        type: "category",
        data: names,
        splitLine: { show: false },
        axisLabel: { color: ink, show: named, width: 90, overflow: "truncate" },
        ...more,
      });
    const blocks = size > 1 ? `, ${size} classes per cell` : "";
    this.charts.confusion.setOption(
      {
        ...this.common(
          `Confusion matrix${blocks}: ${right.toLocaleString("en")} of ${all.toLocaleString("en")} samples lie on the diagonal.`
        ),
        tooltip: {
          renderMode: "richText",
          confine: true,
          formatter: ({ value }) => `true ${names[value[1]]}\npredicted ${names[value[0]]}\n${value[3].toLocaleString("en")} samples`,
        },
        grid: { left: named ? 104 : 40, right: 16, top: 8, bottom: named && longest(names) > 3 ? 130 : 84 },
        xAxis: axis(`predicted class${blocks}`, {
          nameGap: named ? (longest(names) > 3 ? 72 : 26) : 10,
          axisLabel: { color: ink, show: named, rotate: longest(names) > 3 ? 40 : 0, width: 90, overflow: "truncate" },
        }),
        yAxis: axis("true class", { inverse: true, nameGap: named ? 86 : 14 }),
        visualMap: {
          min: 0,
          max: Math.log1p(most),
          dimension: 2,
          orient: "horizontal",
          left: "center",
          bottom: 0,
          itemHeight: 160,
          text: [`${most.toLocaleString("en")} samples`, "0"],
          textStyle: { color: ink },
          formatter: (x) => Math.round(Math.expm1(x)).toLocaleString("en"),
          inRange: { color: heat },
        },
        series: [{ type: "heatmap", data, progressive: 0 }],
      },
      true
    );
  }
}

function longest(names) {
  return Math.max(...names.slice(0, 200).map((name) => name.length));
}
