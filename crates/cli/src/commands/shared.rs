//! Which programs of a user share a stack.
//!
//! Those for which the same stack would be started: the same options, files, proxy and version, in the same network, with the
//! same groups and in the same cgroup, whose limits and packet filters hold for it. Sessions of a user count as one.
//!
//! Programs without options of their own use the stack of a server on this host, if it was told to carry them.

use manypath_control::runtime;
use manypath_engine::Profile;
use manypath_gate::{StackChoice, group};
use manypath_rules::KeptFile;
use sha2::{Digest, Sha256};
use std::collections::hash_map::DefaultHasher;
use std::ffi::OsString;
use std::fs;
use std::hash::{Hash, Hasher};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Gives each `manypath run` a stack of its own, whatever its value.
const OWN: &str = "MANYPATH_OWN_STACK";
/// The file of the runtime directory with what makes names of stacks tell nothing of passwords.
const SECRET: &str = "stack-names";
/// Files that a stack reads or writes.
const FILES: [&str; 7] = [
    "MANYPATH_CONFIG",
    "MANYPATH_RULES",
    "MANYPATH_SYSCTL",
    "MANYPATH_PATHS",
    "MANYPATH_PEERS",
    "XDG_CONFIG_HOME",
    super::stack::PROXY_USER,
];

/// The stack that other programs use, too, unless a program is to have one of its own, as one that tells what it does
/// where the program does.
pub(super) fn stack(choice: StackChoice, own: bool) -> StackChoice {
    let StackChoice::Embedded { exe, mut args, tells: false } = choice else { return choice };
    let name = match own || std::env::var_os(OWN).is_some() {
        true => None,
        false => name(&exe, &args).ok(),
    };
    let Some(name) = name else { return StackChoice::Embedded { exe, args, tells: false } };
    if let Some(socket) = server(&args) {
        return StackChoice::Server { socket, exe, args };
    }
    args.extend(["--shared".into(), name.clone().into()]);
    StackChoice::Shared { name, exe, args }
}

/// Where a server's stack carries programs without options of their own, for which this would be the stack.
fn server(args: &[OsString]) -> Option<PathBuf> {
    let namespace = runtime::network_namespace().ok().filter(|_| is_usual(args))?;
    runtime::find_programs(&runtime::directory().ok()?, namespace)
}

/// Whether these are the arguments of a stack without options.
fn is_usual(args: &[OsString]) -> bool {
    let profile = Profile::Production.name();
    args.iter().eq(["stack", "--profile", profile, "--peer-port", "9899", "--encapsulation", "udp"])
}

fn name(exe: &Path, args: &[OsString]) -> io::Result<PathBuf> {
    let namespace = runtime::network_namespace().map_err(io::Error::other)?;
    let program = fs::metadata(exe)?;
    let mut key = DefaultHasher::new();
    (
        namespace,
        manypath_control::groups(),
        args,
        FILES.map(std::env::var_os),
        std::env::var_os("HOME"),
    )
        .hash(&mut key);
    let directory = runtime::directory()?;
    super::stack::proxy_and_user().map(|proxy| proxy_mark(&directory, &proxy)).hash(&mut key);
    (program.dev(), program.ino(), program.mtime(), program.mtime_nsec()).hash(&mut key);
    group::of("self").map(|group| unit(&group).to_owned()).hash(&mut key);
    Ok(runtime::shared_path(&directory, key.finish()))
}

/// What stands for the proxy with its user and password. All users of this host see the name of a stack, from which they could
/// guess a password, so a secret that nobody else can read goes into it.
fn proxy_mark(directory: &Path, (named, user): &(String, String)) -> [u8; 32] {
    let secret = KeptFile::named(directory.join(SECRET)).read_or_make_secret(new_secret);
    // Without a secret a changed password makes no other stack.
    let said = match secret {
        Ok(secret) => [&secret, named, user].map(String::as_str).join("\0"),
        Err(_) => without_password(named),
    };
    Sha256::digest(said).into()
}

fn new_secret() -> io::Result<String> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes).map_err(|e| io::Error::other(e.to_string()))?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// A proxy and its user.
fn without_password(proxy: &str) -> String {
    let Some((user, place)) = proxy.rsplit_once('@') else { return proxy.to_owned() };
    let (scheme, user) = user.split_once("://").unwrap_or(("", user));
    let name = user.split(':').next().unwrap_or_default();
    format!("{scheme}://{name}@{place}")
}

/// The cgroup without the scope of a session: `user.slice/user-1000.slice`.
fn unit(group: &str) -> &str {
    match group.rsplit_once('/') {
        Some((slice, last)) if last.starts_with("session-") && last.ends_with(".scope") => slice,
        _ => group,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn embedded(options: &[&str]) -> StackChoice {
        let exe = std::env::current_exe().unwrap();
        StackChoice::Embedded { exe, args: options.iter().map(Into::into).collect(), tells: false }
    }

    fn name_of(choice: StackChoice) -> Option<PathBuf> {
        match choice {
            StackChoice::Shared { name, .. } => Some(name),
            StackChoice::Embedded { .. }
            | StackChoice::Server { .. }
            | StackChoice::System { .. } => None,
        }
    }

    #[test]
    fn programs_with_the_same_options_share_a_stack_and_others_do_not() {
        let first = name_of(stack(embedded(&["stack"]), false));
        assert!(first.is_some());
        assert_eq!(first, name_of(stack(embedded(&["stack"]), false)));
        assert_ne!(first, name_of(stack(embedded(&["stack", "--mode", "redundant"]), false)));
        assert_eq!(name_of(stack(embedded(&["stack"]), true)), None);
    }

    #[test]
    fn another_proxy_is_another_stack_and_a_password_is_in_no_name() {
        let names =
            ["http://a:b@proxy:1", "http://a:c@x@proxy:1", "http://c:b@proxy:1", "a:b@p", "p:80"];
        let kept = ["http://a@proxy:1", "http://a@proxy:1", "http://c@proxy:1", "://a@p", "p:80"];
        assert_eq!(names.map(without_password), kept);
    }

    #[test]
    fn another_password_is_another_stack_and_a_name_tells_nothing_without_the_secret() {
        let folders = ["a", "b"].map(|name| {
            let name = format!("manypath-stack-names-{name}-{}", std::process::id());
            let folder = std::env::temp_dir().join(name);
            fs::create_dir_all(&folder).unwrap();
            folder
        });
        let mark = |folder: &PathBuf, named: &str, user: &str| {
            proxy_mark(folder, &(named.to_owned(), user.to_owned()))
        };
        let [here, there] = &folders;
        let first = mark(here, "http://a:b@proxy:1", "");
        assert_eq!(first, mark(here, "http://a:b@proxy:1", ""));
        assert_ne!(first, mark(here, "http://a:c@proxy:1", ""), "another password");
        assert_ne!(mark(here, "proxy:1", "a:b"), mark(here, "proxy:1", "a:c"), "in the file");
        assert_ne!(first, mark(there, "http://a:b@proxy:1", ""), "another secret");
        folders.iter().for_each(|folder| fs::remove_dir_all(folder).unwrap());
    }

    #[test]
    fn sessions_of_a_user_count_as_one_and_services_do_not() {
        assert_eq!(
            unit("user.slice/user-1000.slice/session-3.scope"),
            "user.slice/user-1000.slice"
        );
        assert_eq!(unit("system.slice/backup.service"), "system.slice/backup.service");
    }
}
