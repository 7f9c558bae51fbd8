//! `manypath ssh serve`: a server for commands and files of one user, without root.

use super::args::ServeArgs;
use super::master::private_folder;
use crate::failure::Failure;
use std::collections::BTreeSet;
use std::fmt::Write;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// A signal, and that sshd has its port, is noticed within this.
const LOOK: Duration = Duration::from_millis(100);
/// `TCP_LISTEN`, as /proc/net/tcp has it.
const LISTEN: &str = "0A";

/// What is not a key, a command or a file is off, whatever the defaults of the installed version are.
const FIXED: &str = "\
PidFile none
UsePAM no
AuthenticationMethods publickey
PubkeyAuthentication yes
PasswordAuthentication no
KbdInteractiveAuthentication no
HostbasedAuthentication no
GSSAPIAuthentication no
PermitRootLogin prohibit-password
StrictModes yes
PermitTTY no
DisableForwarding yes
PermitTunnel no
PermitUserRC no
PermitUserEnvironment no
AllowTcpForwarding no
AllowStreamLocalForwarding no
AllowAgentForwarding no
X11Forwarding no
PrintMotd no
UseDNS no
LoginGraceTime 30
MaxAuthTries 3
Subsystem sftp internal-sftp
";

/// Serves until interrupted, or until sshd ends.
pub(crate) fn serve(args: &ServeArgs) -> Result<u8, Failure> {
    let program = match &args.sshd {
        Some(program) => program.clone(),
        None => sshd()?,
    };
    let user = user()?;
    let home = home()?;
    let keys = args.keys.clone().unwrap_or_else(|| home.join(".ssh/authorized_keys"));
    if !keys.is_file() {
        let text = format!("nobody could log in: there is no {}", keys.display());
        return Err(Failure::new(text).hint("put the public keys of users who may log in there"));
    }
    let host_key = args.host_key.clone().unwrap_or_else(|| host_key(&home));
    make_key(&host_key)?;
    let folder = Folder(private_folder()?);
    let config = folder.0.join("sshd_config");
    std::fs::write(&config, configuration(args, &user, &keys, &host_key)?)?;
    let interrupted = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&interrupted))?;
    }
    // Of somebody else: sshd cannot have the port then, and says so.
    let others = listeners(args.port);
    let mut command = Command::new(&program);
    command.args(["-D", "-e", "-f"]).arg(&config).stdin(Stdio::null());
    manypath_shim::end_with_parent(&mut command);
    let mut child = command
        .spawn()
        .map_err(|e| Failure::new(format!("cannot run {}: {e}", program.display())))?;
    let mut is_served = false;
    loop {
        if !is_served && !listeners(args.port).is_subset(&others) {
            is_served = true;
            let (port, keys) = (args.port, keys.display());
            eprintln!("manypath: {user} is served on port {port}, with the keys of {keys}");
        }
        if interrupted.load(Ordering::Relaxed) {
            let _ = Command::new("kill").arg(child.id().to_string()).status();
            child.wait()?;
            return Ok(130);
        }
        if let Some(status) = child.try_wait()? {
            return Err(Failure::new(format!("sshd exited: {status}")));
        }
        std::thread::sleep(LOOK);
    }
}

/// Inodes of the TCP sockets that listen at a port of this network, whosever they are.
fn listeners(port: u16) -> BTreeSet<String> {
    let tables = ["/proc/self/net/tcp", "/proc/self/net/tcp6"].map(std::fs::read_to_string);
    tables.iter().flatten().flat_map(|table| listening_at(port, table)).collect()
}

/// Those of one table (proc_pid_net(5)): its columns are number, own address, peer, state, and the inode as the tenth.
fn listening_at(port: u16, table: &str) -> impl Iterator<Item = String> {
    let end = format!(":{port:04X}");
    table.lines().filter_map(move |line| {
        let columns: Vec<&str> = line.split_whitespace().collect();
        let is_there = columns.get(1)?.ends_with(&end) && *columns.get(3)? == LISTEN;
        is_there.then(|| columns.get(9).map(|inode| (*inode).to_owned()))?
    })
}

/// Its configuration, removed at the end.
struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn configuration(
    args: &ServeArgs,
    user: &str,
    keys: &Path,
    host_key: &Path,
) -> Result<String, Failure> {
    let mut text = format!("Port {}\n{FIXED}", args.port);
    let mut option = |name: &str, value: &str| {
        let is_plain = !value.contains(['"', '\\', '\n', '%']);
        let written = is_plain.then(|| writeln!(text, "{name} \"{value}\""));
        written.map(drop).ok_or_else(|| Failure::usage(format!("sshd_config cannot hold {value}")))
    };
    option("AllowUsers", user)?;
    option("HostKey", &absolute(host_key)?)?;
    option("AuthorizedKeysFile", &absolute(keys)?)?;
    for address in &args.listen {
        option("ListenAddress", address)?;
    }
    Ok(text)
}

fn absolute(path: &Path) -> Result<String, Failure> {
    Ok(std::path::absolute(path)?.display().to_string())
}

/// sshd runs itself anew for each connection, so it wants its full path; it is often where only root looks.
fn sshd() -> Result<PathBuf, Failure> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let more = ["/usr/sbin", "/usr/local/sbin", "/sbin"].map(PathBuf::from);
    let mut all = std::env::split_paths(&path).chain(more).map(|folder| folder.join("sshd"));
    let found = all.find(|file| file.is_absolute() && file.is_file());
    found.ok_or_else(|| {
        Failure::new("sshd is not installed")
            .hint("install the OpenSSH server; it does not have to run")
    })
}

fn user() -> Result<String, Failure> {
    let output = Command::new("id").arg("-un").output()?;
    let name = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    if name.is_empty() {
        Err(Failure::new("this user ID is not in the user database"))
    } else {
        Ok(name)
    }
}

fn home() -> Result<PathBuf, Failure> {
    let home = std::env::var_os("HOME").map(PathBuf::from);
    home.ok_or_else(|| Failure::new("HOME is not set"))
}

fn host_key(home: &Path) -> PathBuf {
    let config = std::env::var_os("XDG_CONFIG_HOME").map(PathBuf::from);
    let config = config.filter(|path| path.is_absolute()).unwrap_or_else(|| home.join(".config"));
    config.join("manypath/ssh_host_ed25519_key")
}

/// Makes the host key if there is none.
fn make_key(path: &Path) -> Result<(), Failure> {
    if path.exists() {
        return Ok(());
    }
    if let Some(folder) = path.parent() {
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    }
    let mut command = Command::new("ssh-keygen");
    let status = command.args(["-q", "-t", "ed25519", "-N", "", "-f"]).arg(path).status()?;
    if status.success() {
        Ok(())
    } else {
        Err(Failure::new("ssh-keygen failed to create a host key"))
    }
}

#[cfg(test)]
mod tests {
    use super::{listeners, listening_at};
    use std::net::{TcpListener, TcpStream};

    #[test]
    fn only_sockets_that_listen_at_the_port_count() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let at = listener.local_addr().unwrap();
        let client = TcpStream::connect(at).unwrap();
        let (_accepted, _) = listener.accept().unwrap();
        assert_eq!(listeners(at.port()).len(), 1);
        assert!(listeners(client.local_addr().unwrap().port()).is_empty());
        drop(listener);
        assert!(listeners(at.port()).is_empty());
    }

    #[test]
    fn tables_of_the_kernel_are_read() {
        let table = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n\
               0: 00000000:08AE 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 4711 1 0 100 0 0 10 0\n\
               1: 0100007F:08AE 0100007F:C001 01 00000000:00000000 00:00000000 00000000     0        0 4712 1 0 20 4 30 10 -1\n";
        assert_eq!(listening_at(2222, table).collect::<Vec<_>>(), ["4711"]);
        assert_eq!(listening_at(222, table).count(), 0);
    }
}
