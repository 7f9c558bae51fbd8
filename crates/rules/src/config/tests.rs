//! Files that add up, are changed without losing anything, and take in what older ones say.

#![allow(clippy::unwrap_used, reason = "a failing test may panic")]

use super::{Part, Sources, migration};
use crate::paths::PathsFile;
use crate::{Chain, Policy, RulesFile};
use std::fs;
use std::path::PathBuf;

/// Two folders of a test, as those of a user and of a host.
struct Folders(PathBuf);

impl Folders {
    fn new(name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("manypath-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        ["user", "host"].iter().for_each(|sub| fs::create_dir_all(folder.join(sub)).unwrap());
        Self(folder)
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.0.join(name), text).unwrap();
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.0.join(name)).unwrap_or_default()
    }

    fn sources(&self, part: Part, root: bool) -> Sources {
        Sources::of_folders(part, Some(&self.0.join("user")), &self.0.join("host"), root)
    }

    fn rules(&self) -> RulesFile {
        RulesFile::at(self.sources(Part::Rules, false))
    }

    fn lines(&self, part: Part) -> Vec<String> {
        let layers = self.sources(part, false).read().unwrap();
        let of = |(layer, n, text): (usize, usize, &str)| {
            let path = layers.layers[layer].path.strip_prefix(&self.0).unwrap();
            format!("{}:{n} {text}", path.display())
        };
        layers.lines().map(of).collect()
    }
}

impl Drop for Folders {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

const HOST: &str = "# of the host
services = [22, \"53/udp\"]
rules = '''
# mail
remote disable port 25
'''

[settings]
log_level = \"info\" # why
init_rtx_max = 3
";

#[test]
fn the_users_lines_come_before_the_hosts() {
    let folders = Folders::new("add-up");
    folders.write("host/config.toml", HOST);
    folders.write(
        "user/config.toml",
        "rules = \"\"\"\nremote disable port 26\n\"\"\"\npaths = 'dev a backup'\n",
    );
    let rules = [
        "user/config.toml:2 remote disable port 26",
        "host/config.toml:4 # mail",
        "host/config.toml:5 remote disable port 25",
        "host/config.toml:2 local enable port 22",
        "host/config.toml:2 local enable udp port 53",
    ];
    assert_eq!(folders.lines(Part::Rules), rules);
    assert_eq!(folders.lines(Part::Paths), ["user/config.toml:4 dev a backup"]);
    let settings = ["host/config.toml:9 log_level = info", "host/config.toml:10 init_rtx_max = 3"];
    assert_eq!(folders.lines(Part::Settings), settings);
}

#[test]
fn a_change_is_written_to_the_own_file_and_nothing_else_in_it_changes() {
    let folders = Folders::new("own");
    folders.write("host/config.toml", HOST);
    let own =
        "# mine\npaths = '''\ndev a backup  # costs\n'''\n\n[settings]\npeer_cache = 0  # never\n";
    folders.write("user/config.toml", own);
    let place = folders.rules().edit(|it| it.add("remote disable port 26".parse()?, None)).unwrap();
    assert_eq!((place.policy, place.number), (Policy::Disable, 1), "before the host's");
    let text = folders.read("user/config.toml");
    assert!(text.contains("rules = '''\nremote disable port 26\n'''\n"), "{text}");
    assert!(
        text.contains("dev a backup  # costs\n") && text.contains("peer_cache = 0  # never\n"),
        "{text}"
    );
    let settings = folders.sources(Part::Settings, false);
    let set = |line: &str| {
        settings.edit(|_| Ok::<_, crate::KeptFileError>((vec![line.to_owned()], ()))).unwrap();
        folders.read("user/config.toml")
    };
    assert!(set("peer_cache = 1").contains("peer_cache = 1  # never\n"));
    assert!(set("log_level = warn").ends_with("[settings]\nlog_level = \"warn\"\n"));
    folders.rules().edit(|it| Ok(it.flush())).unwrap();
    assert!(folders.read("user/config.toml").starts_with("# mine\npaths = '''\n"));
    assert_eq!(folders.read("host/config.toml"), HOST);
}

#[test]
fn what_is_in_another_file_is_not_changed_and_its_name_is_told() {
    let folders = Folders::new("other");
    folders.write("host/config.toml", HOST);
    let refused =
        |rule: &str| folders.rules().edit(|it| it.delete(&rule.parse()?)).unwrap_err().to_string();
    let told = refused("remote disable port 25");
    assert!(told.contains("host/config.toml, which this command does not change"), "{told}");
    let told = refused("local enable port 22");
    assert!(told.contains("local-enable rule 1 is an entry of `services` in"), "{told}");
    let late = folders.rules().edit(|it| it.add("remote disable port 1".parse()?, Some(2)));
    let told = late.unwrap_err().to_string();
    assert!(told.contains("remote-disable 2 is not among the rules of"), "{told}");
}

#[test]
fn a_wrong_file_is_told_with_its_line() {
    let folders = Folders::new("wrong-config");
    for (text, told) in [
        ("rules = '''\nremote perhaps\n'''\n", "line 2: unknown policy \"perhaps\""),
        ("\n\nrulez = ''\n", "line 3: unknown key \"rulez\": settings, rules, paths, services"),
        ("services = [\n22,\n'ssh']\n", "line 3: services: \"ssh\" is not PORT"),
        ("\nservices = 22\n", "line 2: services: write [22, "),
        ("rules = ''\n[settings\n", "line 2: "),
    ] {
        folders.write("user/config.toml", text);
        let error = folders.rules().read().unwrap_err().to_string();
        assert!(error.contains(&format!("user/config.toml: {told}")), "{text}: {error}");
    }
}

#[test]
fn files_of_0_2_are_read_as_before_until_they_are_migrated() {
    let folders = Folders::new("migrate");
    folders.write("host/rules", "remote disable port 1\n");
    folders.write("user/rules", "# mine\ndefault remote enable\nremote disable port 2  # why\n");
    folders.write(
        "user/sysctl.conf",
        "# slow\ninit_rtx_max = 3  # lines\nlog_level = info\npeer_cache=1\n",
    );
    folders.write("user/paths", "dev a backup\n");
    folders.write(
        "user/config.toml",
        "rules = 'default remote disable'\n[settings]\npeer_cache = 0\n",
    );
    let before = folders.lines(Part::Rules);
    assert!(
        before.iter().any(|line| line == "user/rules:3 remote disable port 2  # why"),
        "{before:?}"
    );
    assert!(
        !before.iter().any(|line| line.contains("port 1")),
        "the user's hides the host's: {before:?}"
    );
    assert_eq!(folders.sources(Part::Rules, false).outdated(), [folders.0.join("user/rules")]);
    let all = Part::ALL.map(|part| folders.sources(part, false));
    assert_eq!(migration::migrate_from(&all).unwrap().moved.len(), 3);
    let text = folders.read("user/config.toml");
    let rules = "rules = '''\ndefault remote disable\n# mine\nremote disable port 2  # why\n'''\n";
    assert!(text.contains(rules), "{text}");
    let settings =
        "[settings]\npeer_cache = 0\n# slow\ninit_rtx_max = 3  # lines\nlog_level = \"info\"\n";
    assert!(text.contains(settings), "{text}");
    assert!(text.contains("paths = '''\ndev a backup\n'''\n"), "{text}");
    assert_eq!(folders.read("user/rules.old").lines().count(), 3);
    assert!(folders.read("user/rules").is_empty());
    let table = folders.rules().read().unwrap().table();
    assert_eq!(table.default_policy(Chain::Remote), Policy::Disable);
    assert_eq!(migration::migrate_from(&all).unwrap().moved, []);
}

#[test]
fn a_users_policy_overrides_the_hosts_and_begins_with_it() {
    let folders = Folders::new("policies");
    folders.write("host/config.toml", "paths = '''\ndev a cost 3\ndev b primary\n'''\n");
    let file = PathsFile::at(folders.sources(Part::Paths, false));
    let words = |text: &'static str| crate::paths::parse_path(&text.split(' ').collect::<Vec<_>>());
    let (selector, said) = words("dev a backup").unwrap();
    file.edit(|it| it.change(&selector, &said)).unwrap();
    let (other, said) = words("dev c primary").unwrap();
    file.edit(|it| it.add(&other, &said)).unwrap();
    let entries: Vec<_> = file.read().unwrap().iter().map(ToString::to_string).collect();
    let expected = ["dev a backup cost 3", "dev c primary", "dev a cost 3", "dev b normal"];
    assert_eq!(entries, expected);
    file.edit(|it| it.remove(&selector)).unwrap();
    let told = file.edit(|it| it.remove(&selector)).unwrap_err().to_string();
    assert!(
        told.contains("host/config.toml") && told.contains("dev a normal` overrides"),
        "{told}"
    );
}

#[test]
fn root_writes_the_hosts_file_unless_it_has_one_of_its_own() {
    let folders = Folders::new("root");
    let written = |root| folders.sources(Part::Rules, root).written().to_owned();
    assert_eq!(written(true), folders.0.join("host/config.toml"));
    assert_eq!(written(false), folders.0.join("user/config.toml"));
    folders.write("host/rules", "");
    assert_eq!(written(true), folders.0.join("host/rules"), "until it is migrated");
    folders.write("user/config.toml", "");
    assert_eq!(written(true), folders.0.join("user/config.toml"));
}

/// What is no TOML below `[settings]` is left out line by line, for all parts; elsewhere it is an error.
#[test]
fn a_typo_in_the_settings_hides_nothing_else() {
    let folders = Folders::new("typo");
    let text = format!("{HOST}log_stack = info\nlog_path\npath_rtx_max = [4]\npeer_cache = 0\n");
    folders.write("host/config.toml", &text);
    let settings = folders.sources(Part::Settings, false).read().unwrap();
    let lines: Vec<_> = settings.lines().map(|(_, line, text)| (line, text)).collect();
    assert_eq!(lines, [(9, "log_level = info"), (10, "init_rtx_max = 3"), (14, "peer_cache = 0")]);
    let wrong = settings.layers.iter().flat_map(|layer| layer.wrong.iter().map(|(line, _)| *line));
    assert_eq!(wrong.collect::<Vec<_>>(), [11, 12, 13]);
    assert_eq!(folders.lines(Part::Rules).len(), 4);
    folders.write("host/config.toml", &format!("services = [22\n{HOST}"));
    let error = folders.sources(Part::Settings, false).read().unwrap_err();
    assert!(error.error.to_string().starts_with("line "), "{error:?}");
}
