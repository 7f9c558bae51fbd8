//! Variables that ssh would send to the program: `-o SendEnv=NAME`, `-o SetEnv=NAME=VALUE`.

use super::args::LoginArgs;
use std::ffi::{OsStr, OsString};

/// The variables that the user's options name; those of configuration files are not sent.
pub(crate) fn sent(login: &LoginArgs) -> Vec<(String, OsString)> {
    login.option.iter().filter_map(|option| option.to_str()).flat_map(one).collect()
}

fn one(option: &str) -> Vec<(String, OsString)> {
    let Some((name, value)) = option.split_once(['=', ' ']) else { return Vec::new() };
    match name.trim().to_ascii_lowercase().as_str() {
        "sendenv" => own(value),
        "setenv" => value.split_whitespace().filter_map(set).collect(),
        _ => Vec::new(),
    }
}

fn set(pair: &str) -> Option<(String, OsString)> {
    let (name, value) = pair.split_once('=')?;
    Some((name.to_owned(), value.trim_matches('"').into()))
}

/// Our own variables of these names, of which the last character may be `*`.
fn own(patterns: &str) -> Vec<(String, OsString)> {
    let matches = |name: &OsStr| {
        patterns.split_whitespace().any(|pattern| match pattern.strip_suffix('*') {
            Some(start) => name.to_str().is_some_and(|name| name.starts_with(start)),
            None => name == pattern,
        })
    };
    let all = std::env::vars_os().filter(|(name, _)| matches(name));
    all.filter_map(|(name, value)| Some((name.into_string().ok()?, value))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn set_variables_are_read_from_the_option() {
        assert_eq!(one("SetEnv=A=1 B=\"2\""), [("A".into(), "1".into()), ("B".into(), "2".into())]);
    }

    #[test]
    fn only_variables_that_are_named_are_sent() {
        let names: Vec<String> = one("SendEnv=PATH").into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["PATH"]);
        assert_eq!(one("Port=22"), []);
    }
}
