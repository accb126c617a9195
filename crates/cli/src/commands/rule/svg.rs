//! A picture of load: two bars for each place, before and after. Pure; plain SVG 1.1 without scripts or outside parts.

use std::fmt::Write as _;

/// One place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Bar {
    pub(super) name: String,
    pub(super) before: u64,
    /// `None` if there is only one version.
    pub(super) after: Option<u64>,
}

/// Most places in a picture; more cannot be told apart.
pub(super) const BARS_MAX: usize = 200;

const NAME_WIDTH: u32 = 220;
const BAR_WIDTH: u32 = 520;
const ROW_HEIGHT: u32 = 26;
const TOP: u32 = 64;

/// The picture; `bars` has at most [`BARS_MAX`].
pub(super) fn picture(title: &str, legend: (&str, Option<&str>), bars: &[Bar]) -> String {
    let greatest = bars
        .iter()
        .flat_map(|bar| [bar.before, bar.after.unwrap_or(0)])
        .max()
        .unwrap_or(0)
        .max(1);
    let (rows, sides) = (bars.len() as u32, legend.1.is_some());
    let (width, height) = (NAME_WIDTH + BAR_WIDTH + 120, TOP + rows * ROW_HEIGHT + 16);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" viewBox=\"0 0 {width} {height}\" \
         font-family=\"sans-serif\" font-size=\"12\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n\
         <text x=\"12\" y=\"24\" font-size=\"16\">{}</text>\n",
        escaped(title)
    );
    let mut key = |x: u32, color: &str, text: &str| {
        // To a String nothing can fail.
        let _ = writeln!(
            svg,
            "<rect x=\"{x}\" y=\"38\" width=\"12\" height=\"12\" fill=\"{color}\"/><text x=\"{}\" y=\"49\">{}</text>",
            x + 18,
            escaped(text)
        );
    };
    key(12, BEFORE, legend.0);
    if let Some(after) = legend.1 {
        key(NAME_WIDTH + 60, AFTER, after);
    }
    for (bar, row) in bars.iter().zip(0..) {
        let y = TOP + row * ROW_HEIGHT;
        let _ = writeln!(
            svg,
            "<text x=\"{}\" y=\"{}\" text-anchor=\"end\">{}</text>",
            NAME_WIDTH - 8,
            y + 15,
            escaped(&bar.name)
        );
        let height = if sides { 10 } else { 20 };
        rectangle(&mut svg, y, height, bar.before, greatest, BEFORE);
        if let Some(after) = bar.after {
            rectangle(&mut svg, y + 11, height, after, greatest, AFTER);
        }
    }
    svg.push_str("</svg>\n");
    svg
}

/// Told apart without seeing red or green.
const BEFORE: &str = "#8da0cb";
const AFTER: &str = "#e6850e";

fn rectangle(svg: &mut String, y: u32, height: u32, rows: u64, greatest: u64, color: &str) {
    // At most the width of a bar, so it fits.
    let width = (u128::from(rows) * u128::from(BAR_WIDTH) / u128::from(greatest)) as u32;
    let _ = writeln!(
        svg,
        "<rect x=\"{NAME_WIDTH}\" y=\"{y}\" width=\"{}\" height=\"{height}\" fill=\"{color}\"/><text x=\"{}\" y=\"{}\" \
         font-size=\"10\">{rows}</text>",
        width.max(1),
        NAME_WIDTH + width + 6,
        y + height - 1
    );
}

fn escaped(text: &str) -> String {
    text.chars()
        .map(|it| match it {
            '<' => "&lt;".to_owned(),
            '>' => "&gt;".to_owned(),
            '&' => "&amp;".to_owned(),
            '"' => "&quot;".to_owned(),
            it if it.is_control() => " ".to_owned(),
            it => it.to_string(),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_picture_is_well_formed_and_in_proportion() {
        let bar = |name: &str, before, after| Bar {
            name: name.to_owned(),
            before,
            after,
        };
        let bars = [bar("a<b>&\"\u{1}", 100, Some(50)), bar("t_1", 0, Some(100))];
        let svg = picture("t & u", ("before", Some("after")), &bars);
        assert!(svg.contains("a&lt;b&gt;&amp;&quot; </text>"));
        assert!(svg.contains(&format!(
            "width=\"{BAR_WIDTH}\" height=\"10\" fill=\"{BEFORE}\""
        )));
        assert!(svg.contains(&format!(
            "width=\"{}\" height=\"10\" fill=\"{AFTER}\"",
            BAR_WIDTH / 2
        )));
        assert_eq!(svg.matches("<rect").count(), 1 + 2 + 4);
        // No rows at all, and no places.
        assert!(picture("", ("x", None), &[bar("t", 0, None)]).ends_with("</svg>\n"));
        assert!(picture("", ("x", None), &[]).ends_with("</svg>\n"));
        let huge = picture("", ("x", None), &[bar("t", u64::MAX, None)]);
        assert!(huge.contains(&format!("width=\"{BAR_WIDTH}\" height=\"20\"")));
    }
}
