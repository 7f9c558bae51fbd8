//! The manual of the file, manypath-config(5), with the settings as this version has them.

use crate::failure::Failure;
use clap_mangen::roff::{Roff, bold, roman};
use manypath_daemon::{KNOBS, StackConfig};
use std::path::Path;

const EXAMPLE: &str = "services = [22, \"192.0.2.1:443\", \"53/udp\"]

rules = '''
remote disable port 25          # mail stays plain TCP
local enable net 192.0.2.0/24 port 8080
'''

paths = '''
dev wwan0 metered 5mbit
'''

[settings]
log_level = \"info\"
init_rtx_max = 3";

const ABOUT: [(&str, &str); 4] = [
    (
        "services",
        "Services of this host that peers may reach: ports, or strings \"ADDR:PORT\" and \"PORT/udp\". \
         Short for rules of the chain local, which come after those in rules.",
    ),
    (
        "rules",
        "Which connections are carried, and what peers may reach: one rule a line, in the words of \
         manypath-rules-add(1). The first that matches decides.",
    ),
    (
        "paths",
        "Path policies: one a line, in the words of manypath-path-add(1). Of those that match a path, \
         the first applies; those with a peer come before others.",
    ),
    ("settings", "A table of the settings below. Numbers, or strings."),
];

const FILES: [(&str, &str); 4] = [
    ("~/.config/manypath/config.toml", "The user's ($XDG_CONFIG_HOME/manypath/config.toml)."),
    ("/etc/manypath/config.toml", "The host's. root changes this one."),
    ("$MANYPATH_CONFIG", "If set, this file alone is read."),
    (
        "rules, sysctl.conf, paths",
        "Files of manypath 0.2 in the same folders, still read after config.toml; `manypath config \
         migrate` moves them. $MANYPATH_RULES, $MANYPATH_SYSCTL and $MANYPATH_PATHS each name one \
         such file, which is then the only one for its part.",
    ),
];

/// Writes manypath-config.5.
pub(crate) fn write_page(dir: &Path) -> Result<(), Failure> {
    let mut page = Roff::new();
    page.control("TH", ["MANYPATH-CONFIG", "5", "", env!("CARGO_PKG_VERSION"), ""]);
    section(&mut page, "NAME", "manypath-config - configuration of manypath");
    section(
        &mut page,
        "DESCRIPTION",
        "The user's file and the host's add up. A setting of the user's file takes precedence over \
         the host's; rules and path policies of the user come before the host's; services of both are \
         open. manypath config, rules and path change the file and keep comments; after editing it by \
         hand, run manypath config reload. If a file is wrong, the error names the line, and running \
         stacks keep their present configuration. manypath run and attach ignore a wrong setting, and \
         say so.",
    );
    entries(&mut page, "KEYS", &ABOUT.map(|(name, text)| (name.to_owned(), text.to_owned())));
    let config = StackConfig::default();
    let setting = KNOBS.iter().map(|knob| {
        // The one default that depends on the machine.
        let default = match knob.name {
            "receive_memory_mib" => "an eighth of the memory, 256 to 1280".to_owned(),
            _ => knob.show(knob.get(&config)),
        };
        (format!("{} = {default}", knob.name), knob.help.to_owned())
    });
    entries(&mut page, "SETTINGS AND THEIR DEFAULTS", &setting.collect::<Vec<_>>());
    entries(&mut page, "FILES", &FILES.map(|(name, text)| (name.to_owned(), text.to_owned())));
    page.control("SH", ["EXAMPLE"]).control("nf", []);
    for line in EXAMPLE.lines() {
        page.text([roman(line)]);
    }
    page.control("fi", []);
    section(
        &mut page,
        "SEE ALSO",
        "manypath-config(1), manypath-rules(1), manypath-path(1), manypath-serve(1)",
    );
    let file = dir.join("manypath-config.5");
    std::fs::write(&file, page.render())
        .map_err(|e| Failure::new(format!("cannot write {}: {e}", file.display())))
}

fn section(page: &mut Roff, name: &str, text: &str) {
    page.control("SH", [name]).text([roman(text)]);
}

fn entries(page: &mut Roff, name: &str, entries: &[(String, String)]) {
    page.control("SH", [name]);
    for (name, text) in entries {
        page.control("TP", []).text([bold(name)]).text([roman(text)]);
    }
}
