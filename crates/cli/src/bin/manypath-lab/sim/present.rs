//! Results that earlier calls have left, so that one page can tell of all figures without simulating
//! them anew: those in the folder of the page keep their sections of the page that was there, with the criteria of the
//! verdict and the notes of today, those in folders below get a short one that leads there.

use super::page::{NOTES, Section, table};
use crate::failure::Failure;
use manypath_sim::figure::{Criterion, Figure, figures};
use std::path::Path;

/// What ends the line that says how much was simulated.
const EFFORT: &str = " measured in each";

/// A section for each figure that `out` or a folder in it has a verdict of.
pub(super) fn sections(out: &Path) -> Result<Vec<Section>, Failure> {
    let page = read(&out.join("README.md"));
    let mut sections = Vec::new();
    for figure in figures() {
        if let Some(verdict) = verdict(figure, out)? {
            sections.extend(kept(figure, &page, &verdict));
            continue;
        }
        for folder in folders(out)? {
            if let Some(verdict) = verdict(figure, &out.join(&folder))? {
                sections.push(short(figure, out, &folder, &verdict));
                break;
            }
        }
    }
    Ok(sections)
}

/// The section that `page` has of a figure.
fn kept(figure: &'static Figure, page: &str, verdict: &[Criterion]) -> Option<Section> {
    let begin = format!("\n## {}: ", figure.name);
    let at = page.find(&begin)?;
    let rest = &page[at + 1..];
    let text = rest.find("\n## ").map_or(rest, |end| &rest[..end]);
    let effort = effort(text).unwrap_or_default();
    Some(Section {
        figure,
        met: met(verdict),
        of: verdict.len(),
        effort,
        text: format!("\n{}\n", renewed(text, verdict, figure.notes).trim()),
    })
}

/// A section with this table of criteria, and with these notes if it is marked where its own are.
fn renewed(text: &str, verdict: &[Criterion], notes: &str) -> String {
    let Some((head, rest)) = text.split_once("\n| criterion |") else { return text.to_owned() };
    let after = rest.split_once("\n\n").map_or("", |(_, after)| after);
    let [begin, end] = NOTES;
    let parts = after.split_once(begin).zip(after.split_once(end));
    let after = match parts {
        Some(((before, _), (_, behind))) => {
            format!("{before}{begin}\n\n{}\n\n{end}{behind}", notes.trim())
        }
        None => after.to_owned(),
    };
    format!("{head}\n{}\n{after}", table(verdict))
}

/// What there is to say of a figure whose files are in `folder`.
fn short(figure: &'static Figure, out: &Path, folder: &str, verdict: &[Criterion]) -> Section {
    let Figure { name, title, notes, .. } = figure;
    let pages = [format!("{folder}/{name}.md"), format!("{folder}/README.md")];
    let page = pages.iter().find(|page| out.join(page).exists());
    let told = page.map_or(String::new(), |page| read(&out.join(page)));
    let effort = effort(&told).unwrap_or_default();
    let all = page.map_or(String::new(), |page| format!("[All of it]({page}), "));
    let file = format!("{folder}/{name}");
    let summary = notes.trim().split("\n\n").next().unwrap_or_default();
    let (met, of) = (met(verdict), verdict.len());
    let mut text = format!(
        "\n## {name}: {title}\n\n![{title}]({file}.svg)\n\n{effort}: {all}[points]({file}.csv), \
         [picture]({file}.svg), [verdict]({file}.verdict.json).\n\n{summary}\n\n{met} of {of} criteria are met."
    );
    let missed: Vec<&Criterion> = verdict.iter().filter(|criterion| !criterion.met).collect();
    text += if missed.is_empty() { "\n" } else { " Not met:\n\n" };
    if !missed.is_empty() {
        text += &table(missed);
    }
    Section { figure, met, of, effort, text }
}

fn met(verdict: &[Criterion]) -> usize {
    verdict.iter().filter(|criterion| criterion.met).count()
}

fn verdict(figure: &Figure, folder: &Path) -> Result<Option<Vec<Criterion>>, Failure> {
    let file = folder.join(format!("{}.verdict.json", figure.name));
    if !file.exists() {
        return Ok(None);
    }
    let wrong = |e: serde_json::Error| Failure::new(format!("{}: {e}", file.display()));
    serde_json::from_str(&read(&file)).map(Some).map_err(wrong)
}

/// The names of the folders in `out`, in order.
fn folders(out: &Path) -> Result<Vec<String>, Failure> {
    let mut names = Vec::new();
    for entry in std::fs::read_dir(out)? {
        let entry = entry?;
        if entry.path().is_dir() {
            names.extend(entry.file_name().into_string());
        }
    }
    names.sort();
    Ok(names)
}

/// How much was simulated, as a text says it first.
fn effort(text: &str) -> Option<String> {
    let end = text.find(EFFORT)? + EFFORT.len();
    let start = text[..end].rfind(['\n', '(']).map_or(0, |at| at + 1);
    Some(text[start..end].to_owned())
}

/// A file that may not be there.
fn read(file: &Path) -> String {
    std::fs::read_to_string(file).unwrap_or_default()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failing helper fails the test")]
mod tests {
    use super::sections;
    use crate::sim::page::page;
    use std::fs::{create_dir_all, remove_dir_all, write};

    const VERDICT: &str = r#"[
        { "criterion": "order", "published": "a", "ours": "b", "tolerance": "c", "met": true },
        { "criterion": "goodput", "published": "1", "ours": "0.7 | <", "tolerance": "2", "met": false }
    ]"#;

    #[test]
    fn the_page_tells_of_results_that_are_there_and_keeps_what_it_said() {
        let out = std::env::temp_dir().join(format!("manypath-page-{}", std::process::id()));
        create_dir_all(out.join("dyn")).unwrap();
        write(out.join("dreibholz2010-fig4.verdict.json"), VERDICT).unwrap();
        write(out.join("dyn/manypath-dynamic.verdict.json"), VERDICT).unwrap();
        write(
            out.join("dyn/manypath-dynamic.md"),
            "# x\n\n9 runs, 1 seed, 20 s measured in each: y\n",
        )
        .unwrap();
        let before = "# old\n\n## dreibholz2010-fig4: T\n\n7 runs, 2 seeds, 3 s measured in each: kept.\n\n\
                      | criterion | published |\n|---|---|\n| gone | 1 |\n\n**Bars**\n\n\
                      <!-- notes -->\n\n**Old** notes.\n\n<!-- end of notes -->\n\n[All of it](x.md).\n\n\
                      ## dreibholz2010-fig5: gone\n\nno verdict\n";
        write(out.join("README.md"), before).unwrap();
        let text = page(&sections(&out).unwrap());
        remove_dir_all(&out).unwrap();
        let has = |part: &str| assert!(text.contains(part), "{part} in {text}");
        has("| 1 of 2 | 7 runs, 2 seeds, 3 s measured in each |");
        has(
            "\n## dreibholz2010-fig4: T\n\n7 runs, 2 seeds, 3 s measured in each: kept.\n\n| criterion |",
        );
        has("| order | a | b | c | yes |");
        has("**Bars**\n\n<!-- notes -->\n\n**What the paper says.**");
        has("<!-- end of notes -->\n\n[All of it](x.md).\n");
        has("| 1 of 2 | 9 runs, 1 seed, 20 s measured in each |");
        has("[All of it](dyn/manypath-dynamic.md)");
        has("| goodput | 1 | 0.7 \\| &lt; | 2 | **no** |");
        for gone in ["| gone |", "**Old**", "fig5"] {
            assert!(!text.contains(gone), "{gone} in {text}");
        }
    }
}
