//! Tables in text.

/// Pads cells to the width of their column: the first `left` columns are flush left, the others flush right.
pub(crate) fn pad(rows: &[Vec<String>], left: usize) -> Vec<Vec<String>> {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column));
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let cell = |(column, (cell, &width)): (usize, (&String, &usize))| match column < left {
        true => format!("{cell:<width$}"),
        false => format!("{cell:>width$}"),
    };
    rows.iter().map(|row| row.iter().zip(&widths).enumerate().map(cell).collect()).collect()
}
