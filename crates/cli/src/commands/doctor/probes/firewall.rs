//! The chains of this host's firewall (nftables) through which packets of paths go. Needs root.

use std::process::Command;

/// Commands that let packets to a UDP port of peers leave.
pub(super) fn open_output(port: u16) -> Vec<String> {
    commands("output", &format!("udp dport {port} accept"))
}

/// Commands that let the answers in.
pub(super) fn open_input(port: u16) -> Vec<String> {
    commands("input", &format!("udp sport {port} accept"))
}

fn commands(hook: &str, rule: &str) -> Vec<String> {
    let listed = Command::new("nft").args(["list", "chains"]).output();
    let text = listed.map(|it| String::from_utf8_lossy(&it.stdout).into_owned());
    let chains = chains(&text.unwrap_or_default(), hook);
    chains.iter().map(|chain| format!("nft insert rule {chain} {rule}")).collect()
}

/// Family, table and name of each chain that filters at `hook`.
fn chains(listed: &str, hook: &str) -> Vec<String> {
    let (mut table, mut chain, mut found) = (String::new(), "", Vec::new());
    for line in listed.lines() {
        match line.split_whitespace().collect::<Vec<_>>()[..] {
            ["table", family, name, "{"] => table = format!("{family} {name}"),
            ["chain", name, "{"] => chain = name,
            ["type", "filter", "hook", at, ..] if at == hook && is_of_ip(&table) => {
                found.push(format!("{table} {chain}"));
            }
            _ => {}
        }
    }
    found
}

fn is_of_ip(table: &str) -> bool {
    ["ip ", "ip6 ", "inet "].iter().any(|family| table.starts_with(family))
}

#[cfg(test)]
mod tests {
    use super::chains;

    #[test]
    fn chains_are_found_by_their_hook() {
        let listed = "table inet wall {\n\tchain out {\n\t\ttype filter hook output priority filter; \
                      policy accept;\n\t}\n\tchain in {\n\t\ttype filter hook input priority filter; \
                      policy drop;\n\t}\n\tchain more {\n\t}\n}\ntable arp other {\n\tchain x {\n\t\t\
                      type filter hook output priority 0;\n\t}\n}\n";
        assert_eq!(chains(listed, "output"), ["inet wall out"]);
        assert_eq!(chains(listed, "input"), ["inet wall in"]);
        assert!(chains("", "input").is_empty());
    }
}
