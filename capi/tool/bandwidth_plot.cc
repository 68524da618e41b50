#include "capi/tool/bandwidth_plot.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace tutti::tool {
namespace {

constexpr double kWidth = 860, kHeight = 520;
constexpr double kLeft = 84, kRight = 24, kTop = 72, kBottom = 64;
// Told apart also by people who see few colours (Okabe and Ito), and by their markers.
constexpr const char* kColors[] = {"#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00",
                                   "#56b4e9", "#000000"};
constexpr const char* kMarkers[] = {"M-4,0a4,4 0 1,0 8,0a4,4 0 1,0 -8,0", "M-4,-4h8v8h-8z",
                                    "M0,-5l5,9h-10z", "M0,-5l5,5l-5,5l-5,-5z"};

std::string Escape(const std::string& text) {
  std::string escaped;
  for (const char c : text) {
    if (c == '<') {
      escaped += "&lt;";
    } else if (c == '>') {
      escaped += "&gt;";
    } else if (c == '&') {
      escaped += "&amp;";
    } else if (static_cast<unsigned char>(c) >= ' ') {
      escaped += c;
    }
  }
  return escaped;
}

std::string NameOfBytes(int64_t bytes) {
  constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  size_t unit = 0;
  while (bytes >= 1024 && bytes % 1024 == 0 && unit + 1 < std::size(kUnits)) {
    bytes /= 1024;
    ++unit;
  }
  return fmt::format("{} {}", bytes, kUnits[unit]);
}

// The axes: exponents of 2 for the bytes, of 10 for the bandwidth.
struct Axes {
  double min_x = 3, max_x = 26, min_y = -3, max_y = 2;

  explicit Axes(const std::vector<PlotSeries>& series) {
    bool first = true;
    for (const PlotSeries& one : series) {
      for (const auto& [bytes, bandwidth] : one.points) {
        const double x = std::log2(bytes), y = std::log10(bandwidth);
        min_x = first ? x : std::min(min_x, x);
        max_x = first ? x : std::max(max_x, x);
        min_y = first ? y : std::min(min_y, y);
        max_y = first ? y : std::max(max_y, y);
        first = false;
      }
    }
    min_y = std::floor(min_y);
    max_y = std::ceil(max_y);
    if (max_y <= min_y) max_y = min_y + 1;
    if (max_x <= min_x) max_x = min_x + 1;
  }

  double X(double bytes) const {
    return kLeft + (std::log2(bytes) - min_x) / (max_x - min_x) * (kWidth - kLeft - kRight);
  }
  double Y(double bandwidth) const {
    const double share = (std::log10(bandwidth) - min_y) / (max_y - min_y);
    return kHeight - kBottom - share * (kHeight - kTop - kBottom);
  }
};

std::string Line(double x1, double y1, double x2, double y2, const char* color) {
  return fmt::format("<path d=\"M{:.1f},{:.1f}L{:.1f},{:.1f}\" stroke=\"{}\"/>\n", x1, y1, x2, y2,
                     color);
}

std::string Text(double x, double y, const char* anchor, const std::string& text,
                 const std::string& more = "") {
  return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\"{}>{}</text>\n", x, y,
                     anchor, more, Escape(text));
}

std::string DrawAxes(const Axes& axes) {
  const double bottom = kHeight - kBottom, right = kWidth - kRight;
  std::string svg;
  // A label at about every third power of two where there are many.
  const int step = axes.max_x - axes.min_x > 16 ? 3 : axes.max_x - axes.min_x > 9 ? 2 : 1;
  const int first_x = static_cast<int>(std::ceil(axes.min_x));
  for (int power = first_x; power <= axes.max_x; ++power) {
    const double x = axes.X(std::exp2(power));
    const bool labelled = (power - first_x) % step == 0;
    svg += Line(x, kTop, x, bottom, labelled ? "#d0d0d0" : "#eeeeee");
    if (labelled) {
      svg += Text(x, bottom + 18, "middle",
                  power >= 0 ? NameOfBytes(int64_t{1} << power) : fmt::format("2^{}", power));
    }
  }
  for (int power = static_cast<int>(axes.min_y); power <= axes.max_y; ++power) {
    const double y = axes.Y(std::pow(10, power));
    svg += Line(kLeft, y, right, y, "#d0d0d0");
    svg += Text(kLeft - 8, y + 4, "end", fmt::format("{:g}", std::pow(10, power)));
    for (int digit = 2; digit < 10 && power < axes.max_y; ++digit) {
      const double between = axes.Y(digit * std::pow(10, power));
      svg += Line(kLeft, between, right, between, "#f2f2f2");
    }
  }
  svg +=
      Line(kLeft, bottom, right, bottom, "#404040") + Line(kLeft, kTop, kLeft, bottom, "#404040");
  svg += Text((kLeft + right) / 2, kHeight - 20, "middle", "size (bytes, log scale)");
  const double middle = (kTop + bottom) / 2;
  svg += Text(24, middle, "middle", "bus bandwidth (GB/s, log scale)",
              fmt::format(" transform=\"rotate(-90 24 {:.1f})\"", middle));
  return svg;
}

std::string DrawSeries(const Axes& axes, const PlotSeries& series, size_t number) {
  const char* const color = kColors[number % std::size(kColors)];
  const char* const marker = kMarkers[number % std::size(kMarkers)];
  std::string line, markers;
  for (const auto& [bytes, bandwidth] : series.points) {
    const double x = axes.X(bytes), y = axes.Y(bandwidth);
    line += fmt::format("{}{:.1f},{:.1f}", line.empty() ? "M" : "L", x, y);
    markers += fmt::format(
        "<path d=\"{}\" fill=\"{}\" transform=\"translate({:.1f} {:.1f})\">"
        "<title>{}: {:.0f} B, {:.3g} GB/s</title></path>\n",
        marker, color, x, y, Escape(series.name), bytes, bandwidth);
  }
  if (line.empty()) return "";
  return fmt::format("<path d=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"2\"/>\n", line,
                     color) +
         markers;
}

// In the corner where the curves are not: bandwidth grows with size.
std::string DrawLegend(const std::vector<PlotSeries>& series) {
  size_t longest = 0;
  for (const PlotSeries& one : series) longest = std::max(longest, one.name.size());
  const double width = 48 + 7.5 * static_cast<double>(longest);
  const double height = 12 + 20 * static_cast<double>(series.size());
  const double x = kWidth - kRight - width - 12;
  double y = kHeight - kBottom - height - 12;
  std::string svg = fmt::format(
      "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" fill=\"#ffffff\" "
      "fill-opacity=\"0.9\" stroke=\"#b0b0b0\"/>\n",
      x, y, width, height);
  for (size_t i = 0; i < series.size(); ++i) {
    const char* const color = kColors[i % std::size(kColors)];
    y += 20;
    svg += fmt::format("<path d=\"M{:.1f},{:.1f}h28\" stroke=\"{}\" stroke-width=\"2\"/>\n", x + 8,
                       y - 4, color);
    svg += fmt::format("<path d=\"{}\" fill=\"{}\" transform=\"translate({:.1f} {:.1f})\"/>\n",
                       kMarkers[i % std::size(kMarkers)], color, x + 22, y - 4);
    svg += Text(x + 42, y, "start", series[i].name);
  }
  return svg;
}

}  // namespace

std::string DrawBandwidth(const std::string& title, const std::string& subtitle,
                          const std::vector<PlotSeries>& series) {
  const Axes axes(series);
  std::string svg = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0:.0f}\" height=\"{1:.0f}\" "
      "viewBox=\"0 0 {0:.0f} {1:.0f}\" font-family=\"sans-serif\" font-size=\"13\">\n"
      "<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n",
      kWidth, kHeight);
  svg += Text(kLeft, 30, "start", title, " font-size=\"18\" font-weight=\"bold\"");
  svg += Text(kLeft, 52, "start", subtitle, " fill=\"#505050\"");
  svg += DrawAxes(axes);
  for (size_t i = 0; i < series.size(); ++i) svg += DrawSeries(axes, series[i], i);
  if (!series.empty()) svg += DrawLegend(series);
  return svg + "</svg>\n";
}

}  // namespace tutti::tool
