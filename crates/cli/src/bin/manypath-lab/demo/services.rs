//! The servers of the right host: stock sshd, stock nginx, `manypath serve`.

use super::ports::{HTTP_MPTCP_PORT, HTTP_PORT, Listen, SSH_MPTCP_PORT, SSH_PORT, UDP_PORT};
use super::programs::need_program;
use super::world::World;
use crate::failure::Failure;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// How long a service may take until it listens.
const START_LIMIT: Duration = Duration::from_secs(10);

/// A running server; killed when dropped.
#[derive(Debug)]
pub(crate) struct Service(Child);

impl Drop for Service {
    fn drop(&mut self) {
        // It may have ended by itself, which is as good.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts nginx serving the folder `root`.
pub(crate) fn start_nginx(world: &World, root: &Path, listen: Listen) -> Result<Service, String> {
    let nginx = need_program("nginx", "nginx-light")?;
    let (port, tag) = match listen {
        Listen::Tcp => (HTTP_PORT, "tcp"),
        Listen::Mptcp => (HTTP_MPTCP_PORT, "mptcp"),
    };
    let dir = world.work_dir().join(format!("nginx-{tag}"));
    fs::create_dir_all(&dir).map_err(|e| e.to_string())?;
    let conf = dir.join("nginx.conf");
    fs::write(&conf, nginx_conf(&dir, root, &world.listen_address(), port))
        .map_err(|e| e.to_string())?;
    let mut command = world.server_command(&nginx, listen)?;
    command.arg("-p").arg(&dir).arg("-c").arg(&conf).arg("-e").arg(dir.join("error.log"));
    start(command, &dir, port)
}

/// One process that stays in the foreground: no user switch, so that it also runs without root.
fn nginx_conf(dir: &Path, root: &Path, address: &str, port: u16) -> String {
    let (dir, root) = (dir.display(), root.display());
    format!(
        "daemon off;\nmaster_process off;\npid {dir}/pid;\nevents {{}}\nhttp {{\n\
         access_log off;\nclient_body_temp_path {dir}/body;\nproxy_temp_path {dir}/proxy;\n\
         fastcgi_temp_path {dir}/fastcgi;\nuwsgi_temp_path {dir}/uwsgi;\nscgi_temp_path {dir}/scgi;\n\
         server {{ listen {address}:{port}; root {root}; }}\n}}\n"
    )
}

/// Starts sshd for the current user with keys of its own.
pub(crate) fn start_sshd(world: &World, keys: &Keys, listen: Listen) -> Result<Service, String> {
    let sshd = need_program("sshd", "openssh-server")?;
    let (port, tag) = match listen {
        Listen::Tcp => (SSH_PORT, "tcp"),
        Listen::Mptcp => (SSH_MPTCP_PORT, "mptcp"),
    };
    let dir = world.work_dir().join(format!("sshd-{tag}"));
    fs::create_dir_all(&dir).map_err(|e| e.to_string())?;
    // sshd as root insists on its privilege separation folder; without root it does not use it.
    let _ = fs::create_dir_all("/run/sshd");
    let conf = dir.join("sshd_config");
    fs::write(&conf, sshd_conf(keys, &world.listen_address(), port)).map_err(|e| e.to_string())?;
    let mut command = world.server_command(&sshd, listen)?;
    command.arg("-D").arg("-e").arg("-f").arg(&conf);
    start(command, &dir, port)
}

fn sshd_conf(keys: &Keys, address: &str, port: u16) -> String {
    let sftp = "/usr/lib/openssh/sftp-server";
    let sftp = if Path::new(sftp).exists() { sftp } else { "internal-sftp" };
    format!(
        "Port {port}\nListenAddress {address}\nHostKey {}\nAuthorizedKeysFile {}\nStrictModes no\n\
         UsePAM no\nUseDNS no\nPasswordAuthentication no\nPermitRootLogin yes\nPidFile none\n\
         Subsystem sftp {sftp}\n",
        keys.host.display(),
        keys.authorized.display()
    )
}

/// The SSH keys of one demo.
#[derive(Debug)]
pub(crate) struct Keys {
    host: PathBuf,
    authorized: PathBuf,
    /// The client's private key.
    pub(crate) client: PathBuf,
}

impl Keys {
    /// Makes the keys in `dir` with ssh-keygen.
    pub(crate) fn generate(dir: &Path) -> Result<Self, String> {
        let keygen = need_program("ssh-keygen", "openssh-client")?;
        let (host, client) = (dir.join("host_key"), dir.join("client_key"));
        for key in [&host, &client] {
            let status = Command::new(&keygen)
                .args(["-q", "-t", "ed25519", "-N", "", "-f"])
                .arg(key)
                .status()
                .map_err(|e| e.to_string())?;
            if !status.success() {
                return Err(format!("ssh-keygen failed: {status}"));
            }
        }
        Ok(Self { host, authorized: client.with_extension("pub"), client })
    }
}

/// Starts `manypath serve` on the right host.
pub(crate) fn start_manypath(world: &World) -> Result<Service, Failure> {
    let exe = manypath_cli::programs::find("manypath")?;
    let mut command = world.server_command(&exe, Listen::Tcp).map_err(Failure::new)?;
    command.arg("serve").arg("--allow").arg(world.allow_list()).args(world.serve_options());
    let dir = world.work_dir().join("serve");
    fs::create_dir_all(&dir)?;
    let log = fs::File::create(dir.join("log"))?;
    command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
    let cannot = |e| Failure::new(format!("cannot start {} serve: {e}", exe.display()));
    let mut service = Service(command.spawn().map_err(cannot)?);
    wait_until(&mut service, &dir.join("log"), "manypath serve", |pid| bound(pid, "udp", UDP_PORT))
        .map_err(Failure::new)?;
    Ok(service)
}

/// The last lines that `manypath serve` has logged.
pub(crate) fn server_log(world: &World) -> String {
    let log = fs::read_to_string(world.work_dir().join("serve/log")).unwrap_or_default();
    let lines: Vec<&str> = log.lines().collect();
    lines[lines.len().saturating_sub(8)..].join("\n")
}

/// Starts a TCP service and waits until its port accepts connections.
fn start(mut command: Command, dir: &Path, port: u16) -> Result<Service, String> {
    let log_file = dir.join("log");
    let log = fs::File::create(&log_file).map_err(|e| e.to_string())?;
    let also = log.try_clone().map_err(|e| e.to_string())?;
    command.stdin(Stdio::null()).stdout(also).stderr(log);
    let name = command.get_program().to_string_lossy().into_owned();
    let mut service = Service(command.spawn().map_err(|e| format!("{name}: {e}"))?);
    wait_until(&mut service, &log_file, &name, |pid| bound(pid, "tcp", port))?;
    Ok(service)
}

/// Waits until `ready` holds for the service; its log is the reason when it does not.
fn wait_until(
    service: &mut Service,
    log: &Path,
    name: &str,
    ready: impl Fn(u32) -> bool,
) -> Result<(), String> {
    let limit = Instant::now() + START_LIMIT;
    while !ready(service.0.id()) {
        let ended = service.0.try_wait().map_err(|e| e.to_string())?;
        if ended.is_some() || Instant::now() > limit {
            let log = fs::read_to_string(log).unwrap_or_default();
            return Err(format!("{name} failed to start: {}", log.trim()));
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    Ok(())
}

/// Whether `port` is bound (UDP) or listened on (TCP) in the network namespace of `pid`.
fn bound(pid: u32, protocol: &str, port: u16) -> bool {
    let state = if protocol == "tcp" { "0A" } else { "07" };
    let table = fs::read_to_string(format!("/proc/{pid}/net/{protocol}")).unwrap_or_default();
    table.lines().skip(1).any(|line| {
        let mut fields = line.split_whitespace().skip(1);
        let local = fields.next().unwrap_or_default();
        local.ends_with(&format!(":{port:04X}")) && fields.nth(1) == Some(state)
    })
}
