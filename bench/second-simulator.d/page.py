"""What docs/second-simulator.md shows: tables between marks, points as CSV, and a picture of all ratios."""

import csv
import math
import os

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PAGE = os.path.join(ROOT, "docs/second-simulator.md")
RESULTS = os.path.join(ROOT, "docs/results/second-simulator")
POINTS = ["link", "rate_mbps", "delay_ms", "queue_packets", "loss_percent", "quantity", "ours", "ns3", "ratio", "agrees"]
STACKS = ["stack", "paths", "buffer_kib", "mbps", "delay_ms", "queued_mbps", "queued_delay_ms", "outstanding_mbps", "outstanding_delay_ms",
          "smaller_mbps", "smaller_delay_ms", "load"]


def table(head, rows):
    return "\n".join("| " + " | ".join(map(str, row)) + " |" for row in [head, ["---"] * len(head), *rows])


def write_csv(name, head, rows):
    os.makedirs(RESULTS, exist_ok=True)
    with open(os.path.join(RESULTS, name), "w", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([head, *rows])


def replace(mark, text):
    """Puts the text between the marks of the page."""
    with open(PAGE) as file:
        before, _, rest = file.read().partition(f"<!-- {mark} -->\n")
    _, _, after = rest.partition(f"<!-- end of {mark} -->")
    with open(PAGE, "w") as file:
        file.write(f"{before}<!-- {mark} -->\n{text}\n<!-- end of {mark} -->{after}")


def write_points(found, summary):
    write_csv("points.csv", POINTS, [point.row() for point in found])
    summed = [(quantity, f"{agree} of {count}", f"{median:.4f}", f"{low:.3f} to {high:.3f}")
              for quantity, count, agree, median, low, high in summary]
    apart = [(point.link, point.quantity, f"{point.ours:.4g}", f"{point.theirs:.4g}", f"{point.ratio:.3f}")
             for point in found if not point.agrees]
    text = table(["quantity", "agree", "median ratio", "range"], summed)
    text += f"\n\n{len(apart)} of {len(found)} points are further apart than that:\n\n"
    replace("ns3", text + table(["link", "quantity", "ours", "ns-3", "ratio"], apart))
    with open(os.path.join(RESULTS, "ratios.svg"), "w") as file:
        file.write(picture(found))


def picture(found):
    """One row for each quantity, one dot for each link, the logarithm of the ratio to the right."""
    quantities = list(dict.fromkeys(point.quantity for point in sorted(found, key=lambda p: p.place)))
    left, width, step, low, high = 230, 560, 34, 0.5, 2.0
    height = 60 + step * len(quantities)

    def across(ratio):
        return left + width * math.log(min(max(ratio, low), high) / low) / math.log(high / low)

    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {left + width + 20} {height}" font-family="sans-serif" font-size="12">',
           '<rect width="100%" height="100%" fill="white"/>']
    for ratio in (0.5, 0.7, 0.9, 1, 1.1, 1.4, 2):
        x = across(ratio)
        colour = "#444" if ratio == 1 else "#ddd"
        out.append(f'<line x1="{x:.1f}" x2="{x:.1f}" y1="12" y2="{height - 44}" stroke="{colour}"/>')
        out.append(f'<text x="{x:.1f}" y="{height - 28}" text-anchor="middle">{ratio:g}</text>')
    out.append(f'<text x="{left + width / 2}" y="{height - 8}" text-anchor="middle">ours / ns-3 (2 and more at the edge); blue: no loss, orange: random loss</text>')
    for row, quantity in enumerate(quantities):
        y = 30 + step * row
        out.append(f'<text x="{left - 10}" y="{y + 4}" text-anchor="end">{quantity}</text>')
        own = [point for point in found if point.quantity == quantity and point.counts and 0 < point.ratio < math.inf]
        for number, point in enumerate(sorted(own, key=lambda p: p.link.name)):
            colour = "#d95f02" if point.link.loss else "#1f77b4"
            out.append(f'<circle cx="{across(point.ratio):.1f}" cy="{y - 8 + number % 5 * 4}" r="3" fill="{colour}" fill-opacity="0.6">'
                       f"<title>{point.link}: {point.ratio:.3f}</title></circle>")
    return "\n".join([*out, "</svg>"]) + "\n"


def stack_row(stack, paths, size, seen, simulated, load):
    """A row of CSV: medians of the stack; nothing where no transfer ended in time, or where there is nothing to split."""
    rate, delay = (sorted(column)[len(seen) // 2] for column in zip(*seen)) if seen else ("", "")
    row = [stack, paths, size, *(f"{rate:.2f} {delay:.0f}".split() if seen else ["", ""])]
    for ours in [*simulated, None, None][:3]:
        row += [f"{ours[0]:.2f}", f"{ours[1]:.0f}"] if ours else ["", ""]
    return [*row, f"{load:.0f}"]


def write_stacks(rows):
    write_csv("stacks.csv", STACKS, rows)
    shown = []
    for stack, paths, size, rate, delay, *ours, load in rows:
        cells = [f"{mbps} / {ms} ({float(mbps) / float(rate):.2f})" if mbps and rate else "" for mbps, ms in zip(ours[::2], ours[1::2])]
        shown.append([stack, paths, size, f"{rate} / {delay}" if rate else "not done in time", *cells, load])
    head = ["stack", "paths", "KiB", "Mbit/s / ms", "ours, split by queued bytes (ratio)", "by outstanding bytes",
            "by outstanding bytes, 0.8 of the buffers", "load"]
    replace("stacks", table(head, shown))
